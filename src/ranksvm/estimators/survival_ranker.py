"""Rankers of survival times: their input, and the concordance index as their score."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranksvm._checks import check_item_weight
from ranksvm._threads import resolve_n_jobs
from ranksvm._vectors import Array
from ranksvm.data.frames import split_frame
from ranksvm.data.queries import QueryGroups
from ranksvm.data.ranking_data import RankingData
from ranksvm.data.survival import check_events, no_event, split_target, survival_order
from ranksvm.estimators.checks import check_labels, check_overflow
from ranksvm.estimators.inputs import note_features, training_data
from ranksvm.estimators.model_ranker import ModelRanker
from ranksvm.metrics.survival import concordance


class SurvivalRanker(ModelRanker):
    """Base class of estimators that rank items by survival time; larger scores survive longer."""

    # With metadata routing enabled, both are passed on without set_fit_request.
    __metadata_request__fit: ClassVar[dict[str, Any]] = {"qid": True, "event": True}
    __metadata_request__score: ClassVar[dict[str, Any]] = {"qid": True, "event": True}

    def score(  # type: ignore[override]  # events come before query ids, as in fit
        self,
        X: Any,
        y: Any = None,
        event: ArrayLike | str | None = None,
        qid: ArrayLike | str | None = None,
        sample_weight: ArrayLike | str | None = None,
        *,
        time: ArrayLike | str | None = None,
    ) -> float:
        """Harrell's concordance index.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_items, n_features)
        y, event, time
            Times and events, as in ``fit``.
        qid : array-like of shape (n_items,), str or None
            Stratum of each item, as in ``fit``.
        sample_weight : array-like of shape (n_items,), str or None
            Weights of the items; the weight of a pair is the product.

        Returns
        -------
        float
            Of all pairs, in all strata, of which it is known who survived longer: the share in
            which that item has the higher score.  Pairs with tied scores count half.
        """
        y, name = _one_target(y, time)
        qid = self._qid_of_score(X, qid)
        X, columns = split_frame(X, **{name: y}, event=event, qid=qid, sample_weight=sample_weight)
        scores, groups = self._scored(X, columns["qid"])
        times, events = _checked(columns[name], columns["event"], len(scores), name)
        weight = check_item_weight(columns["sample_weight"], len(scores))
        if groups is None:
            groups = QueryGroups.from_qid(None, len(scores))
        threads = resolve_n_jobs(self.n_jobs)
        check_overflow(scores)
        return concordance(times, events, scores, groups, weight, n_threads=threads)


def survival_data(
    ranker: SurvivalRanker, X: Any, y: Any, event: Any, time: Any, **others: Any
) -> RankingData:
    """Check the arguments of ``fit``, and return them as one data set.

    ``others`` are those of :func:`ranksvm.estimators.inputs.training_data`.
    """
    y, name = _one_target(y, time)
    given = {name: y, "event": event}
    X, columns = split_frame(X, **given)
    data = training_data(ranker, X, None, needs_labels=False, **others)
    times, events = _checked(columns[name], columns["event"], data.n_items, name)
    if not events.any():
        raise no_event(data.n_items)
    key, roles = survival_order(times, events)
    named = tuple(one for one in given.values() if isinstance(one, str))
    origin = replace(
        data.origin, frame_columns=(*named, *data.origin.frame_columns), target="survival"
    )
    groups = data.groups
    data = replace(data, y=key, roles=roles, origin=origin)
    note_features(ranker, data)
    return data.with_groups(groups)


def _one_target(y: Any, time: Any) -> tuple[Any, str]:
    """Return the target and its name: y, or its alias."""
    if y is not None and time is not None:
        raise ValueError("y and time are two names for one thing: pass only one of them")
    return (y, "y") if time is None else (time, "time")


def _checked(y: Any, event: Any, n_items: int, name: str) -> tuple[Array, NDArray[np.bool_]]:
    """Return times, or their ranks if float64 cannot represent them, and events."""
    y, event = split_target(y, event, name)
    times, _ = check_labels(y, n_items, name, "time", "larger is later")
    return times, check_events(event, n_items)
