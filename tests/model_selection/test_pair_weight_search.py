"""Searches that choose the weights of pairs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from ranksvm import KernelRankSVM, LinearRankSVM, LinearRankSVMCV
from ranksvm._messages import ParameterError
from ranksvm.data.ranking_data import RankingData
from ranksvm.datasets import make_ranking
from ranksvm.learners import LinearSettings
from ranksvm.model_selection import KernelRankSVMCV
from ranksvm.model_selection.grids import N_CS, make_grid
from ranksvm.model_selection.search import search
from ranksvm.model_selection.splitters import folds_of

CS = [1.0, 100.0, 1e4]
WEIGHTS = ("uniform", "gain", "lambda")

pytestmark = pytest.mark.filterwarnings("ignore:.*the best:UserWarning")


@pytest.fixture(scope="module")
def data() -> RankingData:
    return RankingData(*make_ranking(n_queries=40, random_state=2)[:3])


def test_every_weight_has_its_path(data, tmp_path) -> None:
    chosen = LinearRankSVMCV(CS, pair_weights=WEIGHTS, cv=3).fit(*data)
    table = chosen.cv_results_
    assert_array_equal(table["param_pair_weight"], np.repeat(WEIGHTS, 3))
    assert_array_equal(table["param_C"], CS * 3)
    for k, weight in enumerate(WEIGHTS):
        alone = LinearRankSVMCV(CS, pair_weight=weight, cv=3).fit(*data)
        part = slice(3 * k, 3 * k + 3)
        assert_array_equal(table["mean_test_score"][part], alone.cv_results_["mean_test_score"])
        assert alone.pair_weight_ == weight
        assert "param_pair_weight" not in alone.cv_results_
    best = int(np.argmax(table["mean_test_score"]))
    assert chosen.pair_weight_ == table["param_pair_weight"][best]
    assert table["param_C"][best] == chosen.C_
    assert chosen.best_estimator_.pair_weight == chosen.pair_weight_
    # Interrupted or not, on disk or not.
    path = tmp_path / "search.db"
    for _ in range(2):
        kept = LinearRankSVMCV(CS, pair_weights=WEIGHTS, cv=3, checkpoint=path).fit(*data)
        np.testing.assert_allclose(
            kept.cv_results_["mean_test_score"], table["mean_test_score"], atol=5e-3
        )


def test_kernels_choose_it_beside_gamma(data) -> None:
    options = {"approximation": "nystroem", "n_components": 30, "random_state": 0, "cv": 2}
    chosen = KernelRankSVMCV(CS, [0.01, 0.1], pair_weights=["gain", "uniform"], **options)
    chosen.fit(*data)
    assert chosen.cv_results_["params"][0] == {"pair_weight": "gain", "gamma": 0.01, "C": 1.0}
    assert len(chosen.cv_results_["params"]) == 12
    assert isinstance(chosen.best_estimator_, KernelRankSVM)
    assert chosen.best_estimator_.pair_weight == chosen.pair_weight_


def test_of_equally_good_weights_the_first_is_chosen() -> None:
    """With two grades and one item of the better one in each query, gains change nothing."""
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(20), 5)
    y = (np.arange(100) % 5 == 0).astype(float)
    X = rng.normal(size=(100, 2)) + y[:, None]
    data = RankingData(X, y, qid)
    for weights in (("uniform", "gain"), ("gain", "uniform")):
        found = search(
            data, LinearSettings(), CS, {"pair_weight": weights}, folds=folds_of(data, 4)
        )
        assert found.best["pair_weight"] == weights[0]
        assert {edge.parts["name"] for edge in found.edges} <= {"C"}


def test_grids(data) -> None:
    grid = make_grid(data, LinearSettings(), None, {"pair_weight": ("gain", "uniform")})
    assert list(grid) == ["pair_weight", "C"]
    assert grid["C"].size == N_CS
    assert list(make_grid(data, LinearSettings(), None, {"pair_weight": None})) == ["C"]
    settings = LinearSettings(reduction="sum")
    with pytest.raises(ParameterError, match="no default grid of C for several weights"):
        make_grid(data, settings, None, {"pair_weight": WEIGHTS})
    assert make_grid(data, settings, CS, {"pair_weight": WEIGHTS})["C"].size == 3
    for wrong in ((), ("gain", "gain")):
        with pytest.raises(ParameterError, match="each listed once"):
            make_grid(data, LinearSettings(), None, {"pair_weight": wrong})
    with pytest.raises(ParameterError, match="pair_weights must be one of"):
        make_grid(data, LinearSettings(), None, {"pair_weight": ["ndcg"]})


def test_weights_that_are_refused_are_refused_before_the_work(data) -> None:
    told = []
    search = LinearRankSVMCV(CS, pair_weights=("uniform", "lambda"), cv=2)
    first = data.groups.rows[data.groups.offsets[:-1]]
    second = data.groups.rows[data.groups.offsets[:-1] + 1]
    better, worse = np.where(data.y[first] <= data.y[second], [first, second], [second, first])
    pairs = {"X": data.X, "better": better, "worse": worse, "qid": data.qid}
    with pytest.raises(ParameterError, match=r"^pair_weight='lambda' is not .*pair_weight='gain'"):
        search.fit_pairs(**pairs, y=data.y, progress=lambda *row: told.append(row))
    with pytest.raises(ParameterError, match=r"explicit pairs.*Use pair_weight='uniform'"):
        search.fit_pairs(**pairs, progress=lambda *row: told.append(row))
    assert not told


def test_without_refit_the_message_has_the_weights(data) -> None:
    chosen = LinearRankSVMCV(CS, pair_weights=("gain",), cv=2, refit=False).fit(*data)
    with pytest.raises(ValueError, match=r"LinearRankSVM\(model\.C_, pair_weight=model\.pair_w"):
        chosen.predict(data.X)
    assert LinearRankSVM(chosen.C_, pair_weight=chosen.pair_weight_).fit(*data).n_iter_ > 0
