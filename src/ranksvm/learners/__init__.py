"""Training: from a data set to a model.

    F(w) = 1/2 |w|^2 + C * sum over comparable pairs of  weight * loss(1 - s_better + s_worse)

with scores s that are linear in w: w.x, or w.phi(x) for the features of a kernel.  Pairs come from
labels within queries, from a list of preferences, or from both.  Every kind of model has

    settings    the objective and how it is minimized
    problem     a prepared data set (see :class:`ranksvm.learners.problem.Problem`): all work that
                does not depend on C is done once for many C
    model       the result

and one entry in ``LEARNERS``, where estimators, commands, model files and exports find it.  Nothing
here needs scikit-learn.  The parts are imported when they are used, because a model that is read
only to predict needs no settings, problems or solvers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

from ranksvm._cached import cached_property
from ranksvm._lazy import found_at, lazy_names
from ranksvm.models import files
from ranksvm.models.model import Model

if TYPE_CHECKING:
    from ranksvm._points import Point
    from ranksvm.data.ranking_data import RankingData
    from ranksvm.learners.factorized import FactorizedProblem
    from ranksvm.learners.factorized_model import FactorizedModel
    from ranksvm.learners.factors import FactorizedSettings
    from ranksvm.learners.fit import Fit
    from ranksvm.learners.kernel import KernelProblem, KernelSettings
    from ranksvm.learners.kernel_model import KernelModel
    from ranksvm.learners.linear import LinearProblem, LinearSettings
    from ranksvm.learners.linear_model import LinearModel
    from ranksvm.learners.problem import PathProblem, Problem, RankProblem
    from ranksvm.learners.settings import REDUCTIONS, SOLVERS, Settings
    from ranksvm.learners.weights import check_query_weight, total_pair_weight

_HOME = {
    "FactorizedModel": "factorized_model",
    "FactorizedProblem": "factorized",
    "FactorizedSettings": "factors",
    "Fit": "fit",
    "KernelModel": "kernel_model",
    "KernelProblem": "kernel",
    "KernelSettings": "kernel",
    "LinearModel": "linear_model",
    "LinearProblem": "linear",
    "LinearSettings": "linear",
    "PathProblem": "problem",
    "Point": "problem",
    "Problem": "problem",
    "REDUCTIONS": "settings",
    "RankProblem": "problem",
    "SOLVERS": "settings",
    "Settings": "settings",
    "check_query_weight": "weights",
    "total_pair_weight": "weights",
}

__all__ = [
    "LEARNERS",
    "REDUCTIONS",
    "SOLVERS",
    "FactorizedModel",
    "FactorizedProblem",
    "FactorizedSettings",
    "Fit",
    "KernelModel",
    "KernelProblem",
    "KernelSettings",
    "Learner",
    "LinearModel",
    "LinearProblem",
    "LinearSettings",
    "PathProblem",
    "Point",
    "Problem",
    "RankProblem",
    "Settings",
    "check_query_weight",
    "learner_of",
    "make_problem",
    "read_model",
    "total_pair_weight",
]


class Kind:
    """A kind of model: its class and its estimator, which may be given as "module:name".

    Parameters
    ----------
    model : type
        Class of the trained model.
    estimator : str
        The address of its estimator.
    """

    def __init__(self, model: type[Model] | str, estimator: str) -> None:
        self._model, self.estimator = model, estimator

    @cached_property
    def model(self) -> type[Model]:
        found: type[Model] = found_at(self._model)
        return found


class Learner(Kind):
    """The parts of a kind of model that is trained by solving one problem.

    Classes and functions may be given by their addresses, as "module:name".

    Parameters
    ----------
    settings : type
        Class of its parameters.
    problem : callable
        ``problem(data, settings, n_threads=1)`` returns a
        :class:`ranksvm.learners.problem.Problem`, and a ``PathProblem`` if there is a search.
        ``data`` has the columns of ``settings.view`` already.
    model : type
        Class of the trained model.
    estimator : str
        The address of its estimator.
    search : str or None
        The address of the estimator that chooses C, and the other parameters that have a grid (see
        :class:`ranksvm.learners.settings.Grid`); None if there is none.
    chosen_by : str or None
        The parameter that selects this kind on the command line; None for the default kind.
    uses_pairs : bool
        Whether it can learn from explicit pairs as well as from labels.
    early_stopping : str or None
        The parameter that asks for early stopping on validation data.  ``solve`` then takes
        ``validate``, a function from the weights of the features to a score.
    summary : callable
        Turns the report of a training run (see ``ranksvm train --json``) into a line of text.
    """

    def __init__(
        self,
        settings: type[Settings] | str,
        problem: Callable[..., Problem] | str,
        model: type[Model] | str,
        estimator: str,
        search: str | None = None,
        *,
        chosen_by: str | None = None,
        uses_pairs: bool = True,
        early_stopping: str | None = None,
        summary: Callable[[Mapping[str, Any]], str] | str = lambda report: "",
    ) -> None:
        super().__init__(model, estimator)
        self._settings, self._problem = settings, problem
        self.search = search
        self.chosen_by = chosen_by
        self.uses_pairs = uses_pairs
        self.early_stopping = early_stopping
        self._summary = summary

    @cached_property
    def settings(self) -> type[Settings]:
        found: type[Settings] = found_at(self._settings)
        return found

    @cached_property
    def problem(self) -> Callable[..., Problem]:
        found: Callable[..., Problem] = found_at(self._problem)
        return found

    @cached_property
    def summary(self) -> Callable[[Mapping[str, Any]], str]:
        found: Callable[[Mapping[str, Any]], str] = found_at(self._summary)
        return found


LEARNERS: dict[str, Learner] = {
    "linear": Learner(
        "ranksvm.learners.linear:LinearSettings",
        "ranksvm.learners.linear:LinearProblem",
        "ranksvm.learners.linear_model:LinearModel",
        "ranksvm.estimators.linear:LinearRankSVM",
        "ranksvm.model_selection.linear_cv:LinearRankSVMCV",
    ),
    "kernel": Learner(
        "ranksvm.learners.kernel:KernelSettings",
        "ranksvm.learners.kernel:KernelProblem",
        "ranksvm.learners.kernel_model:KernelModel",
        "ranksvm.estimators.kernel:KernelRankSVM",
        "ranksvm.model_selection.kernel_cv:KernelRankSVMCV",
        chosen_by="kernel",
        summary="ranksvm.learners.kernel_model:summary",
    ),
    "factorized": Learner(
        "ranksvm.learners.factors:FactorizedSettings",
        "ranksvm.learners.factorized:FactorizedProblem",
        "ranksvm.learners.factorized_model:FactorizedModel",
        "ranksvm.estimators.factorized:FactorizedRankSVM",
        chosen_by="n_factors",
        uses_pairs=False,
        early_stopping="patience",
        summary="ranksvm.learners.factorized_model:summary",
    ),
}


# Models that are made of other models.
COMBINATIONS: dict[str, Kind] = {
    "ensemble": Kind(
        "ranksvm.learners.ensemble_model:EnsembleModel",
        "ranksvm.model_selection.auto:AutoRankSVM",
    ),
}

# Kinds with a target other than labels, by the fact "target" of their models; trained from Python.
TARGETS: dict[str, dict[str, Kind]] = {
    "survival": {
        "linear": Kind(
            "ranksvm.learners.linear_model:LinearModel",
            "ranksvm.estimators.survival:SurvivalRankSVM",
        ),
        "kernel": Kind(
            "ranksvm.learners.kernel_model:KernelModel",
            "ranksvm.estimators.kernel_survival:KernelSurvivalRankSVM",
        ),
    },
}


def kinds() -> Iterator[Kind]:
    """Yield all kinds of models."""
    yield from LEARNERS.values()
    yield from COMBINATIONS.values()


def learner_of(settings: Settings) -> Learner:
    """Return the entry of ``LEARNERS`` that settings belong to."""
    for learner in LEARNERS.values():
        if type(settings) is learner.settings:
            return learner
    raise LookupError(f"{type(settings).__name__} belongs to no entry of LEARNERS")


def kind_of(model: Model) -> Kind:
    """Return the kind of a model."""
    special = TARGETS.get(model.facts.get("target", ""), {})
    for kind in (*special.values(), *kinds()):
        if type(model) is kind.model:
            return kind
    raise LookupError(f"{type(model).__name__} belongs to no kind of model")


def make_problem(data: RankingData, settings: Settings, *, n_threads: int = 1) -> Problem:
    """Return the problem for these settings, with the features of the query that they ask for."""
    from ranksvm.learners.views import with_view

    data = with_view(data, settings.view, n_threads=n_threads)
    return learner_of(settings).problem(data, settings, n_threads=n_threads)


class _Models(Mapping[str, type[Model]]):
    """Model classes by the names of their formats; those before the one asked for are imported."""

    def __getitem__(self, kind: str) -> type[Model]:
        for one in kinds():
            if kind in one.model.FORMATS:
                return one.model
        raise KeyError(kind)

    def __iter__(self) -> Iterator[str]:
        for one in kinds():
            yield from one.model.FORMATS

    def __len__(self) -> int:
        return sum(1 for _ in self)


def model_class(kind: str) -> type[Model]:
    """Return the class of the models of a format; raise a KeyError if there is none."""
    return _Models()[kind]


def read_model(source: str | os.PathLike[str] | BinaryIO) -> Model:
    """Read a model file; see :func:`ranksvm.models.files.read_model`."""
    return files.read_model(source, _Models())


__getattr__, __dir__ = lazy_names(__name__, _HOME)
