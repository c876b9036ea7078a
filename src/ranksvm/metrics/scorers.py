"""Metrics as scorers for scikit-learn's model selection.

    import sklearn
    from ranksvm.metrics import ranking_scorer
    from ranksvm.model_selection import QueryKFold

    sklearn.set_config(enable_metadata_routing=True)
    search = GridSearchCV(model, grid, scoring=ranking_scorer("ndcg@10"), cv=QueryKFold())
    search.fit(X, y, qid=qid)

Only scikit-learn's public interface is used.  A scorer is a callable ``scorer(estimator, X, y,
qid=qid)`` that requests ``qid``; scikit-learn passes it on if metadata routing is enabled.  If a
scorer gets no ids, it raises an error, because it cannot know whether there are none or whether
they got lost on the way.

Two things are impossible with the public interface:

- Names: ``scoring="ndcg@10"`` does not work, because the names that ``scoring`` accepts are a
  private list of scikit-learn.  Pass ``ranking_scorer("ndcg@10")``.
- A dict of scorers together with ``sample_weight``, if metadata routing is disabled: scikit-learn
  then calls a private method of its own scorers.  Pass ``ranking_scorer(["ndcg@10", "map"])``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.utils.metadata_routing import MetadataRequest, get_routing_for_object

from ranksvm.metrics.evaluate import evaluate
from ranksvm.metrics.registry import Metric, parse_metrics
from ranksvm.metrics.rules import rules_of


@dataclass
class RankingScorer:
    """A scorer for ``scoring=``; made by :func:`ranking_scorer`.

    Attributes
    ----------
    metrics : tuple of Metric
    several : bool
        Whether to return a dict of values by name instead of a number.
    conventions : {"standard", "letor"}
    global_ranking : bool
        Whether to rank all items together if there are no query ids; otherwise that is an error.
    qid_request : bool, str or None
        Request for ``qid``; see :meth:`set_score_request`.
    """

    metrics: tuple[Metric, ...]
    several: bool = False
    conventions: str = "standard"
    global_ranking: bool = False
    qid_request: bool | str | None = True

    def __call__(
        self, estimator: Any, X: Any, y: ArrayLike, qid: ArrayLike | None = None
    ) -> float | dict[str, float]:
        """Rank the items by ``estimator.predict`` and score the ranking.

        Parameters
        ----------
        estimator : object with ``predict``
            Fitted estimator, which may be a Pipeline or another meta-estimator.  ``predict`` gets
            ``qid`` if the estimator or a step of it requests it.
        X : {array-like, sparse matrix} of shape (n_items, n_features)
        y : array-like of shape (n_items,)
            Labels.
        qid : array-like of shape (n_items,) or None, default=None
            Query id of each item.

        Returns
        -------
        float, or dict of str to float

        Raises
        ------
        ValueError
            If there are no query ids and the scorer was not made with ``global_ranking=True``.
        """
        routed = bool(get_config()["enable_metadata_routing"])
        if qid is None and not self.global_ranking:
            remedy = (
                "Pass qid to the fit or score of the search, or to cross_validate as "
                "params={'qid': qid}"
                if routed
                else "scikit-learn cannot pass it on while metadata routing is disabled: call "
                "sklearn.set_config(enable_metadata_routing=True) before the search and pass qid "
                "to its fit"
            )
            raise ValueError(
                f"{self!r} got no qid. {remedy}; or, if all items belong to one ranking, make the "
                "scorer with global_ranking=True."
            )
        wanted = routed and get_routing_for_object(estimator).consumes("predict", ["qid"])
        given = {"qid": qid} if wanted and qid is not None else {}
        scores = np.asarray(estimator.predict(X, **given))
        found = evaluate(y, scores, qid, self.metrics, conventions=self.conventions)
        return found if self.several else found[self.metrics[0].name]

    def __repr__(self) -> str:
        names = [metric.name for metric in self.metrics]
        parts = [repr(names if self.several else names[0])]
        if self.conventions != "standard":
            parts.append(f"conventions={self.conventions!r}")
        if self.global_ranking:
            parts.append("global_ranking=True")
        return f"ranking_scorer({', '.join(parts)})"

    def set_score_request(self, *, qid: bool | str | None) -> RankingScorer:
        """Set which metadata the scorer gets as ``qid``.

        Parameters
        ----------
        qid : bool, str or None
            A name passes the metadata of that name, "groups" for example; True, the initial
            setting, those named "qid".  False passes none, None makes it an error to pass any.

        Returns
        -------
        RankingScorer
            The scorer itself.
        """
        self.qid_request = qid
        return self

    def get_metadata_routing(self) -> Any:
        """Return the metadata request of the scorer."""
        request = MetadataRequest(owner=repr(self))
        request.score.add_request(param="qid", alias=self.qid_request)
        return request


def ranking_scorer(
    metric: str | Metric | Iterable[str | Metric],
    *,
    conventions: str = "standard",
    global_ranking: bool = False,
) -> RankingScorer:
    """Make a scorer for scikit-learn's model selection.

    Parameters
    ----------
    metric : str or sequence of str
        Name of the metric, such as "ndcg@10".  Several metrics are computed from one prediction;
        ``refit`` of GridSearchCV must then name one of them.
    conventions : {"standard", "letor"}, default="standard"
        As in :func:`ranksvm.metrics.evaluate`.
    global_ranking : bool, default=False
        Rank all items together if the scorer gets no query ids, instead of raising an error.

    Returns
    -------
    RankingScorer
        Called as ``scorer(estimator, X, y, qid=qid)``; larger is better.

    Raises
    ------
    ValueError
        If a metric is unknown.

    Examples
    --------
    >>> from ranksvm.metrics import ranking_scorer
    >>> ranking_scorer("ndcg@10")
    ranking_scorer('ndcg@10')
    """
    rules_of(conventions)  # raises if there are no such conventions
    several = not isinstance(metric, str | Metric)
    return RankingScorer(parse_metrics(metric), several, conventions, global_ranking)
