"""Dask clusters: connect to one, and read data there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ranksvm._files import naming
from ranksvm._text import listed
from ranksvm.cli.inputs import note_one_query
from ranksvm.cli.options import DataOptions
from ranksvm.cli.output import UsageProblem
from ranksvm.data.ranking_data import RankingData

if TYPE_CHECKING:
    from ranksvm.dask.engine import Engine

LOCAL = re.compile(r"local:([1-9][0-9]{0,3})")
CONNECT_SECONDS = 15


@contextmanager
def open_cluster(address: str) -> Iterator[Engine]:
    """Connect to a cluster, or start worker processes on this machine with ``local:N``."""
    from ranksvm.dask.engine import Engine  # the package says how to install Dask

    # isort: split
    from distributed import Client, LocalCluster

    with ExitStack() as stack:
        target: Any = address
        local = LOCAL.fullmatch(address)
        if local is not None:
            target = stack.enter_context(
                LocalCluster(
                    n_workers=int(local[1]),
                    threads_per_worker=1,
                    processes=True,
                    dashboard_address=None,
                )
            )
        elif "://" not in address and not re.fullmatch(r".+:[0-9]+", address):
            raise UsageProblem(
                f"--dask {address!r} must be the address of a scheduler, such as "
                "tcp://10.0.0.1:8786, or local:N"
            )
        try:
            client = stack.enter_context(Client(target, timeout=CONNECT_SECONDS))
        except OSError as error:
            raise OSError(f"--dask {address}: no scheduler answers there ({error})") from None
        engine = Engine(client)
        stack.callback(engine.close)
        yield engine


def read_on_cluster(engine: Engine, files: Sequence[str], options: DataOptions) -> RankingData:
    """Let the workers read Parquet files; labels and query ids come here."""
    import dask.dataframe

    from ranksvm.dask.partitions import training_shards
    from ranksvm.data.file_sets import find_files
    from ranksvm.data.shard_files import column_names

    kind, found = find_files(list(files))
    there = column_names(found) if kind == "parquet" else None
    if there is None:
        raise UsageProblem(
            "--dask reads Parquet files. Convert the data first: ranksvm convert data.txt "
            "data.parquet"
        )
    name = listed(found, most=1)
    y, qid = options.label_column or "label", options.qid_column or "qid"
    wanted = (
        None if options.ignore_qid or (options.qid_column is None and qid not in there) else qid
    )
    if wanted is None and not options.ignore_qid:
        note_one_query(name, f"{qid!r} column", "Name the column with --qid-column, or use")
    if y not in there:
        raise ValueError(
            f"{name} has no column {y!r}; name the one with the labels with --label-column"
        )
    columns = [one for one in there if one != (options.docid_column or "docid")]
    if wanted is None:
        columns = [one for one in columns if one != qid]
    with naming(name):
        frame = dask.dataframe.read_parquet(found, columns=columns)
    data = training_shards(engine, frame, y, wanted)
    return replace(data, origin=replace(data.origin, name=name)).with_groups(data.groups)
