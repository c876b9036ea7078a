"""LinearRankSVMCV: the choice of C against plain loops, and as a scikit-learn user meets it."""

from __future__ import annotations

import io
import logging
import os
import pickle
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from conftest import load_letor
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import ranksvm
from ranksvm import LinearRankSVM
from ranksvm.data.ranking_data import RankingData
from ranksvm.datasets import make_ranking
from ranksvm.learners import LinearSettings, total_pair_weight
from ranksvm.metrics import evaluate
from ranksvm.model_selection import LinearRankSVMCV, QueryKFold, default_Cs, runs, search
from ranksvm.model_selection.splitters import item_folds

CS = [0.02, 0.5, 5.0, 50.0, 2000.0]
quiet_edge = pytest.mark.filterwarnings("ignore:LinearRankSVMCV. the best C:UserWarning")
every_loss = pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any, Any]:
    X, y, qid, _ = make_ranking(n_queries=40, random_state=0)
    # In any row order, with string ids.
    rows = np.random.default_rng(0).permutation(len(y))
    return X[rows], y[rows], np.array([f"q{q}" for q in qid])[rows]


@pytest.fixture
def routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def split_scores(model: LinearRankSVMCV) -> np.ndarray:
    return np.array([model.cv_results_[f"split{k}_test_score"] for k in range(model.n_splits_)])


def threads_end() -> bool:
    """Whether the threads of all splits have ended, or do so within seconds."""
    for _ in range(1000):
        if not any(thread.name.startswith("ranksvm-worker") for thread in threading.enumerate()):
            return True
        time.sleep(0.01)
    return False


@quiet_edge
@pytest.mark.filterwarnings("ignore:LinearRankSVMCV. . of . splits do not count:UserWarning")
@parametrize_with_checks(
    [
        LinearRankSVMCV(),
        LinearRankSVMCV([0.1, 10.0], cv=2, loss="hinge", n_jobs=2),
        LinearRankSVMCV(3, reduction="sum", solver="bundle"),
    ]
)
def test_scikit_learn_checks(estimator: LinearRankSVMCV, check: Any) -> None:
    """All of them: there is no list of expected failures."""
    check(estimator)


@every_loss
@pytest.mark.parametrize(
    ("metric", "reduction"),
    [("pairwise_accuracy", "sum"), ("ndcg@5", "mean"), ("map", "query_mean")],
)
def test_table_equals_a_loop_of_fits(data, loss, reduction, metric):
    X, y, qid = data
    weight = total_pair_weight(RankingData(X, y.astype(float), qid))
    Cs = np.array([0.5, 5.0, 50.0]) / (weight if reduction == "sum" else 1.0)
    settings = {"loss": loss, "reduction": reduction, "tol": 1e-9}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LinearRankSVMCV(Cs, cv=3, metric=metric, **settings).fit(X, y, qid)
    expected = np.zeros((3, 3))
    for k, (train, test) in enumerate(QueryKFold(3).split(X, qid=qid)):
        for j, C in enumerate(Cs):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                one = LinearRankSVM(C, **settings).fit(X[train], y[train], qid[train])
            found = evaluate(y[test], one.predict(X[test]), qid[test], [metric])
            expected[k, j] = found[metric]
            gap = model.cv_results_[f"split{k}_gap"][j]
            value = model.cv_results_[f"split{k}_objective"][j]
            assert abs(value - one.objective_) <= gap + one.gap_ + 1e-12
    assert np.allclose(split_scores(model), expected, atol=1e-3)
    table = model.cv_results_
    assert np.array_equal(table["param_C"], Cs)
    assert table["params"] == [{"C": C} for C in Cs.tolist()]
    assert np.allclose(table["mean_test_score"], split_scores(model).mean(axis=0))
    assert np.allclose(table["std_test_score"], split_scores(model).std(axis=0))
    assert table["rank_test_score"][model.best_index_] == 1
    assert model.best_score_ == table["mean_test_score"].max()
    assert Cs[model.best_index_] == model.C_
    for name, values in table.items():
        assert len(values) == 3, name


