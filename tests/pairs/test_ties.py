"""Ties: pairs that should score alike, as both orders with half of the weight each."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize

from ranksvm import KernelRankSVM, LinearRankSVM, LinearRankSVMCV
from ranksvm.backends.pair_list import PairListBackend
from ranksvm.backends.reference import ReferencePairList
from ranksvm.data import read_pairs, write_pairs
from ranksvm.data.preferences import Preferences, count_contradictions
from ranksvm.pairs.oracle import LOSSES


class Data:
    """Items with pairs, ties among other items, and weights of both."""

    def __init__(self, seed: int = 0, n_items: int = 40, n_pairs: int = 60) -> None:
        rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(n_items, 3))
        score = self.X @ [1.0, -2.0, 0.5] + 0.5 * rng.normal(size=n_items)
        i, j = rng.integers(n_items, size=(2, n_pairs))
        i, j = i[i != j], j[i != j]
        is_tie = np.abs(score[i] - score[j]) < 1.0
        self.better, self.worse = np.where(score[i] > score[j], [i, j], [j, i])[:, ~is_tie]
        self.tied = i[is_tie], j[is_tie]
        self.weight = rng.integers(1, 4, size=self.better.size).astype(float)
        self.tie_weight = rng.random(self.tied[0].size) + 0.5

    def preferences(self, *, weighted: bool, tie_weighted: bool) -> Preferences:
        pairs = Preferences(self.better, self.worse, self.weight if weighted else None)
        return pairs.with_ties(Preferences(*self.tied, self.tie_weight if tie_weighted else None))


def brute_force(data: Data, w, loss: str, weight, tie_weight) -> float:
    """The mean loss of all pairs, written out."""
    power = 2 if loss == "squared_hinge" else 1
    s = data.X @ w

    def mean(t):
        return np.maximum(0.0, t) ** power

    d = s[data.better] - s[data.worse]
    e = s[data.tied[0]] - s[data.tied[1]]
    tied = 0.5 * mean(1.0 - e) + 0.5 * mean(1.0 + e)
    total = weight @ mean(1.0 - d) + tie_weight @ tied
    return float(total / (weight.sum() + tie_weight.sum()))


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
@pytest.mark.parametrize("weighted", [False, True])
def test_objective_is_that_of_brute_force_and_of_another_solver(loss: str, weighted: bool) -> None:
    data = Data()
    weight = data.weight if weighted else np.ones(data.better.size)
    tie_weight = data.tie_weight if weighted else np.ones(data.tied[0].size)
    ties = (*data.tied, tie_weight) if weighted else data.tied
    model = LinearRankSVM(2.0, loss=loss, scaling=None, tol=1e-9).fit_pairs(
        data.X, data.better, data.worse, weight=weight if weighted else None, ties=ties,
        calibrate=False,
    )  # fmt: skip

    def objective(w):
        return 0.5 * w @ w + 2.0 * brute_force(data, w, loss, weight, tie_weight)

    assert objective(model.coef_) == pytest.approx(model.objective_, rel=1e-8)
    assert model.n_pairs_ == data.better.size + data.tied[0].size
    if loss == "squared_hinge":
        found = minimize(objective, np.zeros(3), method="BFGS", tol=1e-10).fun
    else:
        found = _hinge_optimum(data, 2.0, weight, tie_weight)
    assert found == pytest.approx(model.objective_, rel=1e-6)


def _hinge_optimum(data: Data, C: float, weight, tie_weight) -> float:
    """Return the optimum under the hinge, as a quadratic program with one slack per order."""
    i, j = data.tied
    D = data.X[np.concatenate([data.better, i, j])] - data.X[np.concatenate([data.worse, j, i])]
    c = np.concatenate([weight, 0.5 * tie_weight, 0.5 * tie_weight])
    c *= C / (weight.sum() + tie_weight.sum())
    n = len(c)
    found = minimize(
        lambda v: 0.5 * v[:3] @ v[:3] + c @ v[3:],
        np.concatenate([np.zeros(3), np.ones(n)]),
        jac=lambda v: np.concatenate([v[:3], c]),
        bounds=[(None, None)] * 3 + [(0.0, None)] * n,
        constraints=LinearConstraint(np.hstack([D, np.eye(n)]), 1.0, np.inf),
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    return float(found.fun)


def test_loss_of_a_tie_is_the_squared_loss_and_a_constant() -> None:
    pairs = Preferences(np.array([0]), np.array([1]), tie=np.array([True]))
    loss = LOSSES["squared_hinge"](PairListBackend(pairs, 2))
    for d in (0.0, 0.3, -0.9, 1.0):
        assert loss.at(np.array([d, 0.0])).value == pytest.approx(1.0 + d * d)
    assert loss.at(np.array([3.0, 0.0])).value == pytest.approx(0.5 * 4.0**2)


@pytest.mark.parametrize("tie_weighted", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_native_and_reference_agree(weighted: bool, tie_weighted: bool) -> None:
    data = Data(1)
    pairs = data.preferences(weighted=weighted, tie_weighted=tie_weighted)
    scores = np.random.default_rng(2).normal(size=len(data.X))
    direction = np.random.default_rng(3).normal(size=len(data.X))
    found = []
    for backend in (PairListBackend(pairs, len(data.X)), ReferencePairList(pairs, len(data.X))):
        at = LOSSES["squared_hinge"](backend).at(scores)
        found.append((at.value, at.grad, at.hessp(direction), backend.weight, [*backend.pairs]))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_a_tie_is_both_orders_with_half_of_the_weight() -> None:
    data = Data(2)
    i, j = data.tied
    better = np.concatenate([data.better, i, j])
    worse = np.concatenate([data.worse, j, i])
    weight = np.concatenate([np.ones(data.better.size), np.full(2 * i.size, 0.5)])
    make = {"approximation": "nystroem", "n_components": 10, "random_state": 0}
    for model in (LinearRankSVM, lambda **o: KernelRankSVM(100.0, **make, **o)):
        ties = model(tol=1e-8).fit_pairs(
            data.X, data.better, data.worse, ties=data.tied, calibrate=False
        )
        with pytest.warns(UserWarning, match="preferred both ways"):
            both = model(tol=1e-8).fit_pairs(data.X, better, worse, weight=weight, calibrate=False)
        assert ties.objective_ == pytest.approx(both.objective_, rel=1e-7)
        np.testing.assert_allclose(ties.predict(data.X), both.predict(data.X), atol=2e-3)


def test_ties_contradict_nothing_and_reach_folds() -> None:
    pairs = Preferences(np.array([0, 1]), np.array([1, 0]), tie=np.array([False, True]))
    assert count_contradictions(pairs) == 0
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    better, worse = np.arange(0, 300, 2), np.arange(1, 300, 2)
    up = X[better, 0] > X[worse, 0]
    better, worse = np.where(up, [better, worse], [worse, better])
    ties = (np.arange(300, 400, 2), np.arange(301, 400, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*of the grid")
        model = LinearRankSVMCV([0.1, 1.0, 10.0]).fit_pairs(X, better, worse, ties=ties)
    assert model.best_score_ > 0.9  # the ties, always half right, do not count
    assert model.best_estimator_.n_pairs_ == 200
    assert model.best_estimator_._facts["explicit_ties"] == 50


def test_ties_pull_scores_together() -> None:
    data = Data(3, 60, 200)
    plain = LinearRankSVM().fit_pairs(data.X, data.better, data.worse)
    tied = LinearRankSVM().fit_pairs(
        data.X, data.better, data.worse, ties=(*data.tied, np.full(data.tied[0].size, 10.0))
    )

    def spread(model):
        s = model.predict(data.X)
        return np.abs(s[data.tied[0]] - s[data.tied[1]]).mean()

    assert spread(tied) < 0.7 * spread(plain)


def test_files_have_ties() -> None:
    text = b"3 1\n2 = 4\n1, =, 5, 0.5\n4 5 2.0\n"
    pairs = read_pairs(io.BytesIO(text), n_items=5)
    assert pairs.better.tolist() == [2, 1, 0, 3]
    assert pairs.tie.tolist() == [False, True, True, False]
    assert pairs.weight.tolist() == [1.0, 1.0, 0.5, 2.0]
    written = io.BytesIO()
    write_pairs(written, pairs)
    assert written.getvalue() == b"3 1 1.0\n2 = 4 1.0\n1 = 5 0.5\n4 5 2.0\n"
    again = read_pairs(io.BytesIO(written.getvalue()))
    assert all(map(np.array_equal, pairs.arrays, again.arrays))
    named = read_pairs(io.BytesIO(b"qid:1 a = b\n"), docids=["a", "b"], qid=[1, 1])
    assert named.tie.tolist() == [True]
    i, j, weight = pairs.ties
    assert (i.tolist(), j.tolist(), weight.tolist()) == ([1, 0], [3, 4], [1.0, 0.5])
    assert [one.tolist() for one in pairs.preferred] == [[2, 3], [0, 4], [1.0, 2.0]]
    with pytest.raises(ValueError, match=r"2 of 4 pairs are ties.*ties=pairs\.ties"):
        LinearRankSVM().fit_pairs(np.eye(5), *pairs)


@pytest.mark.parametrize(
    ("ties", "message"),
    [
        (([0], [9]), r"ties\[1\] has row numbers that X does not have: got 9"),
        (([0], [0]), "1 of 1 pairs prefer an item to itself"),
        (([0],), r"ties must be a tuple \(i, j\) or \(i, j, weight\)"),
        ("ab", r"ties must be a tuple .* got str"),
        (([0], [1, 2]), r"ties\[0\] and ties\[1\] must have one row number per pair"),
        (([0], [1], [-1.0]), r"ties\[2\] must be finite and not negative"),
    ],
)
def test_wrong_ties_are_refused(ties, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LinearRankSVM().fit_pairs([[0.0], [1.0], [2.0]], [1], [0], ties=ties)
