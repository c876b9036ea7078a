"""The results of a cell, the unit of work of a search, and their text in a checkpoint."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from ranksvm.metrics.registry import parse_metric
from ranksvm.solvers.base import Status

__all__ = ["UNREADABLE", "Cell"]

REALS = ("scores", "objectives", "gaps", "seconds")  # fields of a cell with one number per C
COUNTS = ("n_iter", "n_products")
NOT_FINITE = ("nan", "inf", "-inf")
# Exceptions raised while text that was not written here is parsed.
UNREADABLE = (ValueError, KeyError, TypeError, OverflowError, RecursionError)


@dataclass(frozen=True)
class Cell:
    """Results of all C on one training part: one entry per C in each tuple.

    ``scores`` are values of the metric on the held-out part, ``statuses`` names of
    :class:`ranksvm.solvers.base.Status`.
    """

    scores: tuple[float, ...]
    objectives: tuple[float, ...]
    gaps: tuple[float, ...]
    seconds: tuple[float, ...]
    n_iter: tuple[int, ...]
    n_products: tuple[int, ...]
    statuses: tuple[str, ...]
    solver: str

    def to_text(self) -> str:
        """Return the cell as JSON, with enough digits to restore every number exactly."""
        entries = {name: _plain(value) for name, value in asdict(self).items()}
        return json.dumps(entries, allow_nan=False)

    @classmethod
    def from_text(cls, text: str, n_C: int, metric: str) -> Self:
        """Parse the text of a cell; raise one of ``UNREADABLE`` if it is not valid."""
        entries = json.loads(text)
        if not isinstance(entries, dict) or entries.keys() != {one.name for one in fields(cls)}:
            raise ValueError
        statuses, solver = _listed(entries["statuses"], n_C), entries["solver"]
        if not isinstance(solver, str) or any(one not in Status.__members__ for one in statuses):
            raise ValueError
        numbers: dict[str, Any] = {
            **{name: tuple(map(_real, _listed(entries[name], n_C))) for name in REALS},
            **{name: tuple(map(_count, _listed(entries[name], n_C))) for name in COUNTS},
        }
        low, high = parse_metric(metric).bounds
        within = all(math.isnan(score) or low <= score <= high for score in numbers["scores"])
        if not within or any(value < 0.0 for name in REALS[1:] for value in numbers[name]):
            raise ValueError
        return cls(**numbers, statuses=tuple(statuses), solver=solver)


def _listed(values: Any, n: int) -> list[Any]:
    if not isinstance(values, list) or len(values) != n:
        raise ValueError
    return values


def _real(value: Any) -> float:
    if type(value) not in (float, int) and value not in NOT_FINITE:
        raise ValueError
    return float(value)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(float(value))  # float() parses it
    return value