@quiet_edge
@every_loss
def test_refit_is_a_certified_fit_on_everything(data, loss):
    X, y, qid = data
    model = LinearRankSVMCV(CS, loss=loss, cv=3).fit(X, y, qid)
    cold = LinearRankSVM(model.C_, loss=loss).fit(X, y, qid)
    assert isinstance(model.best_estimator_, LinearRankSVM)
    assert model.best_estimator_.get_params() == cold.get_params()
    assert model.gap_ <= 1e-4 * model.objective_
    assert abs(model.objective_ - cold.objective_) <= max(model.gap_, cold.gap_)
    assert model.best_estimator_.status_ == "converged"
    assert np.array_equal(model.predict(X), model.best_estimator_.predict(X))
    assert np.array_equal(model.rank(X, qid), model.best_estimator_.rank(X, qid))
    assert model.score(X, y, qid) == model.best_estimator_.score(X, y, qid)
    assert model.n_features_in_ == X.shape[1]


@quiet_edge
def test_every_split_is_certified(data):
    X, y, qid = data
    model = LinearRankSVMCV(CS, cv=4, tol=1e-7, refit=False).fit(X, y, qid)
    for k in range(4):
        gaps, values = (model.cv_results_[f"split{k}_{name}"] for name in ("gap", "objective"))
        assert (gaps <= 1.001e-7 * values).all()
        assert (model.cv_results_[f"split{k}_n_products"] > 0).any()


@quiet_edge
def test_validation_set_equals_a_loop(data):
    X, y, qid = data
    train, test = next(QueryKFold(3).split(X, qid=qid))
    model = LinearRankSVMCV(CS, metric="ndcg@5", tol=1e-9).fit(
        X[train], y[train], qid[train], validation=(X[test], y[test], qid[test])
    )
    assert model.n_splits_ == 1
    fits = [LinearRankSVM(C, tol=1e-9).fit(X[train], y[train], qid[train]) for C in CS]
    expected = [
        evaluate(y[test], fit.predict(X[test]), qid[test], ["ndcg@5"])["ndcg@5"] for fit in fits
    ]
    assert np.allclose(model.cv_results_["mean_test_score"], expected, atol=1e-3)
    chosen = fits[int(np.argmax(expected))]
    assert chosen.C == model.C_
    assert np.allclose(model.coef_, chosen.coef_, atol=1e-3)


@quiet_edge
def test_folds_guided_or_not_agree_within_tolerance(data):
    """The first fold guides the others; put last it is guided itself."""
    X, y, qid = data
    folds = list(QueryKFold(4).split(X, qid=qid))
    there, back = (
        LinearRankSVMCV(CS, cv=cv, refit=False, tol=1e-8).fit(X, y, qid)
        for cv in (folds, folds[::-1])
    )
    for k in range(4):
        one = there.cv_results_[f"split{k}_objective"]
        other = back.cv_results_[f"split{3 - k}_objective"]
        assert np.allclose(one, other, rtol=1e-8)


@quiet_edge
@every_loss
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array, sp.csc_array, np.asfortranarray])
def test_same_bits_for_every_number_of_threads(data, loss, storage):
    X, y, qid = data
    one, *others = (
        LinearRankSVMCV(CS, loss=loss, cv=4, n_jobs=n_jobs).fit(storage(X), y, qid)
        for n_jobs in (1, 2, 3, 5, 16)
    )
    for other in others:
        assert np.array_equal(one.coef_, other.coef_)
        for name, values in one.cv_results_.items():
            if "time" not in name and name != "params":
                assert np.array_equal(values, other.cv_results_[name]), name


