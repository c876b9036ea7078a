"""Everything that CONTRIBUTING's "How to add" speaks of, added from outside the package.

Each part is what a contributor would write: a class or a function, and one entry in a registry.
``test_recipes.py`` uses them through the estimators, and through the command in a process of its
own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ranksvm._checks import check_choice, check_positive
from ranksvm._points import Point
from ranksvm._vectors import Array
from ranksvm.data import RankingData
from ranksvm.estimators.inputs import fitting, training_data
from ranksvm.estimators.model_ranker import ModelRanker
from ranksvm.learners import LEARNERS, SOLVERS, Learner, LinearModel, make_problem
from ranksvm.learners.fit import Fit, about_fit
from ranksvm.learners.settings import Grid, Settings, parameter
from ranksvm.maps.kernels import KERNELS, Kernel, KernelFunction
from ranksvm.metrics.definition import Definition
from ranksvm.metrics.ranked import Ranked
from ranksvm.metrics.registry import METRICS
from ranksvm.metrics.rules import Rules
from ranksvm.model_selection.grids import N_CS_OF_GRID
from ranksvm.model_selection.search_cv import SearchCV
from ranksvm.models.formats import FEATURES, ArraySpec, Format
from ranksvm.pairs.oracle import LOSSES, LossErrors, LossEval, SquaredHinge
from ranksvm.pairs.order import PairBackend
from ranksvm.solvers.base import Callback, Monitor, Objective, SolverResult, Status

AVERAGES: dict[str, Any] = {"mean": np.mean, "median": np.median}
N_POWERS = 4

# --- A loss --------------------------------------------------------------------------------------


class HalfSquaredHinge:
    """1/2 max(0, t)^2: all that is known of the squared hinge, halved."""

    capabilities = SquaredHinge.capabilities

    def __init__(self, backend: PairBackend) -> None:
        self._whole = SquaredHinge(backend)

    def at(self, scores: Array) -> LossEval:
        whole = self._whole.at(scores)
        hessp, degrees = whole.hessp, whole.degrees
        assert hessp is not None
        assert degrees is not None
        return replace(
            whole,
            value=0.5 * whole.value,
            grad=0.5 * whole.grad,
            stated=0.5 * whole.stated,
            dual_linear=0.5 * whole.dual_linear,
            dual_quadratic=0.5 * whole.dual_quadratic,
            errors=LossErrors(*(0.5 * error for error in whole.errors)),
            steepness=0.5 * whole.steepness,
            bend=0.5 * whole.bend,
            hessp=lambda v: 0.5 * hessp(v),
            degrees=lambda: [(0.5 * weight, groups) for weight, groups in degrees()],
        )


# --- A solver ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SteepestDescent:
    """Along the gradient, as far as the quadratic model says."""

    tol: float = 1e-3
    max_iter: int = 1000

    name = "steepest_descent"
    requires = frozenset({"hessian"})

    def solve(
        self, objective: Objective, start: Point, *, callback: Callback | None = None
    ) -> SolverResult:
        monitor = Monitor(objective, self.tol, callback)
        evaluation = objective.at(start)
        for iteration in range(self.max_iter):
            monitor.offer(evaluation, evaluation.dual)
            status = monitor.record(iteration)
            if status is not None:
                return monitor.result(status, iteration, evaluation)
            direction = objective.point(-evaluation.grad)
            curvature = objective.inner(evaluation.hessp(direction), direction)
            length = objective.inner(evaluation.grad, evaluation.slope) / curvature
            evaluation = evaluation.line(direction)(length).accept()
        return monitor.result(Status.MAX_ITER, self.max_iter, evaluation)


# --- A kernel ------------------------------------------------------------------------------------


def cosine_similarity(kernel: Kernel, X: Any, Z: Any) -> Array:
    """<x, z> / (|x| |z|)."""
    X, Z = (np.asarray(A.toarray() if hasattr(A, "toarray") else A, dtype=float) for A in (X, Z))
    lengths = np.outer(np.linalg.norm(X, axis=1), np.linalg.norm(Z, axis=1))
    values: Array = (X @ Z.T) / lengths
    return values


# --- A metric ------------------------------------------------------------------------------------


def _best_first(ranked: Ranked, rules: Rules) -> Array:
    """Whether the first item of each query is one of its best."""
    del rules
    y, groups = ranked.truth.y, ranked.truth.groups
    values = []
    for q in range(groups.n_queries):
        rows = groups.rows[groups.offsets[q] : groups.offsets[q + 1]]
        first = rows[np.argmax(ranked.scores[rows])]
        values.append(float(y[first] == y[rows].max()))
    return np.array(values)


# --- A kind of model -----------------------------------------------------------------------------


@dataclass(frozen=True)
class DifferenceSettings(Settings):
    """Parameters of the average difference of the pairs."""

    average: str = parameter(
        "mean", "Train a model of this average difference.", choices=lambda: AVERAGES
    )
    power: float = parameter(
        1.0,
        "Power of the average differences.",
        grid=Grid(lambda data, n: 2.0 * np.arange(1, n + 1) / n, N_POWERS, "even steps to 2"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("average", self.average, AVERAGES)
        check_positive("power", self.power)


class DifferenceProblem:
    """w is a power of the average over pairs of x_better - x_worse; no optimization at all."""

    solver_name = "none"

    def __init__(
        self, data: RankingData, settings: DifferenceSettings, *, n_threads: int = 1
    ) -> None:
        self.data, self.settings = data, settings

    def solve(
        self,
        C: float | None = None,
        *,
        start: Array | Point | None = None,
        after: Fit | None = None,
        callback: Callback | None = None,
    ) -> Fit:
        y, query, X = self.data.y, self.data.groups.index, np.asarray(self.data.X)
        assert y is not None
        better, worse = np.nonzero((query[:, None] == query) & (y[:, None] > y))
        average = AVERAGES[self.settings.average](X[better] - X[worse], axis=0)
        C = self.settings.C if C is None else C
        w = C * np.sign(average) * np.abs(average) ** self.settings.power
        return Fit(Point(w, X @ w), 0.0, 0.0, 0, 0, len(better), Status.CONVERGED, (), "none", 0.0)

    def score(self, X: Any, fits: Sequence[Fit]) -> list[Array]:
        return [np.asarray(X) @ fit.coef for fit in fits]

    def model(self, fit: Fit) -> DifferenceModel:
        return DifferenceModel(coef=fit.coef, **about_fit(fit, self.data, self.settings))


class DifferenceModel(LinearModel):
    """A linear model that a file calls by another name."""

    FORMATS: ClassVar[Mapping[str, Format]] = {
        "difference": Format({"coef": ArraySpec(np.dtype(np.float64), (FEATURES,))})
    }


class DifferenceRanker(ModelRanker):
    """The estimator.

    Parameters
    ----------
    C, loss, reduction, pair_weight, gain, discount, truncation, n_reweight, scaling, \
