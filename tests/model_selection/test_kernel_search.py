"""The choice of C and gamma, against plain loops of fits; test_checkpoints.py breaks it off."""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from searches import CS, GAMMAS, by_gamma, count_fits, same, searched, small_set
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks

import ranksvm
from ranksvm import KernelRankSVM, KernelRankSVMCV
from ranksvm.data.ranking_data import RankingData
from ranksvm.datasets import make_ranking
from ranksvm.learners import FactorizedSettings, KernelProblem, KernelSettings
from ranksvm.learners.participants import comparable_items
from ranksvm.learners.problem import RankProblem
from ranksvm.metrics import evaluate
from ranksvm.model_selection import QueryKFold, Search, default_gammas
from ranksvm.model_selection.judges import judge_named
from ranksvm.model_selection.splits import make_splits

NAN = math.nan
TIGHT = {"tol": 1e-9}
quiet = pytest.mark.filterwarnings("ignore:KernelRankSVMCV. the best:UserWarning")


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any, Any]:
    return small_set()


@pytest.fixture
def fits(monkeypatch) -> list[float]:
    """Every C that is fitted from now on."""
    return count_fits(monkeypatch)


# --- The table ------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array, sp.csc_matrix])
@pytest.mark.parametrize(
    ("metric", "conventions"),
    [("pairwise_accuracy", "standard"), ("ndcg@5", "letor"), ("mean_ndcg", "letor")],
)
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"loss": "hinge", "reduction": "query_mean", "kernel": "laplacian", "tol": 1e-7},
        {"kernel": "poly", "degree": 2, "coef0": 0.5, "reduction": "sum"},
        {"approximation": "nystroem", "n_components": 12, "random_state": 5},
        {"approximation": "fourier", "n_components": 30, "random_state": 5},
    ],
)
def test_the_table_is_that_of_separate_fits(data, params, metric, conventions, layout):
    X, y, qid = data
    params = {**TIGHT, **params}
    Cs = [0.01, 0.5] if params.get("reduction") == "sum" else CS
    table = searched(
        (layout(X), y, qid), KernelSettings(**params, scaling=None), Cs=Cs, metric=metric,
        conventions=conventions, n_threads=2,
    )  # fmt: skip
    assert table.scores.shape == (3, len(GAMMAS) * len(Cs))
    scores, gaps, objectives = (by_gamma(table, of) for of in ("scores", "gaps", "objectives"))
    for i, gamma in enumerate(GAMMAS):
        for k, (train, test) in enumerate(QueryKFold(3).split(qid=qid)):
            for j, C in enumerate(Cs):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    one = KernelRankSVM(C, gamma=gamma, **params, scaling=None)
                    one.fit(X[train], y[train], qid[train])
                found = evaluate(
                    y[test], one.predict(X[test]), qid[test], [metric], conventions=conventions
                )
                assert scores[i, k, j] == pytest.approx(found[metric], abs=1e-6)
                slack = gaps[i, k, j] + one.gap_ + 1e-9 * one.objective_
                assert abs(objectives[i, k, j] - one.objective_) <= slack
    mean = scores.mean(axis=1)
    best = table.best
    assert np.allclose(table.means, mean.ravel())
    assert table.best_score == mean.max()
    assert mean[GAMMAS.index(best["gamma"]), Cs.index(best["C"])] == mean.max()
    assert table.scores[:, table.best_index].mean() == pytest.approx(mean.max())
    assert [list(one) for one in table.candidates] == [["gamma", "C"]] * table.means.size
    for name, value in best.items():
        assert table.candidates[table.best_index][name] == value
        assert getattr(table.best_settings, name) == value
    assert replace(table.best_settings, **params) == table.best_settings