def test_weights_reach_the_fits(data):
    X, y, qid = data
    rng = np.random.default_rng(2)
    ids = list(dict.fromkeys(qid))
    item_weight = rng.uniform(0.2, 3.0, len(y))
    query_weight = dict(zip(ids, rng.uniform(0.2, 3.0, len(ids)), strict=True))
    model = LinearRankSVMCV([5.0, 50.0], cv=3, tol=1e-9, refit=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(X, y, qid, sample_weight=item_weight, query_weight=query_weight)
    for k, (train, _) in enumerate(QueryKFold(3).split(X, qid=qid)):
        one = LinearRankSVM(5.0, tol=1e-9).fit(
            X[train],
            y[train],
            qid[train],
            sample_weight=item_weight[train],
            query_weight=query_weight,
        )
        assert model.cv_results_[f"split{k}_objective"][0] == pytest.approx(one.objective_)
    cold = LinearRankSVM(model.C_, tol=1e-9).fit(
        X, y, qid, sample_weight=item_weight, query_weight=query_weight
    )
    assert np.allclose(model.coef_, cold.coef_, atol=1e-4)


@quiet_edge
def test_without_queries_folds_are_of_items():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = X @ [1.0, -2.0, 0.5] + rng.standard_normal(60)
    model = LinearRankSVMCV(CS, cv=3, tol=1e-8).fit(X, y)
    for k, (train, test) in enumerate(item_folds(y, 3)):
        one = LinearRankSVM(CS[2], tol=1e-8).fit(X[train], y[train])
        found = model.cv_results_[f"split{k}_test_score"][2]
        assert found == pytest.approx(one.score(X[test], y[test]), abs=0.02)
    assert LinearRankSVMCV(CS, cv=KFold(4)).fit(X, y).n_splits_ == 4
    assert LinearRankSVMCV(CS, cv=QueryKFold(4)).fit(X, y).n_splits_ == 4


@quiet_edge
def test_ties_go_to_the_smallest_C():
    """One feature in the right direction ranks all the same, whatever C."""
    y = np.tile([0.0, 1.0, 2.0], 8)
    model = LinearRankSVMCV([50.0, 5.0, 500.0], cv=3).fit(y[:, None], y, np.repeat(range(8), 3))
    assert model.C_ == 5.0
    assert model.best_index_ == 1
    assert model.cv_results_["rank_test_score"].tolist() == [1, 1, 1]


def test_edge_of_the_grid_is_told(data):
    X, y, qid = data
    with pytest.warns(UserWarning, match="is the largest of the grid, and a larger one may be"):
        LinearRankSVMCV([0.001, 5.0], cv=2).fit(X, y, qid)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LinearRankSVMCV([5.0], cv=2).fit(X, y, qid)  # no grid, no edge


def test_default_grid_means_the_same_for_each_reduction(data):
    assert np.allclose(default_Cs(11, "mean", 77.0), 50.0 * 4.0 ** np.arange(-5, 6))
    assert default_Cs(11, "mean", 1.0)[5] == pytest.approx(50.0)
    between = default_Cs(3, "sum", 10.0, (1.0, 100.0))
    assert between == pytest.approx([0.1, 1.0, 10.0])
    assert default_Cs(1, "query_mean", 1.0) == pytest.approx([50.0])
    X, y, qid = data
    settings = {"cv": 2, "refit": False, "tol": 1e-6}
    mean = LinearRankSVMCV(4, **settings).fit(X, y, qid)
    total = LinearRankSVMCV(4, reduction="sum", **settings).fit(X, y, qid)
    weight = total_pair_weight(RankingData(X, y.astype(float), qid))
    assert np.allclose(total.Cs_ * weight, mean.Cs_)
    with pytest.raises(ValueError, match="how many values to try"):
        LinearRankSVMCV(0).fit(X, y, qid)


@quiet_edge
def test_without_refit_there_is_no_model(data):
    X, y, qid = data
    model = LinearRankSVMCV(CS, cv=2, refit=False).fit(X, y, qid)
    assert model.C_ in CS
    assert not hasattr(model, "coef_")
    with pytest.raises(NotFittedError, match="refit=False"):
        model.predict(X)
    with pytest.raises(NotFittedError):
        LinearRankSVMCV().predict(X)


@quiet_edge
def test_failed_fit_keeps_the_old_model(data):
    X, y, qid = data
    model = LinearRankSVMCV(CS, cv=2).fit(X, y, qid)
    before = model.predict(X)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        model.fit(X[:, :2], y[:-1], qid)
    assert np.array_equal(model.predict(X), before)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"Cs": []}, "at least one positive number"),
        ({"Cs": [1.0, -1.0]}, "every C in Cs must be a positive finite number; got -1.0"),
        ({"Cs": [1.0, 1.0]}, "Cs holds 1 more than once"),
        ({"metric": "nonsense"}, "nonsense"),
        ({"conventions": "nonsense"}, "nonsense"),
        ({"cv": 1}, "n_splits must be at least 2"),
        ({"cv": 100}, "cannot make 100 folds of 40 queries"),
        ({"cv": "five"}, "cv must be a number of folds, a splitter"),
        ({"cv": None}, "cv must be a number of folds, a splitter"),
        ({"cv": []}, "there is no fold"),
        ({"cv": [([0, 1], [99999])]}, "fold 1: row numbers must lie in 0 to"),
        ({"cv": [([0.5], [1])]}, "fold 1: each part must be a one-dimensional array of row"),
        ({"cv": [([0], [])]}, "fold 1: each part must be"),
        ({"cv": list(KFold(2).split(np.zeros(100)))}, "fold 1 splits .* queries, 'q"),
        ({"loss": "nonsense"}, "loss must be one of"),
        ({"loss": "hinge", "solver": "newton"}, "does not work with loss='hinge'"),
        ({"n_jobs": 0}, "n_jobs must be"),
    ],
)
def test_bad_settings_are_refused(data, settings, message):
    with pytest.raises(ValueError, match=message):
        LinearRankSVMCV(**settings).fit(*data)


