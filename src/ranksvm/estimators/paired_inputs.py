"""Pairs as two matrices: row p of ``chosen`` should score above row p of ``rejected``.

The items are the rows of both.  Without ``groups``, equal rows are one item, so that folds keep
pairs together that share one; with them, a group is the query of its pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._checks import check_weights
from ranksvm._sparse import is_sparse
from ranksvm._threads import resolve_n_jobs
from ranksvm.data.paired_rows import PairedRows, equal_rows, stacked
from ranksvm.data.preferences import Preferences, pairs_by_query
from ranksvm.data.queries import QueryGroups
from ranksvm.data.ranking_data import Origin, RankingData
from ranksvm.estimators.inputs import check_X, note_features
from ranksvm.learners.differences import takes_differences
from ranksvm.learners.settings import Settings

_FORMS = (
    "Give either X, better and worse (row numbers of X), or chosen and rejected (two matrices: row "
    "p of chosen should score above row p of rejected)"
)


def takes_matrices(
    rows: Mapping[str, Any], of_items: Mapping[str, Any], chosen: Any, rejected: Any
) -> bool:
    """Return whether pairs are given as two matrices; raise unless they are given in one form."""
    given = [name for name, value in rows.items() if value is not None]
    if chosen is None and rejected is None:
        missing = [name for name in rows if name not in given]
        if missing:
            raise ValueError(f"{' and '.join(missing)} missing. {_FORMS}.")
        return False
    if chosen is None or rejected is None:
        there, gone = ("chosen", "rejected") if rejected is None else ("rejected", "chosen")
        raise ValueError(f"got {there} without {gone}. {_FORMS}.")
    if given:
        raise ValueError(f"got pairs in two forms: {', '.join(given)}, and chosen. {_FORMS}.")
    for name, value in of_items.items():
        if value is not None:
            raise ValueError(
                f"{name} is about the rows of X, and cannot be combined with chosen and rejected. "
                "Use weight= for weights of pairs and groups= for their queries, or give the pairs "
                "as X, better and worse."
            )
    return True


def paired_data(
    ranker: Any,
    chosen: Any,
    rejected: Any,
    weight: Any,
    ties: Any,
    groups: Any,
    settings: Settings | None,
) -> RankingData:
    """Check pairs of rows of two matrices, and return them as a data set.

    With ``settings`` of a linear model, X is ``PairedRows`` where that is enough.
    """
    _refuse_queries(ranker)
    first = _matrices(ranker, ("chosen", "rejected"), chosen, rejected, reset=True)
    names = getattr(ranker, "feature_names_in_", None)
    n_pairs = first[0].shape[0]
    weights = None if weight is None else check_weights("weight", weight, n_pairs, "pair")
    pairs, parts, ids = Preferences(*_numbers(n_pairs), weights), [first], [groups]
    if ties is not None:
        tied, weight, of_ties = _ties(ranker, ties, groups is not None)
        pairs = pairs.with_ties(Preferences(*_numbers(tied[0].shape[0]), weight))
        parts.append(tied)
        ids.append(of_ties)
    parts = _same_type(parts)
    n_pairs = len(pairs)
    better = np.arange(n_pairs)
    pairs = Preferences(better, better + n_pairs, pairs.weight, tie=pairs.tie)
    threads = resolve_n_jobs(ranker.n_jobs)
    blocks = [part[side] for side in (0, 1) for part in parts]
    equal = equal_rows(blocks, threads)
    if equal is not None:
        _refuse_twins(equal, pairs)
    X: Any
    if groups is None and equal is not None:
        if pairs.tie is not None:  # two equal rows that are tied are two items
            twins = pairs.worse[equal[pairs.better] == equal[pairs.worse]]
            equal[twins] = twins
        distinct, item = np.unique(equal, return_inverse=True)
        X = stacked(blocks)[distinct]
        pairs = Preferences(item[:n_pairs], item[n_pairs:], pairs.weight, tie=pairs.tie)
    elif settings is not None and takes_differences(settings, blocks[0]):
        X = PairedRows(parts)
    else:
        X = stacked(blocks)
    data = RankingData(
        X,
        preferences=pairs,
        feature_names=None if names is None else tuple(map(str, names)),
        origin=Origin("chosen and rejected"),
    )
    note_features(ranker, data)
    return data if groups is None else _in_groups(data, ids)


def _in_groups(data: RankingData, ids: list[Any]) -> RankingData:
    """Return the data set with the groups of its pairs as queries."""
    assert data.preferences is not None
    found: list[NDArray[Any]] = []
    n_pairs = data.n_items // 2
    tie = data.preferences.tie
    n_ties = 0 if tie is None else int(np.count_nonzero(tie))
    for name, values, n in zip(
        ("groups", "groups of ties"), ids, (n_pairs - n_ties, n_ties), strict=False
    ):
        array = np.asarray(values)
        QueryGroups.from_qid(array, n, name=name)  # raises if an id is missing or of another type
        found.append(array)
    both = np.concatenate([*found, *found])
    groups = QueryGroups.from_qid(both, data.n_items, name="groups")
    pairs = pairs_by_query(data.preferences, groups)
    grouped = RankingData(
        data.X, qid=groups.ids_of_rows(both), preferences=pairs,
        feature_names=data.feature_names, origin=data.origin,
    )  # fmt: skip
    return grouped.with_groups(groups)


def two_matrices(ranker: Any, names: tuple[str, str], one: Any, other: Any) -> tuple[Any, Any]:
    """Check two matrices of items to predict, with the same number of rows."""
    return _matrices(ranker, names, one, other, reset=False)


def _matrices(
    ranker: Any, names: tuple[str, str], one: Any, other: Any, *, reset: bool
) -> tuple[Any, Any]:
    found: list[Any] = []
    for name, X in zip(names, (one, other), strict=True):
        try:
            found.append(check_X(ranker, X, reset=reset and not found))
        except ValueError as error:
            text = str(error)
            if reset and found and "features" in text and "expecting" in text:
                text = (
                    f"it has other features than {names[0]}, which has {found[0].shape[1]} of them"
                )
            raise ValueError(f"{name}: {text}") from None
    n_rows = [X.shape[0] for X in found]
    if n_rows[0] != n_rows[1]:
        raise ValueError(
            f"{names[0]} and {names[1]} must have one row per pair each; got {n_rows[0]} and "
            f"{n_rows[1]} rows"
        )
    first, second = (X.tocsr() if is_sparse(X) else X for X in found)
    return first, second


def _ties(ranker: Any, ties: Any, has_groups: bool) -> tuple[tuple[Any, Any], Any, Any]:
    """Check ties: a tuple of two matrices, then perhaps weights and groups."""
    is_tuple = isinstance(ties, tuple | list)
    if not is_tuple or len(ties) not in (2, 3, 4) or np.ndim(ties[0]) == 1:
        kind = type(ties).__name__
        got = f"a {kind} of {len(ties)}" if is_tuple else kind
        if is_tuple and len(ties) in (2, 3, 4):
            got = "one-dimensional arrays"
        raise ValueError(
            "ties must be a tuple (A, B), (A, B, weight) or (A, B, weight, groups): row p of A "
            f"and row p of B should score alike; got {got}"
        )
    A, B, weight, groups = (*ties, None, None)[:4]
    tied = _matrices(ranker, ("ties[0]", "ties[1]"), A, B, reset=False)
    if has_groups != (groups is not None):
        raise ValueError(
            "the pairs have groups, and the ties have none. Pass ties=(A, B, weight, groups); "
            "weight may be None."
            if has_groups
            else "the ties have groups, and the pairs have none. Pass groups=..."
        )
    if weight is not None:
        weight = check_weights("ties[2]", weight, tied[0].shape[0], "pair")
    return tied, weight, groups


def _refuse_queries(ranker: Any) -> None:
    if ranker._is_pairwise:
        raise ValueError(
            "a precomputed kernel needs the kernel values of all items: fit_pairs(K, better, "
            "worse), instead of chosen and rejected"
        )
    if len(ranker.query_features):
        raise ValueError(
            "query_features compare an item with all items of its query, which chosen and rejected "
            "do not have: fit_pairs(X, better, worse, qid=qid)"
        )


def _refuse_twins(equal: NDArray[np.int64], pairs: Preferences) -> None:
    """Raise if a pair has the same row twice; ``equal`` has the first one of equal rows."""
    is_twin = equal[pairs.better] == equal[pairs.worse]
    if pairs.tie is not None:
        is_twin &= ~pairs.tie
    if is_twin.any():
        n, first = int(np.count_nonzero(is_twin)), int(np.argmax(is_twin))
        raise ValueError(
            f"{n} of {len(pairs.preferred)} pairs have the same features in chosen and rejected, "
            f"first pair {first}: no model can tell them apart. Drop these pairs."
        )


def _same_type(parts: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return matrices of one type: all sparse if one is, and float32 if all are."""
    each = [X for part in parts for X in part]
    dtype = np.result_type(*(X.dtype for X in each))
    as_sparse = any(is_sparse(X) for X in each)

    def same(X: Any) -> Any:
        if as_sparse and not is_sparse(X):
            from scipy import sparse

            X = sparse.csr_matrix(X)
        return X.astype(dtype, copy=False)

    return [(same(one), same(other)) for one, other in parts]


def _numbers(n_pairs: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    numbers = np.arange(n_pairs)
    return numbers, numbers
