"""The arguments of ``fit_pairs``: checked, and returned as one data set.

Pairs come in two forms: row numbers of X (``better``, ``worse``), or the rows of two matrices
(``chosen``, ``rejected``; see :mod:`ranksvm.estimators.paired_inputs`).
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from ranksvm._text import counted
from ranksvm.data.frames import is_frame, split_frame
from ranksvm.data.pair_checks import count_implied
from ranksvm.data.paired_rows import stacked
from ranksvm.data.preferences import (
    Preferences,
    check_preferences,
    count_contradictions,
    pairs_by_query,
)
from ranksvm.data.queries import QueryGroups
from ranksvm.data.ranking_data import Origin, RankingData
from ranksvm.estimators.inputs import check_X, known_qid, training_data
from ranksvm.estimators.paired_inputs import paired_data, takes_matrices, two_matrices
from ranksvm.learners.settings import Settings


def pair_data(
    ranker: Any,
    X: Any,
    better: Any,
    worse: Any,
    settings: Settings | None = None,
    *,
    chosen: Any = None,
    rejected: Any = None,
    weight: Any = None,
    ties: Any = None,
    groups: Any = None,
    calibrate: Any = True,
    **of_items: Any,
) -> RankingData:
    """Check the arguments of ``fit_pairs``.

    ``of_items`` are y, qid, group, sample_weight and query_weight.  With ``settings`` of a linear
    model, X may be ``PairedRows``.  Warns if pairs contradict each other, or follow from the labels
    as well.
    """
    if not isinstance(calibrate, bool):
        raise ValueError(f"calibrate must be True or False; got {calibrate!r}")
    rows = {"X": X, "better": better, "worse": worse}
    if takes_matrices(rows, of_items, chosen, rejected):
        data = paired_data(ranker, chosen, rejected, weight, ties, groups, settings)
    else:
        if groups is not None:
            raise ValueError(
                "groups are those of pairs in chosen and rejected. With X, better and worse, give "
                "the query of each row of X: qid=..."
            )
        data = _rows_data(ranker, X, (better, worse, weight), ties, **of_items)
    assert data.preferences is not None
    both_ways = count_contradictions(data.preferences)
    if both_ways:
        warnings.warn(
            f"{both_ways} {'pairs' if both_ways > 1 else 'pair'} of items "
            f"{'are' if both_ways > 1 else 'is'} preferred both ways: no ranking can satisfy "
            "both preferences, and the one with the larger weight has more influence.",
            UserWarning,
            stacklevel=3,
        )
    twice = count_implied(data)
    if twice:
        warnings.warn(
            f"{twice:,} of {counted(len(data.preferences), 'pair')} "
            f"{'follow' if twice > 1 else 'follows'} from the labels as well and "
            f"{'count' if twice > 1 else 'counts'} twice. "
            f"Drop {'these pairs' if twice > 1 else 'this pair'} from better and worse, unless "
            f"{'they are' if twice > 1 else 'it is'} meant to have more weight, or pass no y.",
            UserWarning,
            stacklevel=3,
        )
    return data


def _rows_data(
    ranker: Any,
    X: Any,
    pairs: tuple[Any, Any, Any],
    ties: Any,
    *,
    y: Any,
    qid: Any,
    group: Any,
    sample_weight: Any,
    query_weight: Any,
) -> RankingData:
    """Check pairs of row numbers; ``pairs`` are better, worse and weight."""
    has_queries = qid is not None or group is not None
    if y is None and sample_weight is not None:
        raise ValueError(
            "sample_weight can only be used with labels, but there is no y. Pass y, or give the "
            "pairs weights of their own: weight=..."
        )
    if y is None and query_weight is not None and not has_queries:
        raise ValueError(
            "query_weight needs query ids, but there is no qid. Pass qid, or give the pairs "
            "weights of their own: weight=..."
        )
    data = training_data(
        ranker, X, y, qid, group=group, sample_weight=sample_weight, query_weight=query_weight,
        needs_labels=False,
    )  # fmt: skip
    preferences = check_preferences(*pairs, data.n_items)
    if ties is not None:
        preferences = preferences.with_ties(_tied_rows(ties, data.n_items))
    if data.qid is not None:
        preferences = pairs_by_query(preferences, data.groups)
    return replace(data, preferences=preferences).with_groups(data.groups)


def _tied_rows(ties: Any, n_items: int) -> Preferences:
    """Check ties: a tuple of two arrays of row numbers, perhaps with weights."""
    if not isinstance(ties, tuple | list) or len(ties) not in (2, 3):
        got = f"{len(ties)} parts" if isinstance(ties, tuple | list) else type(ties).__name__
        raise ValueError(
            "ties must be a tuple (i, j) or (i, j, weight) of arrays: the rows i[p] and j[p] of X "
            f"should score alike; got {got}"
        )
    i, j, weight = (*ties, None)[:3]
    return check_preferences(i, j, weight, n_items, names=("ties[0]", "ties[1]", "ties[2]"))


def validation_pairs(ranker: Any, given: Any) -> RankingData:
    """Check a validation set of pairs: a tuple (X, better, worse), then perhaps weight and qid.

    Or it is a tuple of two matrices, like ``chosen`` and ``rejected``.  If X is a frame with the
    column that had the query ids in training, that is the qid.
    """
    is_tuple = isinstance(given, tuple | list)
    if is_tuple and len(given) == 2 and all(np.ndim(one) == 2 for one in given):
        chosen, rejected = two_matrices(ranker, ("validation[0]", "validation[1]"), *given)
        rows = np.arange(chosen.shape[0])
        pairs = Preferences(rows, rows + rows.size)
        return RankingData(
            stacked([chosen, rejected]), preferences=pairs, origin=Origin("validation")
        )
    if not is_tuple or len(given) not in (3, 4, 5) or isinstance(given[0], str):
        kind = type(given).__name__
        got = f"a {kind} of {len(given)}" if is_tuple else kind
        raise ValueError(
            "validation must be one tuple (X, better, worse), (X, better, worse, weight) or "
            "(X, better, worse, weight, qid), or two matrices (A, B) like chosen and rejected; got "
            f"{got}"
        )
    X, better, worse, weight, qid = (*given, None, None)[:5]
    if isinstance(better, str) or isinstance(worse, str):
        where = " of the frame" if is_frame(X) else ""
        raise ValueError(
            f"better and worse of validation must be row numbers{where}; got {better!r} and "
            f"{worse!r}"
        )
    X, values = split_frame(X, qid=known_qid(ranker, X, qid))
    X = check_X(ranker, X, reset=False)
    groups = QueryGroups.from_qid(values["qid"], X.shape[0], name="qid of validation")
    ids = None if values["qid"] is None else groups.ids_of_rows(values["qid"])
    try:
        pairs = check_preferences(better, worse, weight, X.shape[0])
    except ValueError as error:
        raise ValueError(f"validation: {error}") from None
    data = RankingData(X, qid=ids, preferences=pairs, origin=Origin("validation"))
    return data.with_groups(groups)