def test_bad_metrics_are_refused_before_any_fit(data, monkeypatch):
    X, y, qid = data
    monkeypatch.setattr(runs, "fit_path", lambda *_, **__: pytest.fail("a fit was made"))
    with pytest.raises(ValueError, match="ndcg"):
        LinearRankSVMCV(metric="ndcg@5").fit(X, y - 5.0, qid)


def test_training_part_without_pairs_is_named():
    X = np.arange(6.0)[:, None]
    y = [0, 1, 1, 1, 1, 1]
    with pytest.raises(ValueError, match="fold 1: no comparable pair to learn from"):
        LinearRankSVMCV([1.0], cv=2).fit(X, y, qid=[1, 1, 1, 2, 2, 2])


def test_held_out_part_without_pairs_does_not_count(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2))
    y = (X[:, 0] > 0).astype(float)
    qid = np.repeat(np.arange(8), 5)
    y[qid < 2] = 1.0
    folds = [(np.flatnonzero(qid // 2 != k), np.flatnonzero(qid // 2 == k)) for k in range(4)]
    with pytest.warns(UserWarning, match="1 of 4 splits do not count, the first of them: fold 1"):
        model = LinearRankSVMCV([1.0], cv=folds, metric="pairwise_accuracy").fit(X, y, qid)
    scores = split_scores(model)
    assert np.isnan(scores[0]).all()
    assert model.best_score_ == pytest.approx(scores[1:].mean())

    def fitted(*_, **__):
        raise AssertionError("known from the labels, before any fit")

    monkeypatch.setattr(runs, "fit_path", fitted)
    message = r"no split to compute pairwise_accuracy on\. validation set"
    with pytest.raises(ValueError, match=message):
        LinearRankSVMCV([1.0]).fit(X, y, qid, validation=(X, np.ones(40), qid))


@pytest.mark.filterwarnings("ignore:LinearRankSVMCV. the best C:UserWarning")
def test_scores_that_overflow_cannot_win(data):
    """Held-out items so large that the larger coefficients score them by infinity."""
    X, y, qid = data
    X, Cs = 1e-3 * X, [1e12, 1e8]
    high, low = (np.abs(LinearRankSVM(C, scaling=None).fit(X, y, qid).coef_) for C in Cs)
    j = int(np.argmax(np.where(low > 10.0, high / low, 0.0)))
    huge = np.zeros_like(X)
    huge[:, j] = 1.7e308 / np.sqrt(low[j]) / np.sqrt(high[j])
    with pytest.warns(UserWarning, match="1 of 2 fits have no score, .* C = 1e.12: .*not finite"):
        model = LinearRankSVMCV(Cs, scaling=None).fit(X, y, qid, validation=(huge, y, qid))
    assert np.isnan(model.cv_results_["mean_test_score"][0])
    assert model.C_ == 1e8
    assert model.cv_results_["rank_test_score"].tolist() == [2, 1]
    # In one fold only: it counts, and what has no score in it is out, however good elsewhere.
    first, second = qid == qid[0], qid == np.setdiff1d(qid, qid[:1])[0]
    large = np.where(first[:, None], huge, X)
    folds = [(~first, first), (~first & ~second, second)]
    with pytest.warns(UserWarning, match="1 of 4 fits have no score, the first of them: fold 1"):
        model = LinearRankSVMCV(Cs, cv=folds, refit=False, scaling=None).fit(large, y, qid)
    assert np.isfinite(model.cv_results_["split1_test_score"]).all()
    assert model.C_ == 1e8
    with pytest.raises(ValueError, match=r"nothing to choose from.*validation set, C = 1e.12"):
        LinearRankSVMCV(Cs[:1], scaling=None).fit(X, y, qid, validation=(huge, y, qid))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X, y, qid: (X, y), "both have query ids"),
        (lambda X, y, qid: (X,), r"must be one tuple \(X, y\) or \(X, y, qid\).*got a tuple of 1"),
        (lambda X, y, qid: (X, y, qid, qid), "got a tuple of 4"),
        (lambda X, y, qid: (X[:, :2], y, qid), "features"),
        (lambda X, y, qid: (X, y[:-1], qid), "inconsistent numbers"),
        (lambda X, y, qid: (X, y, qid[:-1]), "qid of validation"),
    ],
)
def test_bad_validation_sets_are_refused(data, make, message):
    with pytest.raises(ValueError, match=message):
        LinearRankSVMCV(CS).fit(*data, validation=make(*data))


