"""Paths over C: every solution is as good as a fit on its own, and cheaper."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp

from ranksvm.data.ranking_data import RankingData
from ranksvm.datasets import make_ranking
from ranksvm.learners import LinearProblem, LinearSettings, Point, total_pair_weight
from ranksvm.model_selection import fit_path
from ranksvm.model_selection.grids import check_grid
from ranksvm.objective import RankObjective
from ranksvm.solvers.base import Status
from ranksvm.solvers.bundle import Bundle
from ranksvm.solvers.newton import Newton

WAYS = [
    ("squared_hinge", "newton"),
    ("squared_hinge", "bundle"),
    ("hinge", "smoothed_newton"),
    ("hinge", "bundle"),
]
REDUCTIONS = ("sum", "mean", "query_mean")
# From where all pairs are violated to where the solution hardly moves.
MEAN_CS = (0.01, 0.1, 1.0, 4.0, 16.0, 50.0, 200.0, 3000.0)


@cache
def ranking(seed: int = 0):
    return make_ranking(n_queries=25, random_state=seed)


def problem(loss="squared_hinge", rows=None, *, sparse=False, weighted=False, **settings):
    X, y, qid, _ = ranking()
    rows = np.arange(len(y)) if rows is None else rows
    X, y, qid = X[rows], y[rows].astype(float), np.asarray(qid)[rows]
    rng = np.random.default_rng(1)
    weights = {}
    if weighted:
        weights = {
            "item_weight": rng.uniform(0.5, 2.0, len(y)),
            "query_weight": rng.uniform(0.5, 2.0, len(set(qid))),
        }
    data = RankingData(sp.csr_array(X) if sparse else X, y, qid, **weights)
    made = LinearProblem(data, LinearSettings(loss=loss, **settings, scaling=None))
    return made, total_pair_weight(data)


def grid(reduction, weight):
    return np.array(MEAN_CS) / (weight if reduction == "sum" else 1.0)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("loss", "solver"), WAYS)
def test_path_equals_cold_fits(loss, solver, reduction):
    """Both are certified: each lies within the other's gap; strong convexity bounds the rest."""
    made, weight = problem(loss, solver=solver, reduction=reduction, tol=1e-6)
    Cs = grid(reduction, weight)
    for C, fit in zip(Cs, fit_path(made, Cs), strict=True):
        cold = made.solve(C)
        assert fit.status is Status.CONVERGED
        assert fit.gap <= 1.001 * 1e-6 * fit.objective
        assert fit.objective - cold.objective <= fit.gap + 1e-12
        assert cold.objective - fit.objective <= cold.gap + 1e-12
        bound = np.sqrt(2.0 * fit.gap) + np.sqrt(2.0 * cold.gap)
        assert np.linalg.norm(fit.coef - cold.coef) <= bound + 1e-9


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_certificates_do_not_rest_on_what_was_carried_along(loss, sparse):
    """Value and scores at every solution, computed from its coefficients alone."""
    made, _ = problem(loss, sparse=sparse, weighted=True)
    for C, fit in zip(MEAN_CS, fit_path(made, MEAN_CS), strict=True):
        objective = made.objective(C)
        fresh = objective.at(objective.point(fit.coef))
        assert fresh.value <= fit.objective <= fresh.value * (1.0 + 1e-9)
        apart = np.max(np.abs(fit.point.scores - fresh.point.scores))
        assert apart <= fit.point.error + fresh.point.error <= 1e-9
        tight = replace_tol(made, 1e-9).solve(C)
        assert fit.objective - fit.gap <= tight.objective
        assert fit.gap <= 1.001e-4 * fit.objective


def replace_tol(made: LinearProblem, tol: float) -> LinearProblem:
    """The same problem, solved further."""
    tight = object.__new__(LinearProblem)
    tight.__dict__.update(made.__dict__)
    tight.settings = replace(made.settings, tol=tol)
    tight.solver = tight.settings.make_solver()
    return tight


