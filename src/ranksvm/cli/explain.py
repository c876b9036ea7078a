"""The command explain: what puts one item above another, as bars."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ranksvm.cli.inputs import (
    Items,
    base_of,
    check_features,
    documents_of,
    only_one_stdin,
    read_any_model,
    read_items,
)
from ranksvm.cli.options import By, DataOptions
from ranksvm.cli.output import UsageProblem, counted, note, say, show_json
from ranksvm.cli.scoring import aligned_columns
from ranksvm.model_io import ModelRecord
from ranksvm.training.explain import Explanation, explain_kernel, explain_linear
from ranksvm.training.kernel_record import KERNEL_KINDS, read_expansion

__all__ = ["explain"]

# Columns of the picture, at most; names of queries, and characters of a name, in a message.
_WIDEST = 100
_MOST_NAMED = 5
_MOST_SHOWN = 60


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
        raise UsageProblem("--qid needs --by docid")
    if i == j:
        raise UsageProblem(f"{_shown(i)} is named twice: give two different items")
    record = read_any_model(model)
    items = read_items(
        [file],
        replace(data, may_keep_missing=False),
        labels=False,
        comments=True,
        features=record.feature_names,
        zero_based=base_of(record),
    )
    if by is By.row:
        rows = _numbered(items, i), _numbered(items, j)
    else:
        rows = _documents(items, (i, j), qid)
    if rows[0] == rows[1]:
        raise UsageProblem(
            f"{_shown(i)} and {_shown(j)} are the same item: give two different ones"
        )
    check_features(items, rows)
    called = (f"item {i}", f"item {j}") if by is By.row else (i, j)
    found = EXPLANATIONS[record.kind](record, items, rows, called)
    _tell_other_query(items, rows)
    if json:
        show_json(_as_json(found.top(top), items, rows, _first(record)))
        return
    width = min(shutil.get_terminal_size().columns, _WIDEST) if sys.stdout.isatty() else 80
    say(found.top(top).picture(width))


def _by_weights(
    record: ModelRecord, items: Items, rows: tuple[int, int], called: tuple[str, str]
) -> Explanation:
    X = aligned_columns(items, record.feature_names, record.n_features, "model", sparse=False)
    return explain_linear(
        record.arrays["coef"],
        X,
        *rows,
        names=record.feature_names,
        first=_first(record),
        items=called,
    )


def _by_points(
    record: ModelRecord, items: Items, rows: tuple[int, int], called: tuple[str, str]
) -> Explanation:
    expansion, support = read_expansion(record.kind, record.arrays, record.facts)
    sparse = "indptr" in record.arrays
    X = aligned_columns(items, record.feature_names, record.n_features, "model", sparse=sparse)
    return explain_kernel(expansion, support, X, *rows, first=_first(record), items=called)


def _first(record: ModelRecord) -> int:
    """Return what parts count from: 1, or 0 for features that the training data counted so."""
    of_features = record.kind not in KERNEL_KINDS
    return 0 if of_features and record.facts.get("zero_based") is True else 1


EXPLANATIONS: dict[str, Callable[..., Explanation]] = {
    "linear": _by_weights,
    "factorized": _by_weights,
    **dict.fromkeys(KERNEL_KINDS, _by_points),
}


def _numbered(items: Items, text: str) -> int:
    """Row of an item by its number, which counts from 1."""
    n_items = int(items.X.shape[0])
    if not (text.isascii() and text.isdecimal()):
        raise UsageProblem(
            f"expected an item number (1, 2, ...); got {_shown(text)!r}. For document ids, use "
            "--by docid."
        )
    digits = text.lstrip("0")
    if not digits or len(digits) > len(str(n_items)) or int(digits) > n_items:
        raise ValueError(
            f"there is no item {_shown(text)} in {items.source}: it has "
            f"{counted(n_items, 'item')}, numbered from 1"
        )
    return int(digits) - 1


def _documents(items: Items, docids: tuple[str, str], qid: str | None) -> tuple[int, int]:
    """Rows of two items by their document ids.

    What is in several rows is looked for in the query that was named, or else in the one query that
    has both documents.
    """
    source, documents = items.source, documents_of(items, "--by")
    queries = [""] * len(documents) if items.qid is None else list(map(str, items.qid.tolist()))
    if qid is not None and (items.qid is None or qid not in queries):
        raise ValueError(f"{source} has no query {qid}")
    found = [
        [
            row
            for row, document in enumerate(documents)
            if document == docid and qid in (None, queries[row])
        ]
        for docid in docids
    ]
    where = source if qid is None else f"query {qid} of {source}"
    for docid, rows in zip(docids, found, strict=True):
        if not rows:
            raise ValueError(f"there is no document {_shown(docid)} in {where}")
    if qid is None and max(map(len, found)) > 1:
        inside = [dict.fromkeys(queries[row] for row in rows) for rows in found]
        both = [query for query in inside[0] if query in inside[1]]
        if not both:
            raise ValueError(
                f"no query of {source} has both documents, {_shown(docids[0])} and "
                f"{_shown(docids[1])}. Use row numbers (--by row)."
            )
        if len(both) > 1:
            raise UsageProblem(
                f"{len(both)} queries of {source} have both documents ({_listed(both)}). Say which "
                "one is meant with --qid."
            )
        found = [[row for row in rows if queries[row] == both[0]] for rows in found]
        where = source if items.qid is None else f"query {both[0]} of {source}"
    for docid, rows in zip(docids, found, strict=True):
        if len(rows) > 1:
            raise ValueError(
                f"document {_shown(docid)} is {len(rows)} times in {where} (items "
                f"{_listed([str(row + 1) for row in rows])}). Use row numbers (--by row)."
            )
    return found[0][0], found[1][0]


def _shown(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")


def _tell_other_query(items: Items, rows: tuple[int, int]) -> None:
    if items.qid is None:
        return
    one, other = (items.qid[row] for row in rows)
    if one != other:
        note(f"the items are of different queries, {one} and {other}")


def _as_json(found: Explanation, items: Items, rows: tuple[int, int], first: int) -> dict[str, Any]:
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
            {"name": name, "index": first + index, "contribution": value}
            for name, index, value in zip(
                found.names, found.index.tolist(), found.contributions.tolist(), strict=True
            )
        ],
        "others": found.others,
        "n_others": found.n_others,
    }
