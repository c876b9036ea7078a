"""Options of the metrics, and the conventions that set their defaults.

    k               number of top ranks to look at; None for all
    gain            gain of an item with label y: "exp2" is 2^y - 1, "linear" is y
    discount        discount of rank r: "log2" is 1 / log2(1 + r); "letor" is 1 at ranks 1 and 2 and
                    1 / log2(r) below
    relevant_above  an item is relevant if y > relevant_above
    ties            rank of items with equal scores: "row_order" follows their rows, "average" takes
                    the mean over all their orders, in closed form
    empty           value of a query for which the metric is undefined: "skip" leaves it out of the
                    mean, "zero" and "one" count it as 0 or 1
    short           NDCG@k of a query with fewer than k items: "as_is" uses the items there are,
                    "zero" is 0
    max_grade       highest possible grade, for ERR; None for the largest label in the data

The evaluation scripts of LETOR 4.0 use a discount of their own and score 0 for queries without a
relevant item and, in NDCG@k, for queries with fewer than k items.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from ranksvm._checks import check_choice, check_integer, finite_number
from ranksvm._messages import Param, ParameterError, Value
from ranksvm.pairs.gains import Discount, Gain

Ties = Literal["row_order", "average"]
Empty = Literal["skip", "zero", "one"]
Short = Literal["as_is", "zero"]
Conventions = Literal["standard", "letor"]


@dataclass(frozen=True)
class Rules:
    """A value for every option; see the module docstring."""

    k: int | None = None
    gain: Gain = "exp2"
    discount: Discount = "log2"
    relevant_above: float = 0.0
    ties: Ties = "row_order"
    empty: Empty = "skip"
    short: Short = "as_is"
    max_grade: float | None = None


CONVENTIONS: Mapping[str, Rules] = {
    "standard": Rules(),
    "letor": Rules(discount="letor", empty="zero", short="zero"),
}

_CHOICES: Mapping[str, Any] = {
    "gain": Gain,
    "discount": Discount,
    "ties": Ties,
    "empty": Empty,
    "short": Short,
}


def rules_of(conventions: str = "standard", **options: Any) -> Rules:
    """Return the rules of the conventions, overridden by every option that is not None.

    Raises
    ------
    ValueError
        If an option has an invalid value.
    """
    check_choice("conventions", conventions, CONVENTIONS)
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        if name == "k":
            given[name] = check_integer(name, value, most=math.inf, also=", or None for all ranks")
        elif name in _CHOICES:
            check_choice(name, value, get_args(_CHOICES[name]))
        elif (number := finite_number(value)) is not None:
            given[name] = number
        else:
            raise ParameterError(
                "{name} must be a finite number; got {value}", name=Param(name), value=Value(value)
            )
    return replace(CONVENTIONS[conventions], **given)