def test_a_validation_set_and_weights(data):
    X, y, qid = data
    rng = np.random.default_rng(2)
    items, queries = rng.uniform(0.5, 2.0, len(y)), rng.uniform(0.5, 2.0, len(set(qid)))
    other, utility, ids, _ = make_ranking(9, (3, 9), 5, random_state=7)
    table = searched(
        data, KernelSettings(**TIGHT, scaling=None),
        validation=RankingData(other, utility.astype(float), ids),
        metric="map", conventions="letor", item_weight=items, query_weight=queries,
    )  # fmt: skip
    assert table.scores.shape == (1, 6)
    for i, gamma in enumerate(GAMMAS):
        for j, C in enumerate(CS):
            one = KernelRankSVM(C, gamma=gamma, **TIGHT, scaling=None)
            one.fit(X, y, qid, sample_weight=items, query_weight=queries)
            found = evaluate(utility, one.predict(other), ids, ["map"], conventions="letor")
            assert by_gamma(table, "scores")[i, 0, j] == pytest.approx(found["map"], abs=1e-6)


def test_threads_change_nothing(data):
    for params in ({}, {"approximation": "nystroem", "n_components": 10, "random_state": 0}):
        one = searched(data, KernelSettings(**params, scaling=None))
        assert same(one, searched(data, KernelSettings(**params, scaling=None), n_threads=2))


def test_a_path_of_kernel_fits_is_a_row_of_the_grid(data):
    """No path guides another: coefficients of different folds belong to different items."""
    path = searched(data, gammas=GAMMAS[1:], n_threads=2)
    grid = searched(data)
    assert path.mean_coef is None
    assert path.best_start is None
    assert np.array_equal(path.scores, by_gamma(grid, "scores")[1])
    assert np.array_equal(path.objectives, by_gamma(grid, "objectives")[1])


def test_a_precomputed_kernel_is_the_named_one(data):
    X, y, qid = data
    K = rbf_kernel(X, gamma=GAMMAS[0])
    given = searched(
        (K, y, qid), KernelSettings(kernel="precomputed", **TIGHT, scaling=None), gammas=None
    )
    named = searched(data, KernelSettings(**TIGHT, scaling=None), gammas=GAMMAS[:1])
    assert np.allclose(given.scores, named.scores, atol=1e-9)
    assert np.allclose(given.objectives, named.objectives, rtol=1e-8)
    assert given.grid.keys() == given.candidates[0].keys() == {"C"}
    with pytest.raises(
        ValueError, match=r"^kernel='precomputed' has no gamma to choose: give no g"
    ):
        searched((K, y, qid), KernelSettings(kernel="precomputed", scaling=None))


def by_hand(scores: Any, Cs: Any = (1.0, 0.1, 10.0), gammas: Any = (2.0, 0.5)) -> Search:
    table = np.array(scores, dtype=float).reshape(1, -1)
    return Search(
        grid={"gamma": np.array(gammas), "C": np.array(Cs)}, settings=KernelSettings(scaling=None),
        metric="map", metric_default_for="", conventions="standard", scores=table,
        counted=np.ones(1, dtype=bool),
        objectives=table, gaps=table, seconds=table, n_iter=np.zeros(table.shape, int),
        n_products=np.zeros(table.shape, int), mean_coef=None, on="", n_resumed=0,
        shortfalls=(),
        undefined=(), unscored=(),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("scores", "C", "gamma"),
    [
        ([[0.1, 0.2, 0.3], [0.1, 0.2, 0.25]], 10.0, 2.0),
        ([[0.3, 0.2, 0.3], [0.1, 0.2, 0.3]], 1.0, 2.0),  # the smallest C,
        ([[0.3, 0.2, 0.3], [0.3, 0.2, 0.3]], 1.0, 0.5),  # then the smallest gamma
        ([[0.3, 0.3, 0.3], [0.3, 0.2, 0.3]], 0.1, 2.0),
        ([[0.3, 0.1, 0.3 + 1e-15], [0.1, 0.1, 0.1]], 1.0, 2.0),  # equal but for rounding
        ([[NAN, 0.1, 0.2], [NAN, NAN, NAN]], 10.0, 2.0),  # what has no score
        ([[NAN, NAN, NAN], [0.1, 0.1, NAN]], 0.1, 0.5),
    ],
)
def test_ties_go_to_the_smallest(scores, C, gamma):
    table = by_hand(scores)
    assert table.best_score == pytest.approx(np.nanmax(scores))
    assert table.best == {"gamma": gamma, "C": C}


