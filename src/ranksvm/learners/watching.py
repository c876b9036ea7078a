"""A metric on an evaluation set, after every iteration of a fit.

    scorer = problem.scorer(X)            from coefficients to the scores of other items
    validate = lambda coef: metric(scorer(coef))
    fit = problem.solve(validate=validate)

The rows of ``fit.history``, and those that the callback gets, then have the value of the metric.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ranksvm._vectors import Array
from ranksvm.solvers.base import Callback, TraceRow

Scorer = Callable[[Array], Array]
"""Returns the scores of items for coefficients, as a callback gets them."""

Validate = Callable[[Array], float]
"""Returns the value of a metric for coefficients, as a callback gets them; larger is better."""


class Watch:
    """A callback that adds a metric to the rows, and then calls another one.

    Parameters
    ----------
    validate : callable
        The metric.
    callback : callable or None
        The other callback.
    """

    def __init__(self, validate: Validate, callback: Callback | None) -> None:
        self._validate, self._callback = validate, callback
        self._values: list[float] = []

    def __call__(self, row: TraceRow, coef: Array) -> Any:
        self._values.append(self._validate(coef))
        if self._callback is None:
            return False
        return self._callback(row._replace(metric=self._values[-1]), coef)

    def history(self, rows: Sequence[TraceRow]) -> tuple[TraceRow, ...]:
        """Return the rows of the fit, all of which it has been called with, with the metric."""
        return tuple(
            row._replace(metric=value) for row, value in zip(rows, self._values, strict=True)
        )
