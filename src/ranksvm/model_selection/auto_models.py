"""One model of the candidates that a search has chosen: the mean of their standardized scores.

Scores of different candidates have different scales.  Each is divided by its standard deviation
within queries, over the training items.  (Offsets change no ranking.)  Candidates of one space have
the same features or landmarks, so their sum is one member with the sum of their coefficients.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ranksvm._sparse import is_sparse
from ranksvm._values import as_levels, is_exact
from ranksvm._vectors import Array
from ranksvm._version import library_version
from ranksvm.data.queries import QueryGroups
from ranksvm.data.query_view import QueryView
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners.ensemble_model import EnsembleModel
from ranksvm.learners.views import with_view
from ranksvm.model_selection.auto_cells import SpaceFits
from ranksvm.model_selection.auto_plan import view_of
from ranksvm.model_selection.auto_results import INTERRUPTED, AutoResult, Candidate, by_space
from ranksvm.model_selection.auto_search import AutoSearch, Progress
from ranksvm.models.model import Model


def search_and_fit(
    search: AutoSearch,
    data: RankingData,
    validation: RankingData | None,
    *,
    refit: bool = True,
    checkpoint: str | os.PathLike[str] | None = None,
    n_threads: int = 1,
    progress: Progress | None = None,
) -> tuple[AutoResult, EnsembleModel]:
    """Search, and return what was found with the model of the best candidates.

    Parameters
    ----------
    search : AutoSearch
        A search on ``data`` and ``validation``.
    refit : bool, default=True
        Whether to fit the best candidates to all items of both.  If the search or these fits are
        interrupted, they stay as they are.
    checkpoint, n_threads, progress
        As for :class:`ranksvm.AutoRankSVM`.
    """
    result = search.run(checkpoint)
    if refit and result.ended != INTERRUPTED:
        everything = joined(data, validation)
        try:
            return result, refitted(result, everything, n_threads=n_threads, progress=progress)
        except KeyboardInterrupt:
            result = replace(result, ended=INTERRUPTED)
    return result, as_trained(result, search.first_part(), n_threads=n_threads)


def refitted(
    result: AutoResult,
    data: RankingData,
    *,
    n_threads: int = 1,
    progress: Progress | None = None,
) -> EnsembleModel:
    """Fit the chosen candidates to a data set, and return their mean."""
    members = _fitted(result.chosen, len(result.chosen), data, n_threads, progress)
    return _ensemble(members, np.ones(len(members)), result, data)


def _fitted(
    candidates: Sequence[Candidate],
    n_chosen: int,
    data: RankingData,
    n_threads: int,
    progress: Progress | None = None,
) -> list[Model]:
    """Fit candidates; each counts for one of ``n_chosen`` in the sum of the models."""
    members: list[Model] = []
    spaces = by_space(candidates)
    settings = {one.space: one.settings for one in candidates}
    views: dict[QueryView, RankingData] = {}
    for done, (space, keys) in enumerate(spaces.items()):
        if progress is not None:
            progress(done, len(spaces), f"fitting the best candidates to all items: {space}")
        view = view_of(space.family)
        if view not in views:
            views[view] = with_view(data, view, n_threads=n_threads)
        fits = SpaceFits(views[view], settings[space], n_threads=n_threads)
        factors = [1.0 / (n_chosen * fits.spread(key)) for key in keys]
        members.append(fits.model(keys, factors))
    return members


def as_trained(result: AutoResult, data: RankingData, *, n_threads: int = 1) -> EnsembleModel:
    """Return the mean of the chosen candidates as they were trained on the first split.

    Those that are not at hand, because a checkpoint has no models, are fitted to ``data``, the
    training part of that split.
    """
    n_chosen = len(result.chosen)
    found = [(one, result.kept.get((one.space, one.key))) for one in result.chosen]
    kept = [made for _, made in found if made is not None]
    others = _fitted([one for one, made in found if made is None], n_chosen, data, n_threads)
    factors = [1.0 / (n_chosen * spread) for _, spread in kept] + [1.0] * len(others)
    return _ensemble([*(model for model, _ in kept), *others], np.array(factors), result, data)


def _ensemble(
    members: Sequence[Model], factors: Array, result: AutoResult, data: RankingData
) -> EnsembleModel:
    fits = [fit for member in members for fit in member.facts["fits"]]
    early = [fit["status"] for fit in fits if fit["status"] != "converged"]
    facts: dict[str, Any] = {
        "status": early[0] if early else "converged",
        "n_pairs": members[0].facts["n_pairs"],
        "n_items": data.n_items,
        "n_queries": data.groups.n_queries,
        "ranksvm": library_version(),
        **data.origin.facts(),
        "selection": result.facts(),
    }
    return EnsembleModel(
        members=tuple(members),
        factors=factors,
        params={},
        facts=facts,
        feature_names=data.feature_names,
    )


def joined(data: RankingData, validation: RankingData | None) -> RankingData:
    """Return the items of both sets; queries of different sets are different ones."""
    if validation is None:
        return data
    n_items = data.n_items + validation.n_items
    truth = np.concatenate([data.truth, validation.truth])
    levels = as_levels(truth)
    ids = None
    if data.qid is not None:
        ids = np.concatenate([data.groups.index, validation.groups.index + data.groups.n_queries])
    groups = QueryGroups.from_qid(ids, n_items)
    both = replace(
        data,
        X=_stacked(data.X, validation.X),
        y=levels,
        qid=ids,
        labels=None if is_exact(truth) else truth,
        item_weight=_with_ones(data.item_weight, n_items),
        query_weight=_with_ones(data.query_weight, groups.n_queries),
        comments=None,
        document_ids=None,
    )
    return both.with_groups(groups)


def _with_ones(weight: Array | None, n: int) -> Array | None:
    return None if weight is None else np.concatenate([weight, np.ones(n - weight.size)])


def _stacked(one: Any, other: Any) -> Any:
    if not (is_sparse(one) or is_sparse(other)):
        return np.concatenate([one, other])
    from scipy import sparse

    return sparse.vstack([one, other], format="csr")