@quiet_edge
def test_frames(data):
    X, y, qid = data
    names = [f"f{j}" for j in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names).assign(label=y, query=qid)
    model = LinearRankSVMCV(CS, cv=3).fit(frame, "label", "query")
    plain = LinearRankSVMCV(CS, cv=3).fit(X, y, qid)
    assert np.allclose(model.coef_, plain.coef_)  # stored by columns, so rounded otherwise
    assert model.feature_names_in_.tolist() == names
    assert np.allclose(model.predict(frame), plain.predict(X))
    assert model.best_estimator_.feature_names_in_.tolist() == names
    held_out = frame.sample(frac=0.5, random_state=0)
    by_frame = LinearRankSVMCV(CS).fit(frame, "label", "query", validation=held_out)
    rows = held_out.index
    by_parts = LinearRankSVMCV(CS).fit(X, y, qid, validation=(X[rows], y[rows], qid[rows]))
    for one, other in zip(split_scores(by_frame), split_scores(by_parts), strict=True):
        assert np.allclose(one, other, atol=1e-3)
    with pytest.raises(ValueError, match="feature"):
        model.predict(frame[names[1:]])


@quiet_edge
def test_group_is_another_name(data):
    X, y, qid = data
    one = LinearRankSVMCV(CS, cv=2).fit(X, y, group=qid)
    assert np.array_equal(one.coef_, LinearRankSVMCV(CS, cv=2).fit(X, y, qid).coef_)
    with pytest.raises(ValueError, match="two names for one thing"):
        one.fit(X, y, qid, group=qid)


@quiet_edge
def test_copies_and_pickles(data):
    X, y, qid = data
    model = LinearRankSVMCV(CS, cv=QueryKFold(2), metric="ndcg@3").fit(X, y, qid)
    fresh = clone(model).set_params(tol=1e-3)
    assert fresh.metric == "ndcg@3"
    assert fresh.cv.n_splits == 2
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