missing, min_frequency, query_features, keep_features, solver, counting, tol, max_iter, verbose, \
n_jobs,
        As for all rankers.
    average : {"mean", "median"}
        The average.
    power : float
        Power of the average differences.
    """

    def __init__(
        self,
        C: float = 5.0,
        *,
        average: str = "mean",
        power: float = 1.0,
        loss: str = "squared_hinge",
        reduction: str = "mean",
        pair_weight: str = "uniform",
        gain: str = "exp2",
        discount: str = "log2",
        truncation: int = 30,
        n_reweight: int = 1,
        scaling: str | None = "auto",
        missing: str = "error",
        min_frequency: float | None = None,
        query_features: Sequence[str] = (),
        keep_features: bool = True,
        solver: str = "auto",
        counting: str = "auto",
        tol: float = 1e-4,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.average = average
        self.power = power
        self.loss = loss
        self.reduction = reduction
        self.pair_weight = pair_weight
        self.gain = gain
        self.discount = discount
        self.truncation = truncation
        self.n_reweight = n_reweight
        self.scaling = scaling
        self.missing = missing
        self.min_frequency = min_frequency
        self.query_features = query_features
        self.keep_features = keep_features
        self.solver = solver
        self.counting = counting
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any, qid: Any = None) -> DifferenceRanker:
        with fitting(self):
            settings = self._settings(DifferenceSettings)
            problem = make_problem(training_data(self, X, y, qid), settings)
            fit = self._solve(problem, None)
            self._keep(problem.model(fit), fit.history)
        self._warn_if_early(fit)
        return self

    def _set_model(self, model: DifferenceModel) -> None:
        self.coef_ = model.coef

    def _get_model(self) -> DifferenceModel:
        return DifferenceModel(coef=self.coef_, **self._about())


class DifferenceRankerCV(SearchCV):
    """The estimator that chooses C and the power."""

    _ranker = DifferenceRanker
    _settings_class = DifferenceSettings

    def __init__(
        self,
        Cs: Any = N_CS_OF_GRID,
        powers: Any = N_POWERS,
        *,
        average: str = "mean",
        loss: str = "squared_hinge",
        reduction: str = "mean",
        pair_weight: str = "uniform",
        gain: str = "exp2",
        discount: str = "log2",
        truncation: int = 30,
        n_reweight: int = 1,
        scaling: str | None = "auto",
        missing: str = "error",
        min_frequency: float | None = None,
        query_features: Sequence[str] = (),
        keep_features: bool = True,
        solver: str = "auto",
        counting: str = "auto",
        tol: float = 1e-4,
        max_iter: int = 1000,
        cv: Any = 5,
        metric: str = "pairwise_accuracy",
        conventions: str = "standard",
        refit: bool = True,
        checkpoint: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.powers = powers
        self.average = average
        self.loss = loss
        self.reduction = reduction
        self.pair_weight = pair_weight
        self.gain = gain
        self.discount = discount
        self.truncation = truncation
        self.n_reweight = n_reweight
        self.scaling = scaling
        self.missing = missing
        self.min_frequency = min_frequency
        self.query_features = query_features
        self.keep_features = keep_features
        self.solver = solver
        self.counting = counting
        self.tol = tol
        self.max_iter = max_iter
        self.cv = cv
        self.metric = metric
        self.conventions = conventions
        self.refit = refit
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.verbose = verbose


# --- One entry each ------------------------------------------------------------------------------

DIFFERENCE = Learner(
    DifferenceSettings,
    DifferenceProblem,
    DifferenceModel,
    "recipes:DifferenceRanker",
    "recipes:DifferenceRankerCV",
    chosen_by="average",
    uses_pairs=False,
)

ENTRIES: Sequence[tuple[dict[str, Any], str, Any]] = (
    (LOSSES, "half_squared_hinge", HalfSquaredHinge),
    (SOLVERS, "steepest_descent", SteepestDescent),
    (
        KERNELS,
        "cosine_similarity",
        KernelFunction(definite=lambda kernel: True, values=cosine_similarity),
    ),
    (METRICS, "best_first", Definition("best first", _best_first, "an item")),
    (LEARNERS, "difference", DIFFERENCE),
)


def register() -> None:
    """Add all of them to this process."""
    for registry, name, entry in ENTRIES:
        registry[name] = entry
