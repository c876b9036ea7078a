"""What the definition of a metric leaves open, by name.

    k               ranks that count; None for all
    gain            of an item with utility y: "exp2" is 2^y - 1, "linear" is y
    discount        of rank r: "log2" is 1 / log2(1 + r); "letor" is 1 at ranks 1 and 2 and
                    1 / log2(r) after
    relevant_above  an item is relevant when y > relevant_above
    ties            "row_order" ranks items with equal scores in the order of their rows; "average"
                    takes the mean over all their orders, in closed form
    empty           the score of a query for which the metric is not defined: "skip" leaves it
                    out of the mean, "zero", "one"
    short           NDCG@k of a query with fewer than k items: "as_is" judges those it has,
                    "zero" is 0
    max_grade       the highest grade that ERR reckons with; None for the largest utility given

Conventions are such choices made once.  LETOR 4.0's evaluation scripts differ from what is usual in
the discount, in counting queries without a relevant item as 0, and in the 0 of short queries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Literal

from ranksvm._checks import finite_number, shown

__all__ = [
    "CONVENTIONS",
    "Conventions",
    "Discount",
    "Empty",
    "Gain",
    "Rules",
    "Short",
    "Ties",
    "check_choice",
    "rules_of",
]

Gain = Literal["exp2", "linear"]
Discount = Literal["log2", "letor"]
Ties = Literal["row_order", "average"]
Empty = Literal["skip", "zero", "one"]
Short = Literal["as_is", "zero"]
Conventions = Literal["standard", "letor"]


@dataclass(frozen=True)
class Rules:
    """One choice for everything; see the module's text."""

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

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "gain": ("exp2", "linear"),
    "discount": ("log2", "letor"),
    "ties": ("row_order", "average"),
    "empty": ("skip", "zero", "one"),
    "short": ("as_is", "zero"),
}


def rules_of(conventions: str = "standard", **given: Any) -> Rules:
    """Return the rules of the conventions, except for those given: what is not None wins.

    Raises
    ------
    ValueError
        If a choice is not among the valid ones.
    """
    check_choice("conventions", conventions, CONVENTIONS)
    chosen = {name: value for name, value in given.items() if value is not None}
    for name, value in chosen.items():
        if name == "k":
            chosen[name] = _check_cutoff(value)
        elif name in _CHOICES:
            check_choice(name, value, _CHOICES[name])
        else:
            chosen[name] = _check_number(name, value)
    return replace(CONVENTIONS[conventions], **chosen)


def check_choice(name: str, value: object, valid: Iterable[str]) -> None:
    """Raise unless ``value`` is one of ``valid``; the error lists them."""
    valid = list(valid)
    if not isinstance(value, str) or value not in valid:
        raise ValueError(f"{name} must be one of {valid}; got {value!r}.")


def _check_cutoff(k: Any) -> int:
    if isinstance(k, bool) or not isinstance(k, Integral) or k < 1:
        raise ValueError(f"k must be an integer >= 1, or None for all ranks; got {shown(k)}.")
    return int(k)


def _check_number(name: str, value: Any) -> float:
    number = finite_number(value)
    if number is None:
        raise ValueError(f"{name} must be a finite number; got {shown(value)}.")
    return number
