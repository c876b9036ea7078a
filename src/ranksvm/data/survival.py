"""Survival times: when an event happened, or until when it had not happened (censored).

Two items are comparable if it is known which one had its event first: the earlier time must be an
event.  At the same time, an event comes before a censored item, whose own event is still to come;
two events, or two censored items, are not comparable.  Harrell's concordance index has these rules.

So items are ordered by time, and by censoring at the same time, and only events are the worse item
of a pair: ``worse`` of :class:`ranksvm.data.roles.RoleWeights` is 1 for events and 0 for others.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._values import refuse_masked
from ranksvm._vectors import Array
from ranksvm.data.roles import RoleWeights

_APART = "Pass times and events apart: fit(X, time, event=event)."


def split_target(y: Any, event: Any, name: str = "y") -> tuple[Any, Any]:
    """Return times and events, from a target that has both or from two arguments.

    Parameters
    ----------
    y : array-like
        Times; or a structured array or a frame with two columns, one of which is boolean and tells
        the events.  scikit-survival has such arrays.
    event : array-like or None
    name : str
        Name of ``y`` in messages.
    """
    columns = _columns(y)
    if columns is None:
        if getattr(y, "ndim", 1) == 2 and y.shape[1] == 2:
            raise ValueError(
                f"{name} has two columns without names; it is not clear which one has the times. "
                f"{_APART}"
            )
        return y, event
    if event is not None:
        raise ValueError(f"{name} has the events already; pass event= only if it has times alone")
    boolean = [column for column in columns.values() if column.dtype == np.bool_]
    if len(columns) != 2 or len(boolean) != 1:
        shown = ", ".join(f"{key!r} ({column.dtype})" for key, column in columns.items())
        raise ValueError(
            f"{name} must have two columns, the events as booleans and the times as numbers; got "
            f"{shown}. {_APART}"
        )
    first, second = columns.values()
    return (second, first) if first is boolean[0] else (first, second)


def _columns(y: Any) -> dict[str, NDArray[Any]] | None:
    """Return the columns of a structured array or frame; None for anything else."""
    names = getattr(getattr(y, "dtype", None), "names", None)
    if names is not None:
        return {name: np.asarray(y[name]) for name in names}
    if isinstance(y, np.ndarray | list | tuple):
        return None
    # Imported here because commands need neither.
    import narwhals as nw

    from ranksvm.data.frames import is_frame

    if not is_frame(y):
        return None
    frame = nw.from_native(y, eager_only=True)
    if len(frame.columns) == 1:
        return None
    return {name: _values(frame[name]) for name in frame.columns}


def _values(column: Any) -> NDArray[Any]:
    values: NDArray[Any] = np.asarray(column.to_numpy())
    # Nullable booleans are objects in NumPy.
    is_boolean = str(column.dtype) == "Boolean" and not column.null_count()
    return values.astype(np.bool_) if is_boolean else values


def check_events(event: Any, n_items: int) -> NDArray[np.bool_]:
    """Return for each item whether it had an event; None means that all had."""
    if event is None:
        return np.ones(n_items, dtype=np.bool_)
    refuse_masked("event", event)
    given = np.asarray(event)
    if given.ndim == 2 and given.shape[1] == 1:
        given = given[:, 0]
    if given.ndim != 1 or len(given) != n_items:
        got = f"{len(given)} values" if given.ndim == 1 else f"an array of {given.ndim} dimensions"
        raise ValueError(f"event must have one value per item ({n_items}); got {got}")
    if given.dtype == np.bool_:
        return given
    numbers = given.dtype.kind in "iuf"
    known = (given == 0) | (given == 1) if numbers else _are_flags(given)
    if not known.all():
        row = int(np.argmin(known))
        raise ValueError(
            f"event must be True or 1 (the event happened) or False or 0 (censored); got "
            f"{given.tolist()[row]!r} in row {row} ({int((~known).sum())} such values)"
        )
    happened: NDArray[np.bool_] = given.astype(np.bool_)
    return happened


def _are_flags(values: NDArray[Any]) -> NDArray[np.bool_]:
    return np.array(
        [isinstance(one, Real | np.bool_) and one in (0, 1) for one in values.tolist()],
        dtype=np.bool_,
    )


def survival_order(time: Array, event: NDArray[np.bool_]) -> tuple[Array, RoleWeights | None]:
    """Return what orders the items, larger for longer survival, and their weights in pairs.

    A censored item gets the next number after its time.  If an event has just that time, the two
    are not comparable, and equal numbers say so.  If nothing is censored, times are labels like any
    others.
    """
    if event.all():
        return time, None
    with np.errstate(over="ignore"):
        order = np.where(event, time, np.nextafter(time, np.inf))
    if np.isinf(order).any():  # there is no number after the largest one
        order = np.unique(order, return_inverse=True)[1].reshape(-1).astype(np.float64)
    return order, RoleWeights(worse=event.astype(np.float64))


def no_event(n_items: int) -> ValueError:
    """Return the error for data in which nothing happened."""
    return ValueError(
        f"no event: all {n_items} items are censored, so it is not known for any two of them which "
        "one survived longer. Check event: True or 1 means that the event happened."
    )
