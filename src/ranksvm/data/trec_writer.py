"""Write rankings as TREC runs; :mod:`ranksvm.data.trec` describes the format."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranksvm._messages import Message, ParameterError, Row
from ranksvm._values import as_float, exact_vector
from ranksvm.data.queries import QueryGroups
from ranksvm.data.targets import Target, write_lines

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def write_run(
    target: Target,
    qid: ArrayLike | None,
    docid: ArrayLike,
    scores: ArrayLike,
    *,
    tag: str = "ranksvm",
) -> None:
    """Write a ranking as a TREC run.

    Queries are written in order of first appearance, and the documents of a query by descending
    score, with ranks from 1.  Documents with equal scores keep their order.  TREC's tools (and
    :func:`join`) ignore the ranks and order equal scores by descending document id.  Scores are
    written with all digits, so that different scores stay different.

    Parameters
    ----------
    target : path, "-" or file object
        File to write; see :func:`save_letor`.
    qid : array-like of shape (n_items,), or None
        Query ids; None means a single query, 0.
    docid : array-like of str, shape (n_items,)
        Document ids.
    scores : array-like of shape (n_items,)
        Scores; larger is better.
    tag : str, default="ranksvm"
        Name of the run.

    Raises
    ------
    ValueError
        If lengths differ, a score is not finite, an id or the tag contains whitespace, or a
        document occurs twice in a query.  Nothing is written in that case.
    """
    values = as_float("scores", exact_vector("scores", scores))
    if values.ndim != 1:
        raise ValueError(f"scores must be one-dimensional; got shape {values.shape}")
    n_items = values.shape[0]
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise ParameterError(
            "scores must be finite; got {value} in {row}", value=values[bad[0]], row=Row(bad[0])
        )
    documents = np.asarray(docid, dtype=object)
    if documents.shape != (n_items,):
        raise ValueError(
            f"docid must have one id per score; got shape {documents.shape} for {n_items} scores"
        )
    _check_word("tag", tag)
    groups = QueryGroups.from_qid(qid, n_items)
    names = [str(query) for query in groups.ids.tolist()]
    for name in names:
        _check_word("qid", name)
    index = groups.index
    order = np.lexsort((-values, index))
    ranks = np.arange(n_items) - groups.offsets[index[order]] + 1
    _check_documents(documents, index, names)
    columns = (index[order], documents[order], ranks, values[order])
    rows = zip(*(column.tolist() for column in columns), strict=True)
    write_lines(target, (f"{names[q]} Q0 {d} {r} {s!r} {tag}" for q, d, r, s in rows))


def _check_word(name: str, word: object, row: int | None = None) -> None:
    fine = isinstance(word, str) and len(word.split()) == 1 and word == word.strip()
    if not fine or _CONTROL.search(str(word)):
        raise ParameterError(
            "{name} must be a word without whitespace or control characters; got {word!r}",
            name=name if row is None else Message("{name} of {row}", name=name, row=Row(row)),
            word=word,
        )


def _check_documents(
    documents: NDArray[np.object_], index: NDArray[np.int64], names: list[str]
) -> None:
    seen: set[tuple[int, str]] = set()
    for row, key in enumerate(zip(index.tolist(), documents.tolist(), strict=True)):
        _check_word("docid", key[1], row)
        if key in seen:
            raise ParameterError(
                "docid {docid!r} of {row} occurs twice in query {query}; a run must list a "
                "document once per query",
                docid=key[1],
                row=Row(row),
                query=names[key[0]],
            )
        seen.add(key)
