"""Dask clusters: connect to one, and read data there."""

from __future__ import annotations

import logging
import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any

from ranksvm._text import listed
from ranksvm.cli.inputs import note_no_queries
from ranksvm.cli.options import DataOptions
from ranksvm.cli.output import UsageProblem
from ranksvm.data.ranking_data import RankingData

if TYPE_CHECKING:
    from ranksvm.dask.engine import Engine

LOCAL = re.compile(r"local:([1-9][0-9]{0,3})")
ADDRESS = re.compile(r".+://.+|.+:[0-9]+")
CONNECT_SECONDS = 15
# Options about LETOR text, with the values that change nothing.
OF_TEXT = {"duplicates": "error", "zero_based": None, "max_line_bytes": None}


@contextmanager
def open_cluster(address: str) -> Iterator[Engine]:
    """Connect to a cluster, or start worker processes on this machine with ``local:N``."""
    from ranksvm.dask.engine import Engine, WorkersLostError  # the package says how to install Dask

    # isort: split
    from distributed import Client, LocalCluster

    local = LOCAL.fullmatch(address)
    if local is None and re.fullmatch("local(:.*)?", address):
        raise UsageProblem(
            f"--dask {address}: N of local:N must be a number of worker processes from 1 to 9999, "
            "such as local:4"
        )
    if local is None and not ADDRESS.fullmatch(address):
        raise UsageProblem(
            f"--dask {address!r} must be the address of a scheduler, such as "
            "tcp://10.0.0.1:8786, or local:N"
        )
    with ExitStack() as stack:
        target: Any = address
        if local is not None:
            with _not_interrupted():
                cluster = LocalCluster(
                    n_workers=int(local[1]),
                    threads_per_worker=1,
                    processes=True,
                    dashboard_address=":0",  # any free port
                    silence_logs=logging.CRITICAL,  # errors of tasks come here, too
                )
                target = stack.enter_context(cluster)
        try:
            client = stack.enter_context(
                Client(target, timeout=CONNECT_SECONDS, set_as_default=False)
            )
        except (OSError, ValueError) as error:  # nobody there; an unknown protocol
            raise OSError(f"--dask {address}: no scheduler answers there ({error})") from None
        engine = Engine(client)
        stack.callback(engine.close)
        try:
            yield engine
        except WorkersLostError as error:
            raise OSError(f"--dask {address}: {error}") from error


@contextmanager
def _not_interrupted() -> Iterator[None]:
    """Let Ctrl-C reach only this process, and not those that are started here.

    A terminal sends Ctrl-C to all of them, and each would print where it was interrupted.  Threads
    and processes inherit which signals are blocked; this also goes for the thread of Dask that
    starts workers again.  Here, an interrupt has its effect at the end of the block.
    """
    if not hasattr(signal, "pthread_sigmask"):  # not a POSIX system
        yield
        return
    resource_tracker.ensure_running()  # it would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def read_on_cluster(engine: Engine, files: Sequence[str], options: DataOptions) -> RankingData:
    """Let the workers read Parquet files; labels and query ids come here."""
    from ranksvm.cli.pieces import check_ids, parquet_columns
    from ranksvm.dask.parquet import parquet_parts
    from ranksvm.dask.partitions import training_shards
    from ranksvm.data.file_sets import find_files
    from ranksvm.data.parquet.source import ParquetSource

    _check_options(options)
    kind, found = find_files(list(files))
    if kind != "parquet":
        raise UsageProblem(
            "--dask reads Parquet files. Convert the data first: ranksvm convert data.txt "
            "data.parquet"
        )
    name = listed(found, most=1)
    named, chosen, left_out = parquet_columns(found[0], options, name, labels=True)
    y, qid = named["label"], None if options.ignore_qid else named.get("qid")
    # It refuses files whose columns differ, before any worker reads one.
    columns = chosen if left_out else None
    source = ParquetSource(found, y=y, qid=qid, columns=columns, drop=named.values())
    parts, names = parquet_parts(found, [*source.feature_names, *filter(None, (y, qid))])
    if not parts:
        raise ValueError(f"{name} has no rows")
    data = training_shards(engine, parts, y, qid, names=names)
    data = replace(data, origin=replace(data.origin, name=name)).with_groups(data.groups)
    check_ids(data)
    note_no_queries(data, options)
    return data


def _check_options(options: DataOptions) -> None:
    """Refuse options that would have no effect."""
    if options.format not in ("auto", "parquet"):
        raise UsageProblem(
            f"--dask reads Parquet files, and not --format {options.format}. Convert the data "
            "first: ranksvm convert data.txt data.parquet"
        )
    if options.missing != "error":
        raise UsageProblem(
            f"--missing {options.missing} does not work with --dask: fill the values in"
        )
    for option in ("weight_column", "query_weight_column", "min_frequency"):
        if getattr(options, option) is not None:
            raise UsageProblem(
                f"--{option.replace('_', '-')} does not work with --dask: leave it out"
            )
    for option, default in OF_TEXT.items():
        if getattr(options, option) != default:
            flag = f"--{option.replace('_', '-')}"
            if option == "zero_based" and not options.zero_based:
                flag = "--one-based"
            raise UsageProblem(
                f"{flag} is about LETOR text, and --dask reads Parquet files: leave it out"
            )