@quiet_edge
def test_saved_model_is_the_refitted_one_with_its_story(data, tmp_path):
    X, y, qid = data
    model = LinearRankSVMCV(CS, cv=2).fit(X, y, qid)
    model.save(tmp_path / "model.safetensors")
    loaded = ranksvm.load(tmp_path / "model.safetensors")
    assert isinstance(loaded, LinearRankSVM)
    assert loaded.get_params() == model.best_estimator_.get_params()
    assert np.array_equal(loaded.predict(X), model.predict(X))
    saved = model._get_model()
    assert saved.kind == "linear"
    assert np.array_equal(saved.coef, model.coef_)
    assert saved.params["C"] == model.C_
    told = saved.facts["selection"]
    assert loaded._get_model().facts["selection"] == told
    assert told["Cs"] == CS
    assert told["mean_scores"] == model.cv_results_["mean_test_score"].tolist()
    assert (told["metric"], told["splits"]) == (model.metric_, 2) == ("ndcg@10", 2)
    assert "selection" not in model.best_estimator_._get_model().facts


@quiet_edge
def test_searches_around_it_with_routing(data, routing):
    X, y, qid = data
    model = LinearRankSVMCV([0.5, 50.0], cv=2)
    scores = cross_val_score(model, X, y, params={"qid": qid}, cv=QueryKFold(3))
    assert scores.shape == (3,)
    grid = {"linearranksvmcv__loss": ["hinge", "squared_hinge"]}
    search = GridSearchCV(make_pipeline(StandardScaler(), model), grid, cv=QueryKFold(2))
    search.fit(X, y, qid=qid)
    assert (search.cv_results_["mean_test_score"] > 0.5).all()


@quiet_edge
def test_other_splitters_get_qid_as_groups(data):
    X, y, qid = data
    model = LinearRankSVMCV(CS, cv=GroupKFold(3)).fit(X, y, qid)
    assert model.n_splits_ == 3


def test_progress_counts_every_fit(data):
    X, y, qid = data
    for n_jobs in (1, 3):
        seen: list[tuple[int, int, str]] = []
        threads = set()

        def progress(done, total, message, seen=seen, threads=threads):
            threads.add(threading.current_thread())
            seen.append((done, total, message))

        model = LinearRankSVMCV([1.0, 10.0], cv=4, n_jobs=n_jobs, refit=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model.fit(X, y, qid, progress=progress)
        assert [row[:2] for row in seen] == [(k, 8) for k in range(1, 9)]
        assert {row[2].partition(",")[0] for row in seen} == {f"fold {k}" for k in range(1, 5)}
        assert threads == {threading.main_thread()}


@quiet_edge
def test_verbose_logs_lines_where_there_is_no_terminal(data, caplog):
    X, y, qid = data
    with caplog.at_level(logging.INFO, logger="ranksvm"):
        LinearRankSVMCV([1.0, 10.0], cv=2, verbose=1).fit(X, y, qid)
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0].startswith("1 of 4 fits: fold 1, C = 1")
    assert len(lines) == 4


@quiet_edge
def test_verbose_shows_a_bar_on_a_terminal(data, monkeypatch):
    pytest.importorskip("rich")
    X, y, qid = data
    screen = io.StringIO()
    screen.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    LinearRankSVMCV([1.0, 10.0], cv=2, verbose=1).fit(X, y, qid)
    assert "4 of 4 fits: fold 2" in screen.getvalue()


def test_an_error_in_one_fold_stops_the_others(data, monkeypatch):
    X, y, qid = data
    started = []
    plain = runs.fit_path

    def fit_path(problem, Cs, *, guide, callback, finished):
        started.append(threading.current_thread().name)
        if guide is None:
            return plain(problem, Cs, callback=callback, finished=finished)
        if len(started) == 2:
            raise RuntimeError("this fold is broken")
        while True:  # ends when it is told to
            callback(None, None)
            time.sleep(0.001)

    monkeypatch.setattr(runs, "fit_path", fit_path)
    with pytest.raises(RuntimeError, match="this fold is broken"):
        LinearRankSVMCV([1.0, 10.0], cv=6, n_jobs=2).fit(X, y, qid)
    assert len(started) <= 4  # the first, the broken one, and at most one beside and one after it
    assert threads_end()