def test_results_come_in_the_order_asked_for():
    made, _ = problem()
    order = np.random.default_rng(0).permutation(len(MEAN_CS))
    ascending = fit_path(made, MEAN_CS)
    told = []
    shuffled = fit_path(
        made, np.array(MEAN_CS)[order], finished=lambda k, fit: told.append((k, fit.objective))
    )
    for place, k in enumerate(order):
        assert np.array_equal(shuffled[place].coef, ascending[k].coef)
    assert [order[k] for k, _ in told] == sorted(order)
    assert {value for _, value in told} == {fit.objective for fit in shuffled}


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_path_takes_fewer_products_than_cold_fits(loss):
    made, _ = problem(loss)
    fits = fit_path(made, MEAN_CS)
    cold = [made.solve(C) for C in MEAN_CS]
    assert sum(fit.n_products for fit in fits) < 0.85 * sum(fit.n_products for fit in cold)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_a_guide_saves_work_and_changes_nothing(loss):
    """The path itself as the guide is the best there is; nonsense must do no harm either."""
    made, _ = problem(loss)
    alone = fit_path(made, MEAN_CS)
    best = fit_path(made, MEAN_CS, guide=lambda k: alone[k].point)
    assert sum(fit.n_products for fit in best) < sum(fit.n_products for fit in alone)
    rng = np.random.default_rng(0)

    def nonsense(k: int) -> Point:
        return made.objective(1.0).point(rng.standard_normal(made.data.n_features) * 10.0**k)

    for fits in (best, fit_path(made, MEAN_CS, guide=nonsense)):
        for fit, other in zip(fits, alone, strict=True):
            assert fit.status is Status.CONVERGED
            apart = abs(fit.objective - other.objective)
            assert apart <= max(fit.gap, other.gap) + 1e-12 * fit.objective


def test_nothing_to_do_when_the_last_solution_is_good_enough():
    made, _ = problem(tol=1e-2)
    first = made.solve(50.0)
    again = made.solve(50.0 * (1 + 1e-9), after=first)
    assert again.n_iter == 0
    assert again.n_products == 0
    assert np.array_equal(again.coef, first.coef)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_scores_that_may_have_drifted_are_computed_anew(loss):
    made, _ = problem(loss)
    first = made.solve(50.0)
    shifted = first.point._replace(scores=first.point.scores * (1.0 + 1e-6), error=1e-5)
    evaluation = made.objective(50.0).at(shifted)
    stale = replace(first, point=shifted, evaluation=evaluation)
    for start in (None, shifted):
        fit = made.solve(50.0 * (1 + 1e-9), start=start, after=stale)
        objective = made.objective(50.0 * (1 + 1e-9))
        assert fit.status is Status.CONVERGED
        assert fit.point.error <= 1e-12
        assert np.allclose(fit.point.scores, objective.point(fit.coef).scores, rtol=1e-12)
        exact = objective.at(objective.point(fit.coef)).value
        assert exact <= fit.objective <= exact * (1.0 + 1e-10)


def test_a_forecast_at_the_last_solution_is_no_direction():
    """The scores of the difference are rounding errors: a search along them must not be made."""
    made, _ = problem()
    first = made.solve(50.0)
    noise = np.random.default_rng(0).standard_normal(first.point.scores.size)
    start = Point(first.coef * (1.0 + 1e-15), first.point.scores + 1e-13 * noise)
    fit = made.solve(200.0, start=start, after=first)
    assert fit.status is Status.CONVERGED
    assert np.allclose(fit.point.scores, made.objective(1.0).point(fit.coef).scores, atol=1e-11)


def test_paths_on_features_far_from_zero():
    """Scores then are large against their differences, and their rounding with them."""
    rng = np.random.default_rng(0)
    X = rng.normal(loc=100.0, size=(100, 2))
    data = RankingData(X, rng.integers(0, 2, 100).astype(float))
    made = LinearProblem(data, LinearSettings(scaling=None))
    Cs = 50.0 * 4.0 ** np.arange(-3, 9)
    guide = [made.solve(C) for C in Cs]
    for guided in (None, lambda k: guide[k].point):
        for fit, cold in zip(fit_path(made, Cs, guide=guided), guide, strict=True):
            assert fit.status is Status.CONVERGED
            assert abs(fit.objective - cold.objective) <= max(fit.gap, cold.gap)


