"""The command explain: what puts one item above another, as bars."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from typing import Any

from ranksvm.cli.inputs import (
    Items,
    base_of,
    check_finite,
    only_one_stdin,
    read_any_model,
    read_items,
)
from ranksvm.cli.options import By, DataOptions
from ranksvm.cli.output import UsageProblem, counted, note, show_json
from ranksvm.cli.scoring import aligned_columns
from ranksvm.model_io import ModelRecord
from ranksvm.training.explain import Explanation, explain_kernel, explain_linear
from ranksvm.training.kernel_record import KERNEL_KINDS, read_expansion

__all__ = ["explain"]

# Columns of the picture, at most; names of queries in a message.
_WIDEST = 100
_MOST_NAMED = 5


def explain(
    model: str,
    file: str,
    i: str,
    j: str,
    top: int,
    by: By,
    qid: str | None,
    json: bool,
    data: DataOptions,
) -> None:
    """Show the parts of the difference of two scores."""
    only_one_stdin(model, file)
    if qid is not None and by is not By.docid:
        raise UsageProblem("--qid goes with --by docid: row numbers count all items of the data")
    if i == j:
        raise UsageProblem(f"{i} is named twice: give two different items")
    record = read_any_model(model)
    items = read_items(
        [file],
        data,
        labels=False,
        comments=True,
        features=record.feature_names,
        zero_based=base_of(record),
    )
    check_finite(items)
    find = _numbered(items) if by is By.row else _documents(items, qid)
    rows = find(i), find(j)
    if rows[0] == rows[1]:
        raise UsageProblem(f"{i} and {j} are the same item: give two different ones")
    called = (f"item {i}", f"item {j}") if by is By.row else (i, j)
    found = EXPLANATIONS[record.kind](record, items, rows, called)
    _tell_other_query(items, rows)
    if json:
        show_json(_as_json(found.top(top), items, rows))
        return
    width = min(shutil.get_terminal_size().columns, _WIDEST) if sys.stdout.isatty() else 80
    print(found.top(top).picture(width))


def _by_weights(
    record: ModelRecord, items: Items, rows: tuple[int, int], called: tuple[str, str]
) -> Explanation:
    X = aligned_columns(items, record.feature_names, record.n_features, "model", sparse=False)
    first = 0 if record.facts.get("zero_based") is True else 1
    return explain_linear(
        record.arrays["coef"], X, *rows, names=record.feature_names, first=first, items=called
    )


def _by_points(
    record: ModelRecord, items: Items, rows: tuple[int, int], called: tuple[str, str]
) -> Explanation:
    expansion, support = read_expansion(record.kind, record.arrays, record.facts)
    sparse = "indptr" in record.arrays
    X = aligned_columns(items, record.feature_names, record.n_features, "model", sparse=sparse)
    return explain_kernel(expansion, support, X, *rows, first=1, items=called)


EXPLANATIONS: dict[str, Callable[..., Explanation]] = {
    "linear": _by_weights,
    "factorized": _by_weights,
    **dict.fromkeys(KERNEL_KINDS, _by_points),
}


def _numbered(items: Items) -> Callable[[str], int]:
    """Rows of items by their numbers, which count from 1."""
    n_items = int(items.X.shape[0])

    def find(text: str) -> int:
        if not (text.isascii() and text.isdecimal()):
            raise UsageProblem(
                f"expected the number of an item, from 1 on; got {text!r}. --by docid takes "
                "document ids."
            )
        if not 1 <= int(text) <= n_items:
            raise ValueError(
                f"there is no item {text} in {items.source}: it has {counted(n_items, 'item')}, "
                "numbered from 1"
            )
        return int(text) - 1

    return find


def _documents(items: Items, qid: str | None) -> Callable[[str], int]:
    """Rows of items by their document ids, each of which must name one item."""
    source, documents = items.source, items.documents()
    if documents is None:
        raise ValueError(
            f"{source} has no document ids: LETOR text has them in comments (#docid = ...), a "
            "table in the column 'docid' or that of --docid-column. Use row numbers (--by row)."
        )
    queries = [None] * len(documents) if items.qid is None else list(map(str, items.qid.tolist()))
    if qid is not None and qid not in queries:
        raise ValueError(f"{source} has no query {qid}")
    where = source if qid is None else f"query {qid} of {source}"

    def find(docid: str) -> int:
        rows = [
            row
            for row, (one, query) in enumerate(zip(documents, queries, strict=True))
            if one == docid and (qid is None or query == qid)
        ]
        if not rows:
            raise ValueError(f"there is no document {docid} in {where}")
        inside = list(dict.fromkeys(str(queries[row]) for row in rows))
        if len(inside) > 1:
            raise UsageProblem(
                f"document {docid} is in {len(inside)} queries of {source}: {_listed(inside)}. Say "
                "which one is meant with --qid."
            )
        if len(rows) > 1:
            raise ValueError(
                f"document {docid} is {len(rows)} times in {where}: items "
                f"{_listed([str(row + 1) for row in rows])}. Use row numbers (--by row)."
            )
        return rows[0]

    return find


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_MOST_NAMED]) + (" ..." if len(names) > _MOST_NAMED else "")


def _tell_other_query(items: Items, rows: tuple[int, int]) -> None:
    if items.qid is None:
        return
    one, other = (items.qid[row] for row in rows)
    if one != other:
        note(f"the items are of different queries, {one} and {other}")


def _as_json(found: Explanation, items: Items, rows: tuple[int, int]) -> dict[str, Any]:
    documents = items.documents()
    return {
        "items": [
            {
                "item": row + 1,
                "docid": None if documents is None else documents[row],
                "qid": None if items.qid is None else items.qid[row],
                "score": score,
            }
            for row, score in zip(rows, found.scores, strict=True)
        ],
        "difference": found.difference,
        "part": found.part,
        "contributions": [
            {"name": name, "contribution": value}
            for name, value in zip(found.names, found.contributions.tolist(), strict=True)
        ],
        "others": found.others,
        "n_others": found.n_others,
    }
