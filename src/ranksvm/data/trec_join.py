"""TREC judgments and runs together: the items that metrics score.

As TREC's tools do, documents without a judgment count as not relevant, judged ones that a run lacks
as not retrieved, and ties are broken by descending document id.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksvm._checks import check_choice
from ranksvm._text import printable
from ranksvm._values import as_objects
from ranksvm.data.queries import ids_from_text
from ranksvm.data.trec import Qrels, Run


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


class JoinedRuns(NamedTuple):
    """Several runs with their judgments, ready for :func:`ranksvm.metrics.compare`.

    Attributes
    ----------
    y : ndarray of float64, shape (n_items,)
        Relevance labels.
    scores : dict of str to ndarray of float64, shape (n_items,)
        Scores by name of the run; -inf for documents that the run has not retrieved.
    qid : ndarray of shape (n_items,)
        Query ids.
    docid : ndarray of object, shape (n_items,)
        Document ids.
    missing : dict of str to list of str
        By name of the run: judged queries of other runs that it lacks, which are left out.
    """

    y: NDArray[np.float64]
    scores: dict[str, NDArray[np.float64]]
    qid: NDArray[Any]
    docid: NDArray[np.object_]
    missing: dict[str, list[str]]


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
        raise _no_query("the run", ranked, judged)
    return JoinedRun(
        np.array(y, dtype=np.float64),
        np.array(scores, dtype=np.float64),
        ids_from_text(ids),
        as_objects(documents),
    )


def join_runs(qrels: Qrels, runs: Mapping[str, Run]) -> JoinedRuns:
    r"""Combine judgments and the scores of several runs, to compare these query by query.

    The rules are those of :func:`join`: documents without a judgment are not relevant, judged ones
    that a run lacks have no rank in it, equal scores are ordered by descending document id.  All
    runs are judged on the same items: the queries that the qrels and every run have, and of these
    the documents that are judged or in any run.  The metrics of :mod:`ranksvm.metrics` that look
    at retrieved and relevant documents only (such as ndcg, map, p, recall and mrr) have the same
    values as with :func:`join`.  Those that look at all documents (such as mean_ndcg,
    pairwise_accuracy, kendall_tau and auc) also count documents that only another run has.

    Parameters
    ----------
    qrels : Qrels
        Relevance judgments.
    runs : mapping of str to Run
        Rankings by name.

    Returns
    -------
    JoinedRuns
        Rows grouped by query, in the order of the first run, by descending document id.

    Raises
    ------
    ValueError
        If there is no run, or no query is in the qrels and in every run.

    Examples
    --------
    >>> import io
    >>> from ranksvm.data import join_runs, read_qrels, read_run
    >>> qrels = read_qrels(io.BytesIO(b"1 0 a 1\n1 0 b 0\n"))
    >>> old = read_run(io.BytesIO(b"1 Q0 a 1 0.9 old\n1 Q0 b 2 0.1 old\n"))
    >>> new = read_run(io.BytesIO(b"1 Q0 c 1 0.7 new\n"))
    >>> joined = join_runs(qrels, {"old": old, "new": new})
    >>> joined.docid.tolist(), joined.y.tolist()
    (['c', 'b', 'a'], [0.0, 0.0, 1.0])
    >>> joined.scores["new"].tolist()
    [0.7, -inf, -inf]
    """
    if not runs:
        raise ValueError("join_runs needs at least one run; got none")
    judged = _by_query(qrels.qid, qrels.docid, qrels.relevance)
    ranked = {name: _by_query(run.qid, run.docid, run.score) for name, run in runs.items()}
    for name, found in ranked.items():
        if not found.keys() & judged.keys():
            raise _no_query(f"the run {printable(name)}", found, judged)
    known = [q for q in dict.fromkeys(q for found in ranked.values() for q in found) if q in judged]
    queries = [q for q in known if all(q in found for found in ranked.values())]
    if not queries:
        some = "; ".join(f"{printable(name)} has {_some(found)}" for name, found in ranked.items())
        raise ValueError(f"no judged query is in every run: {some}. Do the files belong together?")
    ids: list[str] = []
    documents: list[str] = []
    y: list[int] = []
    scores: dict[str, list[float]] = {name: [] for name in ranked}
    for query in queries:
        grades, of_runs = judged[query], [found[query] for found in ranked.values()]
        # Metrics break ties by row order.
        rows = sorted({*grades, *(document for found in of_runs for document in found)})[::-1]
        ids += [query] * len(rows)
        documents += rows
        y += [max(0, grades.get(document, 0)) for document in rows]
        for into, known_scores in zip(scores.values(), of_runs, strict=True):
            into += [known_scores.get(document, -math.inf) for document in rows]
    return JoinedRuns(
        np.array(y, dtype=np.float64),
        {name: np.array(values, dtype=np.float64) for name, values in scores.items()},
        ids_from_text(ids),
        as_objects(documents),
        {name: [q for q in known if q not in found] for name, found in ranked.items()},
    )


def _no_query(run: str, ranked: dict[str, Any], judged: dict[str, Any]) -> ValueError:
    return ValueError(
        f"no query of {run} is judged: the run has queries {_some(ranked)}; the qrels have "
        f"{_some(judged)}. Do the files belong together?"
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
