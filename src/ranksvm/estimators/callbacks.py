"""The arguments ``callback`` and ``callbacks`` of ``fit``, as one function."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from ranksvm._messages import Param, ParameterError, Value
from ranksvm._vectors import Array
from ranksvm.solvers.base import Callback, TraceRow

# Where callbacks come from that expect something else.
_OTHERS = ("lightgbm", "xgboost", "catboost", "optuna", "optuna_integration", "keras")


def joined(callback: Callback | None, callbacks: Sequence[Callback] | None) -> Callback | None:
    """Return one function that calls all callbacks in order; None if there are none.

    All are called after every iteration.  If one of them returns a true value, the fit stops.

    Raises
    ------
    ParameterError
        If one cannot be called as ``callback(row, coef)``.
    """
    if callback is not None:
        _check(callback, "callback")
    if callbacks is None:
        return callback
    if callable(callbacks) or not isinstance(callbacks, Sequence) or isinstance(callbacks, str):
        raise ParameterError(
            "{callbacks} must be a list of functions; got {value}. {remedy}",
            remedy="Pass one function as {callback}.",
            callbacks=Param("callbacks"),
            callback=Param("callback"),
            value=Value(callbacks),
        )
    for number, one in enumerate(callbacks):
        _check(one, f"callbacks[{number}]")
    every = [*([] if callback is None else [callback]), *callbacks]
    if len(every) < 2:
        return every[0] if every else None

    def call_all(row: TraceRow, coef: Array) -> bool:
        answers = [one(row, coef) for one in every]  # all are called
        return any(answers)

    return call_all


def _check(callback: Any, name: str) -> None:
    """Raise unless something can be called with a row and coefficients."""
    if callable(callback):
        try:
            inspect.signature(callback).bind(None, None)
            return
        except ValueError:  # some built-in functions do not say what they take
            return
        except TypeError:
            pass
    kind = callback if inspect.isroutine(callback) else type(callback)
    home = (getattr(kind, "__module__", None) or "").partition(".")[0]
    called = f"{getattr(kind, '__qualname__', '?')} of {home}" if home in _OTHERS else None
    hint = "See docs/from-lightgbm.md for examples."
    if called is not None and "earlystop" in called.lower().replace("_", ""):
        hint = (
            "Fits of linear and kernel models end at their optimum, so there is nothing to stop "
            "early; FactorizedRankSVM(patience=10) stops early on eval_set."
        )
    raise ParameterError(
        "{name} must be callable as callback(row, coef); got {value}. {hint}",
        name=Param(name),
        value=Value(callback) if called is None else called,
        hint=hint,
    )
