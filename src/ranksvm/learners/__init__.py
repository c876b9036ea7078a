"""Training: from a data set to a model.

    F(w) = 1/2 |w|^2 + C * sum over comparable pairs of  weight * loss(1 - s_better + s_worse)

with scores s that are linear in w: w.x, or w.phi(x) for the features of a kernel.  Pairs come from
labels within queries, from a list of preferences, or from both.  Every kind of model has

    settings    the objective and how it is minimized
    problem     a prepared data set (see :class:`ranksvm.learners.problem.Problem`): all work that
                does not depend on C is done once for many C
    model       the result

and one entry in ``LEARNERS``, where estimators, commands, model files and exports find it.  Nothing
here needs scikit-learn.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from ranksvm._points import Point
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners import factorized, kernel_model
from ranksvm.learners.factorized import FactorizedModel, FactorizedProblem
from ranksvm.learners.factors import FactorizedSettings
from ranksvm.learners.kernel import KernelProblem, KernelSettings
from ranksvm.learners.kernel_model import KernelModel
from ranksvm.learners.linear import LinearModel, LinearProblem, LinearSettings
from ranksvm.learners.problem import Fit, PathProblem, Problem, RankProblem
from ranksvm.learners.settings import REDUCTIONS, SOLVERS, Settings
from ranksvm.learners.weights import check_query_weight, total_pair_weight
from ranksvm.models import files
from ranksvm.models.model import Model

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


@dataclass(frozen=True)
class Learner:
    """The parts of one kind of model.

    Attributes
    ----------
    settings : type
        Class of its parameters.
    problem : callable
        ``problem(data, settings, n_threads=1)`` returns a
        :class:`ranksvm.learners.problem.Problem`, and a ``PathProblem`` if there is a search.
    model : type
        Class of the trained model.
    estimator : str
        Its estimator, as "module:class".
    search : str or None
        The estimator that chooses C, and the other parameters that have a grid (see
        :class:`ranksvm.learners.settings.Grid`), as "module:class"; None if there is none.
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

    settings: type[Settings]
    problem: Callable[..., Problem]
    model: type[Model]
    estimator: str
    search: str | None = None
    chosen_by: str | None = None
    uses_pairs: bool = True
    early_stopping: str | None = None
    summary: Callable[[Mapping[str, Any]], str] = lambda report: ""


LEARNERS: dict[str, Learner] = {
    "linear": Learner(
        LinearSettings,
        LinearProblem,
        LinearModel,
        "ranksvm.estimators.linear:LinearRankSVM",
        "ranksvm.model_selection.linear_cv:LinearRankSVMCV",
    ),
    "kernel": Learner(
        KernelSettings,
        KernelProblem,
        KernelModel,
        "ranksvm.estimators.kernel:KernelRankSVM",
        "ranksvm.model_selection.kernel_cv:KernelRankSVMCV",
        chosen_by="kernel",
        summary=kernel_model.summary,
    ),
    "factorized": Learner(
        FactorizedSettings,
        FactorizedProblem,
        FactorizedModel,
        "ranksvm.estimators.factorized:FactorizedRankSVM",
        chosen_by="n_factors",
        uses_pairs=False,
        early_stopping="patience",
        summary=factorized.summary,
    ),
}


def learner_of(of: Settings | Model) -> Learner:
    """Return the entry of ``LEARNERS`` that settings or a model belong to."""
    for learner in LEARNERS.values():
        if type(of) in (learner.settings, learner.model):
            return learner
    raise LookupError(f"{type(of).__name__} belongs to no entry of LEARNERS")


def make_problem(data: RankingData, settings: Settings, *, n_threads: int = 1) -> Problem:
    """Return the problem for these settings."""
    return learner_of(settings).problem(data, settings, n_threads=n_threads)


def read_model(source: str | os.PathLike[str] | BinaryIO) -> Model:
    """Read a model file; see :func:`ranksvm.models.files.read_model`."""
    models = {kind: one.model for one in LEARNERS.values() for kind in one.model.FORMATS}
    return files.read_model(source, models)
