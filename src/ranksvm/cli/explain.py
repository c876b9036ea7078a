"""The command explain: what puts one item above another, as bars."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from typing import Annotated, Any

import typer

from ranksvm._text import counted, listed
from ranksvm.cli.columns import aligned_columns, check_queries
from ranksvm.cli.inputs import check_features, documents_of, only_one_stdin, read_with_model
from ranksvm.cli.options import By, Json, RankingOptions, command, examples
from ranksvm.cli.output import UsageProblem, note, say, show_json
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners.linear_model import LinearModel
from ranksvm.models.explain import Explanation

# Columns of the picture, at most, and characters of a name in a message.
_WIDEST = 100
_MOST_SHOWN = 60


@command(
    epilog=examples(
        "ranksvm explain m.safetensors test.txt 3 7",
        "ranksvm explain m.safetensors test.txt D12 D40 --by docid --qid 5",
    ),
    data=RankingOptions,
)
def app(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Model file (ranksvm or SVM^rank).")
    ],
    file: Annotated[str, typer.Argument(metavar="DATA", help="Data with the two items.")],
    i: Annotated[str, typer.Argument(metavar="I", help="One item: its number, counted from 1.")],
    j: Annotated[str, typer.Argument(metavar="J", help="The other item.")],
    top: Annotated[int, typer.Option(min=0, help="Number of contributions to show.")] = 10,
    by: Annotated[
        By, typer.Option(help="Whether I and J are row numbers or document ids.")
    ] = "row",
    qid: Annotated[
        str | None,
        typer.Option(
            metavar="QID", help="Query of the two documents; needed if several contain both."
        ),
    ] = None,
    json: Json = False,
    *,
    data: RankingOptions,
) -> None:
    """Show what puts one item above another: a bar to the right favors I, one to the left J.

    Features are numbered as in the data file: from 1, or from 0 if it counts so.
    """
    only_one_stdin(model, file)
    if qid is not None and by != "docid":
        raise UsageProblem("--qid needs --by docid")
    if i == j:
        raise UsageProblem(f"{_shown(i)} is named twice: give two different items")
    options = replace(data, may_keep_missing=False)
    found, items = read_with_model(model, [file], options, comments=True)
    if by == "row":
        rows = _numbered(items, i), _numbered(items, j)
    else:
        rows = _documents(items, (i, j), qid)
    if rows[0] == rows[1]:
        raise UsageProblem(
            f"{_shown(i)} and {_shown(j)} are the same item: give two different ones"
        )
    check_queries(found, items)
    X = aligned_columns(items, found.feature_names, found.n_features, "model", found.is_sparse)
    check_features(items, None if found.view else rows)
    called = (f"item {i}", f"item {j}") if by == "row" else (i, j)
    # Parts count from 1, or from 0 if they are features that the training data counted so.
    from_zero = isinstance(found, LinearModel) and found.facts.get("zero_based") is True
    first = 0 if from_zero else 1
    groups = items.groups if found.view else None
    explanation = found.explain(X, *rows, groups=groups, items=called, first=first)
    if items.qid is not None and items.qid[rows[0]] != items.qid[rows[1]]:
        one, other = (items.qid[row] for row in rows)
        note(f"the items are of different queries, {one} and {other}")
    if json:
        show_json(_as_json(explanation.top(top), items, rows, first))
        return
    width = min(shutil.get_terminal_size().columns, _WIDEST) if sys.stdout.isatty() else 80
    say(explanation.top(top).picture(width))


def _numbered(items: RankingData, text: str) -> int:
    """Row of an item by its number, which counts from 1."""
    n_items = items.n_items
    if not (text.isascii() and text.isdecimal()):
        raise UsageProblem(
            f"expected an item number (1, 2, ...); got {_shown(text)!r}. For document ids, use "
            "--by docid."
        )
    digits = text.lstrip("0")
    if not digits or len(digits) > len(str(n_items)) or int(digits) > n_items:
        raise ValueError(
            f"there is no item {_shown(text)} in {items.origin.name}: it has "
            f"{counted(n_items, 'item')}, numbered from 1"
        )
    return int(digits) - 1


def _documents(items: RankingData, docids: tuple[str, str], qid: str | None) -> tuple[int, int]:
    """Rows of two items by their document ids.

    What is in several rows is looked for in the query that was named, or else in the one query that
    has both documents.
    """
    source, documents = items.origin.name, documents_of(items, "--by")
    queries = [""] * len(documents) if items.qid is None else list(map(str, items.qid.tolist()))
    if qid is not None and (items.qid is None or qid not in queries):
        raise ValueError(f"{source} has no query {qid}")
    where = source if qid is None else f"query {qid} of {source}"
    found = []
    for docid in docids:
        rows = [row for row, document in enumerate(documents) if document == docid]
        found.append([row for row in rows if qid in (None, queries[row])])
        if not found[-1]:
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
                f"{len(both)} queries of {source} have both documents ({listed(both)}). Say which "
                "one is meant with --qid."
            )
        found = [[row for row in rows if queries[row] == both[0]] for rows in found]
        where = source if items.qid is None else f"query {both[0]} of {source}"
    for docid, rows in zip(docids, found, strict=True):
        if len(rows) > 1:
            raise ValueError(
                f"document {_shown(docid)} is {len(rows)} times in {where} (items "
                f"{listed(str(row + 1) for row in rows)}). Use row numbers (--by row)."
            )
    return found[0][0], found[1][0]


def _shown(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _as_json(
    found: Explanation, items: RankingData, rows: tuple[int, int], first: int
) -> dict[str, Any]:
    return {
        "items": [
            {
                "item": row + 1,
                "docid": None if items.docids is None else items.docids[row],
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