def test_edges_are_told_in_both_directions():
    def edges(i: int, j: int) -> list[str]:
        scores = np.zeros((3, 3))
        scores[i, j] = 1.0
        return [str(one) for one in by_hand(scores, gammas=(2.0, 0.5, 8.0)).edges]

    assert edges(0, 0) == []
    (text,) = edges(0, 1)
    assert text.startswith("the best C, 0.1, is the smallest")
    assert text.endswith("and a smaller one may be better. Extend Cs.")
    (text,) = edges(2, 0)
    assert text.startswith("the best gamma, 8, is the largest")
    assert text.endswith("and a larger one may be better. Extend gammas.")
    assert len(edges(1, 2)) == 2
    assert by_hand([[1.0]], (1.0,), (1.0,)).edges == ()


def test_default_gammas(data):
    X = data[0]
    scale = 1.0 / (X.shape[1] * X.var())
    assert np.allclose(default_gammas(X), scale * np.array([1 / 64, 1 / 16, 1 / 4, 1, 4]))
    assert np.allclose(default_gammas(sp.csr_array(X), 2), scale * np.array([1 / 8, 1 / 2]))
    assert np.array_equal(searched(data, Cs=[1.0], gammas=None).grid["gamma"], default_gammas(X))
    with pytest.raises(ValueError, match="at least 1"):
        default_gammas(X, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gammas": []}, "gammas must be a sequence"),
        ({"gammas": [1.0, -1.0]}, "every gamma in gammas must be a positive"),
        ({"gammas": [1.0, 1.0]}, "gammas holds 1 more than once"),
        ({"Cs": [0.0]}, "every C in Cs"),
        ({"metric": "nonsense"}, "nonsense"),
        ({"folds": []}, "no fold"),
        ({"folds": None}, "either folds or a validation set"),
        (
            {"settings": KernelSettings(kernel="linear", scaling=None)},
            "kernel='linear' has no gamma to choose",
        ),
        ({"settings": FactorizedSettings(scaling=None)}, "no search for this kind of model"),
    ],
)
def test_bad_grids(data, options, message):
    with pytest.raises(ValueError, match=message):
        searched(data, **options)


def test_splits_that_do_not_count(tmp_path, data, fits):
    X, y, qid = data
    first = qid == np.unique(qid)[0]
    flat = np.where(first, 1.0, y)  # no pair in this query
    folds = [(~first, first), *QueryKFold(2).split(qid=qid)]
    metric = "pairwise_accuracy"
    table = searched((X, flat, qid), folds=folds, metric=metric)
    assert table.counted.tolist() == [False, True, True]
    assert np.isnan(table.scores[0]).all()
    assert np.array_equal(table.means, table.scores[1:].mean(axis=0))
    assert np.allclose(table.deviations, table.scores[1:].std(axis=0))
    (text,) = table.undefined
    assert text.startswith("fold 1, held-out part: pairwise_accuracy is ")
    assert "defined here: no query has a comparable pair" in text
    # Known from the labels alone: no fit, and no file.
    fits.clear()
    for held_out in ({"folds": folds[:1]}, {"validation": RankingData(X, np.ones(len(y)), qid)}):
        with pytest.raises(ValueError, match="no split to compute pairwise_accuracy on"):
            searched((X, flat, qid), checkpoint=tmp_path / "search.db", metric=metric, **held_out)
    assert fits == []
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def overflowing(data) -> dict[str, Any]:
    """A search with gammas under which a cubic kernel of held-out items overflows."""
    X, y, qid = data
    huge = np.where((qid == qid[0])[:, None], 1e120 * X, X)
    return {"settings": KernelSettings(kernel="poly", scaling=None),
            "validation": RankingData(huge, y.astype(float), qid), "Cs": [1.0, 10.0]}  # fmt: skip


