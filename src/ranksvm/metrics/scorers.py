"""Metrics as scikit-learn's ``scoring=``, with the query ids routed.

    import sklearn
    from ranksvm.metrics import ranking_scorer

    sklearn.set_config(enable_metadata_routing=True)
    folds = GroupKFold().set_split_request(groups="qid")
    search = GridSearchCV(model, grid, scoring=ranking_scorer("ndcg@10"), cv=folds)
    search.fit(X, y, qid=qid)

The scorer itself asks for ``qid``: nothing else has to be set.  scikit-learn hands ids to scorers
only when metadata routing is on.  A scorer that gets no ids cannot know whether there are none or
whether they were lost on the way, and refuses to guess: one global ranking has to be asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.metrics import _scorer
from sklearn.utils.metadata_routing import MetadataRequest, get_routing_for_object

from ranksvm.metrics.evaluate import evaluate
from ranksvm.metrics.registry import METRICS, Metric, parse_metrics
from ranksvm.metrics.rules import CONVENTIONS, check_choice

__all__ = ["RankingScorer", "ranking_scorer", "register_scorers"]

# Cutoffs that are registered by name.
CUTOFFS = (1, 3, 5, 10, 20)


@dataclass(frozen=True)
class RankingScorer:
    """A scorer for ``scoring=``; build it with :func:`ranking_scorer`.

    Attributes
    ----------
    metrics : tuple of Metric
    several : bool
        Whether to return a dict by name, not a number.
    conventions : {"standard", "letor"}
    global_ranking : bool
        Whether all items are ranked together when there are no query ids; else that is an error.
    """

    metrics: tuple[Metric, ...]
    several: bool = False
    conventions: str = "standard"
    global_ranking: bool = False

    def __call__(
        self, estimator: Any, X: Any, y: ArrayLike, qid: ArrayLike | None = None
    ) -> float | dict[str, float]:
        """Rank the items by ``estimator.predict`` and score the ranking.

        Parameters
        ----------
        estimator : object with ``predict``
            Fitted; a Pipeline or any other that passes ``predict`` on will do.  If some step of it
            asks for ``qid`` in ``predict``, it is handed on.
        X : {array-like, sparse matrix} of shape (n_items, n_features)
        y : array-like of shape (n_items,)
            Utilities.
        qid : array-like of shape (n_items,) or None, default=None
            Query of each item.

        Returns
        -------
        float, or dict of str to float

        Raises
        ------
        ValueError
            If there are no query ids and the scorer was not built with ``global_ranking=True``.
        """
        routed = bool(get_config().get("enable_metadata_routing"))
        if qid is None and not self.global_ranking:
            remedy = (
                "Give qid to the fit or score of the search, or to cross_validate as "
                "params={'qid': qid}"
                if routed
                else "With metadata routing off scikit-learn cannot pass it: call "
                "sklearn.set_config(enable_metadata_routing=True) before the search and give qid "
                "to its fit"
            )
            raise ValueError(
                f"{self!r} got no qid. {remedy}; or, if all items are one ranking, build the "
                "scorer with global_ranking=True."
            )
        given = {"qid": qid} if qid is not None and routed and _predict_takes_qid(estimator) else {}
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

    def get_metadata_routing(self) -> Any:
        """Tell scikit-learn that the scorer wants ``qid``."""
        request = MetadataRequest(owner="ranking_scorer")
        request.score.add_request(param="qid", alias=True)
        return request

    def _accept_sample_weight(self) -> bool:
        # scikit-learn asks this of every scorer among several when routing is off.
        return False


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
        Name of the metric, such as "ndcg@10".  Of several, all are computed from one prediction;
        GridSearchCV then needs ``refit`` to be the name of one of them.
    conventions : {"standard", "letor"}, default="standard"
        As in :func:`ranksvm.metrics.evaluate`.
    global_ranking : bool, default=False
        Rank all items together when the scorer gets no query ids.  Without it, that is an error.

    Returns
    -------
    RankingScorer
        Called as ``scorer(estimator, X, y, qid=qid)``; greater is better.

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
    check_choice("conventions", conventions, CONVENTIONS)
    several = not isinstance(metric, str | Metric)
    return RankingScorer(parse_metrics(metric), several, conventions, global_ranking)


def register_scorers() -> list[str]:
    """Make ``scoring="ranksvm_ndcg@10"`` work in scikit-learn.

    Registers every metric under its name after ``ranksvm_``: without a cutoff where that has a
    meaning, and with the cutoffs 1, 3, 5, 10 and 20.  Nothing is registered before this is called;
    calling it again changes nothing.

    Returns
    -------
    list of str
        The names.

    Raises
    ------
    RuntimeError
        If this version of scikit-learn keeps its scorers in another way.  Objects of
        :func:`ranking_scorer` work regardless.

    Examples
    --------
    >>> from ranksvm.metrics import register_scorers
    >>> "ranksvm_ndcg@10" in register_scorers()
    True
    """
    registry = getattr(_scorer, "_SCORERS", None)
    if not isinstance(registry, dict):
        raise RuntimeError(
            "this version of scikit-learn keeps its scorers in a way that register_scorers does "
            "not know. Pass scoring=ranking_scorer('ndcg@10') instead of a name."
        )
    builtin = frozenset(registry)
    scorers = {f"ranksvm_{metric.name}": RankingScorer((metric,)) for metric in _registered()}
    registry.update(scorers)
    _allow(builtin, scorers)
    return list(scorers)


def _registered() -> Iterable[Metric]:
    for name, definition in METRICS.items():
        if definition.cutoff != "required":
            yield Metric(name)
        if definition.cutoff != "none":
            yield from (Metric(name, k) for k in CUTOFFS)


def _allow(builtin: frozenset[str], names: Iterable[str]) -> None:
    """Widen the checks of ``scoring``.

    Modules of scikit-learn copy the names of the scorers when they are imported, into the
    constraints by which they check their parameters.  Those imported later copy ours, too.
    """
    modules = [module for name, module in sys.modules.items() if name.startswith("sklearn.")]
    for module in modules:
        for value in list(vars(module).values()):
            for attribute in ("_parameter_constraints", "_skl_parameter_constraints"):
                constraints = getattr(value, attribute, None)
                if not isinstance(constraints, dict):
                    continue
                accepted = constraints.get("scoring")
                for constraint in accepted if isinstance(accepted, list) else ():
                    options = getattr(constraint, "options", None)
                    if isinstance(options, set) and options & builtin:
                        options.update(names)


def _predict_takes_qid(estimator: Any) -> bool:
    """Whether the estimator, or a step inside it, asks for qid in predict."""
    return "qid" in get_routing_for_object(estimator).consumes("predict", ["qid"])
