"""The results of a cell, the unit of work of a search, and their text in a checkpoint."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from ranksvm._messages import Message
from ranksvm.learners.fit import relative_gap, solver_shortfall
from ranksvm.model_selection.judges import judge_named
from ranksvm.solvers.base import Status

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

    def shortfalls(self, tol: float) -> Iterator[Message]:
        """Yield a message with a remedy for each fit that ended before it reached ``tol``."""
        for k, status in enumerate(self.statuses):
            gap = relative_gap(self.objectives[k], self.gaps[k])
            short = solver_shortfall(self.solver, Status[status], self.n_iter[k], gap, tol)
            if short is not None:
                yield short

    def to_text(self) -> str:
        """Return the cell as JSON, with enough digits to restore every number exactly."""
        entries: dict[str, Any] = asdict(self)
        for name in REALS:
            # JSON has no infinity and no NaN; float() parses their text.
            entries[name] = [x if math.isfinite(x) else repr(float(x)) for x in entries[name]]
        return json.dumps(entries, allow_nan=False)

    @classmethod
    def from_text(cls, text: str, n_C: int, metric: str) -> Self:
        """Parse the text of a cell; raise one of ``UNREADABLE`` if it is not valid."""
        entries = json.loads(text)
        if not isinstance(entries, dict) or entries.keys() != {one.name for one in fields(cls)}:
            raise ValueError
        solver = entries.pop("solver")
        if not isinstance(solver, str):
            raise ValueError
        for name, values in entries.items():
            if not isinstance(values, list) or len(values) != n_C:
                raise ValueError
            entries[name] = tuple(map(_READ[name], values))
        low, high = judge_named(metric).bounds
        within = all(math.isnan(score) or low <= score <= high for score in entries["scores"])
        if not within or any(value < 0.0 for name in REALS[1:] for value in entries[name]):
            raise ValueError
        return cls(**entries, solver=solver)


def _real(value: Any) -> float:
    if type(value) not in (float, int) and value not in NOT_FINITE:
        raise ValueError
    return float(value)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError
    return value


def _status(value: Any) -> str:
    return Status[value].name


_READ = {**dict.fromkeys(REALS, _real), **dict.fromkeys(COUNTS, _count), "statuses": _status}