@pytest.mark.parametrize("gammas", [[1e-60, 1e-10], [1e-10, 1e-60], [1e-10, 1e-60, 1.0]])
def test_a_gamma_that_overflows_cannot_be_chosen(tmp_path, data, overflowing, gammas):
    path = tmp_path / "search.db"
    table = searched(data, **overflowing, gammas=gammas, checkpoint=path)
    bad = [gamma != 1e-60 for gamma in gammas]
    means = table.means.reshape(len(gammas), 2)
    assert np.isnan(means).all(axis=1).tolist() == bad
    assert np.isfinite(means[gammas.index(1e-60)]).all()
    assert table.best["gamma"] == 1e-60
    assert np.isfinite(table.best_score)
    assert table.undefined == ()
    assert len(table.unscored) == 2 * sum(bad)
    assert table.unscored[0].startswith("gamma = 1e-10, validation set, C = 1: the scores of held")
    again = searched(data, **overflowing, gammas=gammas, checkpoint=path)
    assert same(table, again)
    assert (again.n_resumed, again.unscored) == (len(gammas), table.unscored)
    with pytest.raises(ValueError, match=r"nothing to choose from.*gamma = 1e-10, validation set"):
        searched(data, **overflowing, gammas=[1e-10])


@quiet
def test_overflow_in_the_table_of_the_estimator(data, overflowing):
    X, y, qid = data
    held_out = tuple(overflowing["validation"])
    model = KernelRankSVMCV([1.0, 10.0], [1e-10, 1e-60], kernel="poly", scaling=None)
    with pytest.warns(UserWarning, match="2 of 4 fits have no score, the first of them: gamma = 1"):
        model.fit(X, y, qid, validation=held_out)
    assert model.gamma_ == 1e-60
    assert np.isnan(model.cv_results_["mean_test_score"]).tolist() == [True, True, False, False]
    assert set(model.cv_results_["rank_test_score"][:2]) == {3}


def test_errors_say_where(data, monkeypatch):
    """Whatever part of the work they come from."""

    def failing(self: Any, C: Any = None, **options: Any) -> Any:
        raise kind("no good")

    for kind in (ValueError, OverflowError):
        with monkeypatch.context() as patch:
            patch.setattr(RankProblem, "solve", failing)
            with pytest.raises(kind, match=r"^gamma = 0.3, fold 1: no good$"):
                searched(data)
            with pytest.raises(kind, match=r"^fold 1: no good$"):
                searched(data, KernelSettings(kernel="linear", scaling=None), gammas=None)
    X, y, qid = data
    flat = np.where(qid == qid[0], y, 0.0)
    folds = [(qid == qid[0], qid != qid[0]), (qid != qid[0], qid == qid[0])]
    with pytest.raises(ValueError, match=r"^gamma = 0.3, fold 2: no comparable pair"):
        searched((X, flat, qid), folds=folds[::-1][1:] + folds[1:], metric="map",
                 conventions="letor")  # fmt: skip

    class Enough(ValueError):
        pass

    def stop(*_: Any) -> None:
        raise Enough

    with pytest.raises(Enough):
        searched(data, progress=stop)


def test_room_for_the_last_fit_is_looked_for_first(data, fits):
    X, y, qid = data
    settings = {"approximation": "fourier", "n_components": 50, "random_state": 0}
    items = RankingData(X, y.astype(float), qid)
    KernelProblem(items, KernelSettings(**settings, scaling=None))
    n_items = len(comparable_items(items))
    short = {**settings, "memory_budget": n_items * 50 * 8 - 1}
    model = KernelRankSVMCV([1.0, 10.0], [0.1], cv=3, **short, scaling=None)
    with pytest.raises(ValueError, match=rf"50 features of {n_items} items take"):
        model.fit(X, y, qid)
    assert fits == []
    searched(data, KernelSettings(**short, scaling=None))  # folds are smaller


# --- KernelRankSVMCV ------------------------------------------------------------------------------


@quiet
@pytest.mark.filterwarnings("ignore:KernelRankSVMCV. . of . splits do not count:UserWarning")
@parametrize_with_checks(
    [
        KernelRankSVMCV([1.0, 50.0], [0.1, 1.0], cv=2, scaling=None),
        KernelRankSVMCV(
            [1.0, 50.0],
            2,
            cv=2,
            approximation="fourier",
            n_components=20,
            random_state=0,
            n_jobs=1,
            scaling=None,
        ),
    ]
)
def test_scikit_learn_checks(estimator: KernelRankSVMCV, check: Any) -> None:
    """All of them: there is no list of expected failures."""
    check(estimator)


