"""Base class of the estimators that fit one model and keep it in their attributes."""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from dataclasses import fields
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from ranksvm._checks import is_integer
from ranksvm._messages import Param, ParameterError, Value
from ranksvm._text import counted
from ranksvm._threads import resolve_n_jobs
from ranksvm._vectors import Array
from ranksvm.data.ranking_data import Origin, RankingData
from ranksvm.data.scaling import Scaling
from ranksvm.estimators.base import Ranker
from ranksvm.estimators.evaluation import Evaluation
from ranksvm.estimators.inputs import set_features
from ranksvm.estimators.logs import logged
from ranksvm.learners import make_problem
from ranksvm.learners.calibration import with_probability
from ranksvm.learners.fit import Fit
from ranksvm.learners.problem import RankProblem
from ranksvm.learners.resume import FitState
from ranksvm.learners.settings import Settings
from ranksvm.models.model import Model
from ranksvm.models.pair_probability import FACT
from ranksvm.solvers.base import Callback, TraceRow


class ModelRanker(Ranker):
    """A ranker with a model of its own.

    A subclass defines ``fit``, and ``_set_model`` and ``_get_model``, which convert between a model
    and the fitted attributes.
    """

    verbose: int
    objective_: float
    gap_: float
    n_iter_: int
    n_products_: int
    n_pairs_: int
    status_: str
    history_: list[TraceRow]
    eval_metric_: str | None
    scaling_: Scaling | None
    _facts: dict[str, Any]

    @abstractmethod
    def _set_model(self, model: Any) -> None:
        """Set the fitted attributes from a model."""

    @classmethod
    def _from_model(cls, model: Model) -> Self:
        """Return the fitted estimator of a model that was read from a file."""
        known = cls._get_param_names()
        ranker = cls(
            **{
                name: tuple(value) if isinstance(value, list) else value  # files have no tuples
                for name, value in model.params.items()
                if name in known
            }
        )
        origin = Origin.of_facts(model.facts)
        set_features(ranker, model.n_features, model.feature_names, origin)
        ranker._keep(model, ())
        return ranker

    def _keep(self, model: Model, history: Any) -> None:
        """Set all fitted attributes."""
        self._set_model(model)
        self.scaling_ = model.scaling
        facts = self._facts = dict(model.facts)
        self.objective_ = float(facts.get("objective", np.nan))
        self.gap_ = float(facts.get("gap", np.nan))
        self.n_iter_ = int(facts.get("n_iter", 0))
        self.n_products_ = int(facts.get("n_products", 0))
        self.n_pairs_ = int(facts.get("n_pairs", 0))
        self.status_ = str(facts.get("status", "unknown"))
        self.history_ = list(history)
        self.eval_metric_ = None

    def _about(self) -> dict[str, Any]:
        """Return the parameters, facts and feature names of the model."""
        params = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in self.get_params(deep=False).items()
        }
        if not isinstance(params.get("random_state"), int | None):
            params["random_state"] = None  # a generator cannot be saved
        names = getattr(self, "feature_names_in_", None)
        if self._encoding is not None:
            names = self._encoding.feature_names
        return {
            "params": params,
            "facts": self._facts,
            "feature_names": None if names is None else tuple(map(str, names)),
            "scaling": self.__dict__.get("scaling_"),
        }

    def _settings(self, settings: type[Settings]) -> Any:
        """Check the parameters, and return them as an instance of ``settings``."""
        values = {
            one.name: getattr(self, one.name) for one in fields(settings) if hasattr(self, one.name)
        }
        if "random_state" in values:
            values["random_state"] = seed_of(values["random_state"])
        return settings(**values)

    def _fit_data(
        self,
        data: RankingData,
        settings: Settings,
        callback: Callback | None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        evaluated: Evaluation | None = None,
        calibrate: bool | None = None,
        **options: Any,
    ) -> Fit:
        """Fit the model to a data set, and set all fitted attributes; ``options`` go to ``solve``.

        With a checkpoint, continue from that file, and keep it up to date.  With an evaluation set,
        the rows of the history have the metric on it.  ``calibrate``: whether a model of explicit
        pairs shall know probabilities; None if there are no such pairs.
        """
        state = None if checkpoint is None else FitState.of(checkpoint, data, settings)
        problem: Any = make_problem(data, settings, n_threads=resolve_n_jobs(self.n_jobs))
        if evaluated is not None:
            options["validate"] = evaluated.of(problem)
            options["shown"] = evaluated.name
        fit: Fit = self._solve(problem, callback, state=state, **options)
        model = problem.model(fit)
        if calibrate is not None:
            assert isinstance(problem, RankProblem)
            model = with_probability(model, data, problem, fit, calibrate=calibrate)
            if calibrate and "reason" in model.facts[FACT]:
                with logged(self.verbose) as logger:
                    logger.info("no probabilities of pairs: %s", model.facts[FACT]["reason"])
        if model.facts.get("constant_features"):
            with logged(self.verbose) as logger:
                constant = counted(model.facts["constant_features"], "constant feature")
                logger.info("%s left out", constant)
        self._keep(model, fit.history)
        self.eval_metric_ = None if evaluated is None else evaluated.name
        if state is not None:
            state.finish(fit)
        return fit

    def _solve(
        self,
        problem: Any,
        callback: Callback | None,
        *,
        state: FitState | None = None,
        shown: str = "metric",
        **options: Any,
    ) -> Any:
        """Solve a problem; log every iteration and call the callback.

        With a state, continue from it, and keep it up to date.  ``shown`` is the name of the
        metric in the log.
        """
        with logged(self.verbose) as logger:

            def report(row: TraceRow, coef: Array) -> Any:
                where = f", round {row.round}" if row.round else ""
                value = "" if row.metric is None else f", {shown} {row.metric:.4f}"
                logger.info(
                    "%s %d%s: objective %.8g, gap %.2e, %d products, %.2f s%s", problem.solver_name,
                    row.iteration, where, row.objective, row.gap, row.n_products, row.seconds,
                    value,
                )  # fmt: skip
                return callback is not None and callback(row, coef.copy())

            if state is not None:
                return state.solve(problem, report, **options)
            return problem.solve(callback=report, **options)

    def _warn_if_early(self, fit: Fit) -> None:
        """Warn about a fit that ended early.

        The last step of ``fit``: if the warning is raised as an error, the new model is complete.
        """
        if fit.shortfall is not None:
            name = type(self).__name__
            warnings.warn(f"{name}: {fit.shortfall}", ConvergenceWarning, stacklevel=3)

    def _n_queries(self) -> int:
        """Return the number of queries in the training data; 1 if unknown."""
        return int(getattr(self, "_facts", {}).get("n_queries", 1))


def seed_of(random_state: Any) -> int | None:
    """Return an integer seed, drawn from the generator if it is one; None stays None."""
    if random_state is None or is_integer(random_state):
        return None if random_state is None else int(random_state)
    try:
        generator = check_random_state(random_state)
    except ValueError:
        raise ParameterError(
            "{random_state} must be None, a non-negative integer or a RandomState; got {value}",
            random_state=Param("random_state"),
            value=Value(random_state),
        ) from None
    return int(generator.randint(np.iinfo(np.int32).max))