def test_an_interrupt_stops_all_folds(data, monkeypatch):
    X, y, qid = data
    plain = runs.fit_path
    stopped = []
    killed = threading.Event()

    def fit_path(problem, Cs, *, guide, callback, finished):
        if guide is None:
            return plain(problem, Cs, callback=callback, finished=finished)
        if not killed.is_set():
            killed.set()
            os.kill(os.getpid(), signal.SIGINT)
        try:
            while True:
                callback(None, None)
                time.sleep(0.001)
        finally:
            stopped.append(True)

    monkeypatch.setattr(runs, "fit_path", fit_path)
    with pytest.raises(KeyboardInterrupt):
        LinearRankSVMCV([1.0, 10.0], cv=5, n_jobs=2).fit(X, y, qid)
    assert threads_end()
    assert stopped


@quiet_edge
def test_early_ends_are_told(data):
    X, y, qid = data
    with pytest.warns(ConvergenceWarning, match=r"LinearRankSVMCV: \d+ of 16 fits ended early"):
        LinearRankSVMCV(CS, cv=3, max_iter=1, tol=1e-12).fit(X, y, qid)


def test_search_takes_folds_or_a_validation_set(data):
    X, y, qid = data
    items = RankingData(X, y.astype(float), qid)
    with pytest.raises(ValueError, match="either folds or a validation set"):
        search(items, LinearSettings(), [1.0])
    with pytest.raises(ValueError, match="either folds or a validation set"):
        search(items, LinearSettings(), [1.0], folds=[([0], [1])], validation=items)


def test_a_search_has_the_default_grid_and_a_start_for_the_refit(data):
    X, y, qid = data
    items = RankingData(X, y.astype(float), qid)
    folds = list(QueryKFold(3).split(qid=qid))
    found = search(items, LinearSettings(), folds=folds)
    assert np.array_equal(found.grid["C"], default_Cs(21, "mean", 1.0))
    assert found.n_resumed == 0
    parts = [LinearRankSVM(found.best["C"]).fit(X[a], y[a], qid[a]).coef_ for a, _ in folds]
    assert np.allclose(found.best_start, np.mean(parts, axis=0), atol=0.02)
    assert found.best_settings == LinearSettings(C=found.best["C"])
    few = search(items, LinearSettings(), 4, folds=folds)
    assert np.array_equal(few.grid["C"], default_Cs(4, "mean", 1.0))
    with pytest.raises(ValueError, match="this kind of model has no gamma to choose: give no gamm"):
        search(items, LinearSettings(), [1.0], {"gamma": [1.0]}, folds=folds)


@quiet_edge
def test_folds_may_leave_items_out(data):
    X, y, qid = data
    folds = [(train[:-40], test) for train, test in QueryKFold(3).split(X, qid=qid)]
    model = LinearRankSVMCV(CS, cv=folds, refit=False, tol=1e-8).fit(X, y, qid)
    train, _ = folds[2]
    one = LinearRankSVM(CS[2], tol=1e-8).fit(X[train], y[train], qid[train])
    assert model.cv_results_["split2_objective"][2] == pytest.approx(one.objective_, rel=1e-7)


@pytest.mark.slow
def test_choice_on_real_data(data_directory: Path) -> None:
    """MQ2008, fold 1, LETOR style: the chosen C is about as good on the test part as any."""
    train, valid, test = (
        load_letor(data_directory, "MQ2008", parts) for parts in ("123", "4", "5")
    )
    model = LinearRankSVMCV(metric="mean_ndcg", conventions="letor")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(*train, validation=tuple(valid))

    def quality(fitted: Any) -> float:
        found = evaluate(
            test.y, fitted.predict(test.X), test.qid, ["mean_ndcg"], conventions="letor"
        )
        return found["mean_ndcg"]

    best = max(quality(LinearRankSVM(C).fit(*train)) for C in model.Cs_)
    assert quality(model) >= 0.97 * best