@quiet
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"approximation": "nystroem", "n_components": 15, "random_state": np.random.RandomState(0)},
    ],
)
def test_the_chosen_model(tmp_path: Path, data, params):
    X, y, qid = data
    model = KernelRankSVMCV(CS, GAMMAS, cv=3, **params, scaling=None).fit(X, y, qid)
    table = model.cv_results_
    assert table["param_C"].tolist() == CS * 2
    assert table["param_gamma"].tolist() == np.repeat(GAMMAS, 3).tolist()
    assert table["params"][4] == {"gamma": GAMMAS[1], "C": CS[1]}
    assert all(len(column) == 6 for column in table.values())
    assert model.n_splits_ == 3
    best = table["params"][model.best_index_]
    assert best == {"gamma": model.gamma_, "C": model.C_}
    assert model.best_score_ == table["mean_test_score"].max()
    assert table["rank_test_score"][model.best_index_] == 1
    seed = model.best_estimator_.random_state
    assert (seed is None) == (params == {})
    expected = KernelRankSVM(**best, **{**params, "random_state": seed}, scaling=None).fit(
        X, y, qid
    )
    assert np.array_equal(model.predict(X), expected.predict(X))
    assert model.objective_ == expected.objective_
    settings = expected._settings(KernelSettings)
    assert settings.random_state == seed
    table_again = searched(data, settings)
    found = [table[f"split{k}_test_score"] for k in range(3)]
    assert np.array_equal(found, table_again.scores)
    model.save(tmp_path / "m")
    loaded = ranksvm.load(tmp_path / "m")
    assert np.array_equal(loaded.predict(X), model.predict(X))
    selection = loaded._get_model().facts["selection"]
    assert selection["gammas"] == GAMMAS
    assert np.shape(selection["mean_scores"]) == (2, 3)
    assert clone(model).get_params().keys() == model.get_params().keys()


@quiet
def test_validation_frames_and_checkpoints(tmp_path, data, fits):
    import pandas as pd

    X, y, qid = data
    frame = pd.DataFrame(X, columns=list("abcde")).assign(label=y, query=qid)
    half = frame["query"].isin(sorted(set(qid))[:9])
    settings = {"metric": "ndcg@5", "conventions": "letor", "checkpoint": tmp_path / "search.db"}
    model = KernelRankSVMCV(CS, GAMMAS, **settings, scaling=None)
    model.fit(frame[half], "label", "query", validation=frame[~half])
    assert len(fits) == 7
    for k, (C, gamma) in enumerate(zip(model.cv_results_["param_C"],
                                       model.cv_results_["param_gamma"], strict=True)):  # fmt: skip
        one = KernelRankSVM(C, gamma=gamma, scaling=None).fit(X[half], y[half], qid[half])
        found = evaluate(y[~half], one.predict(X[~half]), qid[~half], ["ndcg@5"],
                         conventions="letor")  # fmt: skip
        assert model.cv_results_["mean_test_score"][k] == pytest.approx(found["ndcg@5"], abs=1e-3)
    fits.clear()
    again = clone(model).fit(frame[half], "label", "query", validation=frame[~half])
    assert len(fits) == 1  # on everything
    assert np.array_equal(again.predict(frame), model.predict(frame))
    with pytest.raises(ValueError, match="a different search"):
        clone(model).fit(frame, "label", "query")


