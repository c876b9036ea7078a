"""Join a TREC run with relevance judgments, for evaluation."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm._checks import check_choice
from ranksvm._text import printable
from ranksvm.data.queries import ids_from_text
from ranksvm.data.trec import Qrels, Run, as_objects

__all__ = ["JoinedRun", "join"]


class JoinedRun(NamedTuple):
    """A run with its judgments, ready for :mod:`ranksvm.metrics`.

    Attributes
    ----------
    y : ndarray of float64, shape (n_items,)
        Relevance labels.
    scores : ndarray of float64, shape (n_items,)
        Scores; -inf for documents that were not retrieved.
    qid : ndarray of shape (n_items,)
        Query ids.
    docid : ndarray of object, shape (n_items,)
        Document ids.
    """

    y: NDArray[np.float64]
    scores: NDArray[np.float64]
    qid: NDArray[Any]
    docid: NDArray[np.object_]


def join(
    qrels: Qrels,
    run: Run,
    *,
    unretrieved: Literal["unranked", "drop"] = "unranked",
    queries: Literal["both", "judged"] = "both",
) -> JoinedRun:
    """Combine judgments and scores, so that metrics agree with TREC's tools.

    Documents without a judgment or with a negative one count as not relevant (y = 0).  The rows of
    a query are sorted by descending score, and ties, which metrics break by row order, by
    descending document id.  This matches trec_eval, except that trec_eval first rounds scores to
    single precision, which may create more ties.  trec_eval scores a query without relevant
    documents 0; our metrics leave it out unless ``empty="zero"``.

    Parameters
    ----------
    qrels : Qrels
        Relevance judgments.
    run : Run
        Ranking to evaluate.
    unretrieved : {"unranked", "drop"}, default="unranked"
        What to do with documents that are judged but not in the run.  "unranked" gives them a score
        of -inf: in :mod:`ranksvm.metrics` they count in the ideal ranking and in the number of
        relevant documents, but have no rank.  "drop" leaves them out, which flatters a run that
        misses relevant documents.
    queries : {"both", "judged"}, default="both"
        Which queries to keep: those in both files, as trec_eval does by default, or all judged
        ones, as trec_eval does with the option ``-c``.  A query that is missing from the run has
        only unretrieved documents and scores 0; with "drop" it disappears.  Queries without
        judgments are always left out.

    Returns
    -------
    JoinedRun
        Rows grouped by query: by rank, then unretrieved documents in the order of the qrels.

    Raises
    ------
    ValueError
        No query is left.
    """
    check_choice("unretrieved", unretrieved, ("unranked", "drop"))
    check_choice("queries", queries, ("both", "judged"))
    # Ids are compared as text: they may be all integers in one file and not in the other.
    judged = _by_query(qrels.qid, qrels.docid, qrels.relevance)
    ranked = _by_query(run.qid, run.docid, run.score)
    names = [name for name in ranked if name in judged]
    if queries == "judged":
        names += [name for name in judged if name not in ranked]
    ids: list[str] = []
    documents: list[str] = []
    y: list[int] = []
    scores: list[float] = []
    for name in names:
        found, grades = ranked.get(name, {}), judged[name]
        rows = sorted(found, key=lambda document: (found[document], document), reverse=True)
        if unretrieved == "unranked":
            rows += [document for document in grades if document not in found]
        ids += [name] * len(rows)
        documents += rows
        y += [max(0, grades.get(document, 0)) for document in rows]
        scores += [found.get(document, -math.inf) for document in rows]
    if not ids:
        raise ValueError(
            f"no query of the run is judged: the run has queries {_some(ranked)}; the qrels have "
            f"{_some(judged)}. Do the files belong together?"
        )
    return JoinedRun(
        np.array(y, dtype=np.float64),
        np.array(scores, dtype=np.float64),
        ids_from_text(ids),
        as_objects(documents),
    )


def _by_query(
    qid: NDArray[Any], docid: NDArray[np.object_], values: NDArray[Any]
) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for query, document, value in zip(qid.tolist(), docid.tolist(), values.tolist(), strict=True):
        found.setdefault(str(query), {})[document] = value
    return found


def _some(names: dict[str, Any]) -> str:
    shown = printable(", ".join(list(names)[:3]))
    return shown + (", ..." if len(names) > 3 else "")
