"""The client that a fit uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ranksvm._messages import Param, ParameterError, Value
from ranksvm.dask.engine import Engine


@contextmanager
def connected(client: Any) -> Iterator[Engine]:
    """Yield the engine of one fit, and release everything that it holds afterwards.

    Parameters
    ----------
    client : distributed.Client or None
        None for the current client.
    """
    with _out_of_the_way():
        engine = Engine(find_client(client))
        try:
            yield engine
        finally:
            engine.close()


def find_client(client: Any) -> Any:
    """Return the client to use: the given one, or the current one."""
    from distributed import Client, get_client

    if client is None:
        try:
            client = get_client()
        except ValueError:
            raise ParameterError(
                "there is no Dask client. Create one first (dask.distributed.Client()), or pass "
                "{client}.",
                client=Param("client"),
            ) from None
    if not isinstance(client, Client):
        text = "{client} must be a dask.distributed.Client or None; got {value}."
        if isinstance(client, str):
            text += " Connect first, and pass Client({value})."
        raise ParameterError(text, client=Param("client"), value=Value(client))
    if client.asynchronous:
        raise ParameterError(
            "{client} is asynchronous, and fit is not: use Client() without asynchronous=True, or "
            "run fit in a thread with a client of its own.",
            client=Param("client"),
        )
    if client.status in ("closing", "closed"):
        raise ParameterError(
            "{client} is closed. Connect to the cluster again (dask.distributed.Client), and pass "
            "the new client.",
            client=Param("client"),
        )
    return client


@contextmanager
def _out_of_the_way() -> Iterator[None]:
    """Leave the thread pool of the worker, if this is a task.

    A fit waits for tasks of its own, and without a free thread on any worker these would never run.
    """
    from distributed import get_worker, rejoin, secede

    has_left = False
    with suppress(ValueError, KeyError):  # no task, or a task that has left the pool already
        get_worker()
        secede()
        has_left = True
    try:
        yield
    finally:
        if has_left:
            rejoin()