@quiet
def test_without_refit_there_is_no_model(data):
    X, y, qid = data
    model = KernelRankSVMCV([1.0, 10.0], [0.1], cv=2, refit=False, scaling=None).fit(X, y, qid)
    assert model.gamma_ == 0.1
    assert not hasattr(model, "best_estimator_")
    with pytest.raises(NotFittedError, match=r"KernelRankSVM\(model.C_, gamma=model.gamma_\)"):
        model.predict(X)
    for kernel, items, advice in (
        ("precomputed", X @ X.T, "model.C_, kernel=model.kernel"),
        ("linear", X, "model.C_, kernel=model.kernel"),
        ("poly", X, "model.C_, kernel=model.kernel, gamma=model.gamma_"),
    ):
        model = KernelRankSVMCV([1.0, 10.0], 1, kernel=kernel, cv=2, refit=False, scaling=None)
        with pytest.raises(NotFittedError, match=rf"KernelRankSVM\({advice}\)") as caught:
            model.fit(items, y, qid).predict(items)
        (call,) = re.findall(r"KernelRankSVM\(.*\)", str(caught.value))
        by_hand = eval(call, {"KernelRankSVM": KernelRankSVM, "model": model})
        by_hand.set_params(scaling=None).fit(items, y, qid)
        refitted = clone(model).set_params(refit=True).fit(items, y, qid)
        assert np.array_equal(by_hand.predict(items), refitted.predict(items))


@quiet
def test_kernels_without_gamma(data):
    X, y, qid = data
    K = rbf_kernel(X, gamma=0.1)
    given = KernelRankSVMCV(CS, kernel="precomputed", cv=3, scaling=None).fit(K, y, qid)
    named = KernelRankSVMCV(CS, [0.1], cv=3, scaling=None).fit(X, y, qid)
    assert given.C_ == named.C_
    assert not hasattr(given, "gamma_")
    assert "param_gamma" not in given.cv_results_
    assert np.allclose(given.predict(K), named.predict(X), atol=1e-8)
    held = KernelRankSVMCV(CS, kernel="precomputed", scaling=None).fit(
        K, y, qid, validation=(K, y, qid)
    )
    assert held.best_score_ >= given.best_score_
    called = KernelRankSVMCV(
        CS, kernel=lambda A, B: rbf_kernel(A, B, gamma=0.1), cv=3, scaling=None
    )
    assert np.allclose(called.fit(X, y, qid).predict(X), named.predict(X), atol=1e-6)
    with pytest.raises(ValueError, match="must be positive semi-definite"):
        KernelRankSVMCV(CS, kernel="precomputed", cv=3, scaling=None).fit(
            K - np.eye(len(y)), y, qid
        )
    with pytest.raises(ValueError, match="has no gamma"):
        KernelRankSVMCV(CS, [0.1], kernel="linear", scaling=None).fit(X, y, qid)


def test_warnings_and_errors(data):
    X, y, qid = data
    model = KernelRankSVMCV([0.01, 0.1, 1.0, 10.0], [1e-6, 1e-5], cv=2, scaling=None)
    with pytest.warns(UserWarning, match="the best") as caught:
        model.fit(X, y, qid)
    assert any("the best gamma" in str(one.message) for one in caught)
    assert all(one.filename == __file__ for one in caught)
    with pytest.warns(ConvergenceWarning, match="fits ended early"):
        KernelRankSVMCV([100.0], [0.1], tol=1e-14, max_iter=1, cv=2, scaling=None).fit(X, y, qid)
    for params, message in (
        ({"kernel": "nonsense"}, "kernel must be one of"),
        ({"cv": "five"}, "cv must be"),
        ({"gammas": 0}, "at least 1"),
        ({"approximation": "fourier", "kernel": "poly"}, "random Fourier features exist for"),
    ):
        with pytest.raises(ValueError, match=message):
            KernelRankSVMCV(**{"Cs": [1.0], **params}, scaling=None).fit(X, y, qid)


def test_splits_are_handed_rows_of_both_axes(data):
    """Held-out items of a precomputed kernel are scored against the training items."""
    X, y, qid = data
    K = rbf_kernel(X)
    items = RankingData(K, y.astype(float), qid)
    folds = list(QueryKFold(3).split(qid=qid))
    split, *_ = make_splits(items, folds, None, judge_named("pairwise_accuracy"))
    train, test = folds[0]
    assert np.array_equal(split.held_out_part(items, pairwise=True).X, K[test][:, train])
    assert np.array_equal(split.training_part(items, pairwise=True).X, K[train][:, train])
    assert np.array_equal(split.training_part(items, pairwise=False).X, K[train])
    (all_items,) = make_splits(items, None, items, judge_named("pairwise_accuracy"))
    for part in (all_items.training_part, all_items.held_out_part):
        assert part(items, pairwise=True).X is K