def test_evaluation_for_another_C_is_the_evaluation_there(monkeypatch):
    """All that is handed on, against an evaluation from scratch."""
    made, _ = problem(weighted=True)
    seen = {}
    resume = Newton.resume
    monkeypatch.setattr(
        Newton,
        "resume",
        lambda self, objective, evaluation, **kw: (
            seen.update(objective=objective, evaluation=evaluation),
            resume(self, objective, evaluation, **kw),
        )[1],
    )
    first = made.solve(3.0)
    made.solve(12.0, after=first)
    known, objective = seen["evaluation"], seen["objective"]
    fresh = objective.at(known.point)
    for name in ("value", "primal", "norm2", "offset"):
        assert getattr(known, name) == pytest.approx(getattr(fresh, name), rel=1e-12)
    assert known.loss.value == pytest.approx(fresh.loss.value, rel=1e-12)
    assert np.allclose(known.grad, fresh.grad, rtol=1e-10, atol=1e-12)
    assert np.allclose(known.risk_slope.w, fresh.risk_slope.w, rtol=1e-10, atol=1e-12)
    assert 0.0 < known.dual <= fresh.dual * (1 + 1e-12)
    direction = objective.point(np.arange(made.data.n_features) - 3.0)
    assert np.allclose(known.hessp(direction), fresh.hessp(direction), rtol=1e-10)
    assert known.line(direction)(0.3).value == pytest.approx(fresh.line(direction)(0.3).value)


@pytest.mark.parametrize("solver", [Newton(tol=1e-8), Bundle(tol=1e-8)])
def test_resuming_equals_solving_from_the_same_point(solver):
    made, _ = problem()
    objective = made.objective(20.0)
    start = objective.point(np.linspace(-1.0, 1.0, made.data.n_features))
    solved = solver.solve(objective, start)
    resumed = solver.resume(objective, objective.at(start))
    assert resumed.objective == pytest.approx(solved.objective, rel=1e-7)
    assert resumed.gap <= 1e-8 * resumed.objective
    assert resumed.n_products <= solved.n_products
    assert resumed.evaluation is None or resumed.evaluation.point is resumed.point


def test_the_preconditioner_is_kept_while_the_pairs_stay():
    made, _ = problem()
    fits = fit_path(made, MEAN_CS)
    objective: RankObjective = made.objective(50.0, steady=True)
    evaluation = objective.at(fits[5].point)
    steady = evaluation.preconditioner()
    fresh = made.objective(50.0).at(fits[5].point).preconditioner()
    vector = np.linspace(-1.0, 1.0, made.data.n_features)
    assert np.allclose(steady(vector), fresh(vector), rtol=0.5)
    assert vector @ steady(vector) > 0.0


def test_callback_stops_one_fit_and_an_exception_the_path():
    made, _ = problem(tol=1e-10)
    fits = fit_path(made, MEAN_CS[4:], callback=lambda row, coef: row.iteration >= 1)
    assert {fit.status for fit in fits} <= {Status.STOPPED, Status.CONVERGED}
    assert Status.STOPPED in {fit.status for fit in fits}
    for C, fit in zip(MEAN_CS[4:], fits, strict=True):  # an early end is certified, too
        assert fit.objective - made.solve(C).objective <= fit.gap

    def interrupt(row, coef):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_path(made, MEAN_CS, callback=interrupt)


@pytest.mark.parametrize(
    ("Cs", "message"),
    [
        ([], "at least one positive number"),
        (3.0, "a sequence of at least one"),
        ([1.0, 0.0], "every C in Cs must be a positive finite number; got 0"),
        ([1.0, -2.0], "got -2"),
        ([1.0, np.inf], "got inf"),
        ([1.0, np.nan], "got nan"),
        (["a"], "got 'a'"),
        ([True], "got True"),
        ([1.0, 2.0, 1.0], "Cs holds 1 more than once"),
    ],
)
def test_bad_grids_are_refused(Cs, message):
    with pytest.raises(ValueError, match=message):
        check_grid("C", Cs)
    made, _ = problem()
    with pytest.raises(ValueError, match=message):
        fit_path(made, Cs)


def test_one_C_is_a_path():
    made, _ = problem()
    (fit,) = fit_path(made, [50.0])
    assert np.array_equal(fit.coef, made.solve(50.0).coef)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_values_of_c_that_float64_can_hardly_tell_apart(loss):
    """Neighbouring numbers, and numbers that are nearly zero, harm no fit but their own."""
    made, *_ = problem(loss)
    near = float(np.nextafter(3.0, 4.0))
    for Cs in (
        [3.0, near, float(np.nextafter(near, 4.0)), 5.0],
        [1e-310, 2e-310, 1.0],
        [1e-320, 1.0],
    ):
        fits = fit_path(made, Cs)
        for C, fit in zip(Cs, fits, strict=True):
            cold = made.solve(C)
            if C > 1e-300:  # below, C itself has lost its digits
                assert fit.status is Status.CONVERGED
            assert np.isfinite([fit.objective, fit.gap]).all()
            assert abs(fit.objective - cold.objective) <= fit.gap + cold.gap
