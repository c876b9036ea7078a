"""``query_features=``: the same models as on features of the query that were made before."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import ranksvm
from ranksvm import (
    FactorizedRankSVM,
    KernelRankSVM,
    KernelRankSVMCV,
    LinearRankSVM,
    LinearRankSVMCV,
)
from ranksvm._vectors import Array
from ranksvm.data import RankingData
from ranksvm.data.queries import QueryGroups
from ranksvm.data.query_features import QUERY_FEATURES
from ranksvm.data.query_view import QueryView
from ranksvm.datasets import make_ranking
from ranksvm.export import write_svmrank
from ranksvm.learners import LinearSettings, make_problem
from ranksvm.learners.linear import LinearProblem
from ranksvm.metrics import ranking_scorer
from ranksvm.model_selection import QueryKFold
from ranksvm.models import model as models
from ranksvm.preprocessing import QueryFeatures

ALL = tuple(QUERY_FEATURES)
VIEWS = [(("rank",), True), (("zscore", "rank"), True), (ALL, True), (("minmax",), False)]
MODELS: list[Any] = [
    LinearRankSVM(),
    LinearRankSVM(loss="hinge", scaling="standard"),
    LinearRankSVM(scaling="quantile"),
    KernelRankSVM(scaling="standard"),
    KernelRankSVM(kernel="laplacian", gamma=0.2),
    KernelRankSVM(approximation="nystroem", n_components=20, random_state=0, scaling="robust"),
    KernelRankSVM(approximation="fourier", n_components=20, random_state=0, scaling="minmax"),
    FactorizedRankSVM(n_factors=3, max_iter=30, tol=0.1, random_state=0, scaling="standard"),
]
NAMES = ["bm25", "length", "age", "links"]


@pytest.fixture(scope="module")
def data() -> tuple[Array, Array, Any]:
    """Queries of one to nine items, and their rows in any order."""
    X, y, qid, _ = make_ranking(25, (1, 9), 4, random_state=0)
    order = np.random.default_rng(1).permutation(len(y))
    return np.round(np.asarray(X)[order], 1), np.asarray(y)[order], np.asarray(qid)[order]


def with_features(model: Any, names: Any, keep: bool) -> Any:
    return clone(model).set_params(query_features=names, keep_features=keep)


def made(X: Any, qid: Any, names: Any, keep: bool) -> Array:
    columns: Array = QueryFeatures(names, append=keep).fit_transform(X, qid=qid)
    return columns


@pytest.mark.filterwarnings("ignore:.*relative gap.*")
@pytest.mark.parametrize(("names", "keep"), VIEWS)
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_it_is_a_fit_on_these_features(data, model: Any, names: Any, keep: bool) -> None:
    X, y, qid = data
    wide = made(X, qid, names, keep)
    ours, theirs = with_features(model, names, keep).fit(X, y, qid), clone(model).fit(wide, y, qid)
    assert ours.objective_ == theirs.objective_
    np.testing.assert_array_equal(ours.predict(X, qid=qid), theirs.predict(wide))
    np.testing.assert_array_equal(ours.rank(X, qid=qid), theirs.rank(wide, qid=qid))
    assert ours.score(X, y, qid=qid) == theirs.score(wide, y, qid=qid)
    pairs = [0, 1, 2], [3, 4, 5]
    assert ours.score_pairs(X, *pairs, qid=qid) == theirs.score_pairs(wide, *pairs)
    assert ours.n_features_in_ == X.shape[1]


@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_array])
@pytest.mark.parametrize("model", [MODELS[0], MODELS[1], MODELS[3]], ids=repr)
def test_sparse_items(data, model: Any, form: Any) -> None:
    X, y, qid = data
    few = X * (np.abs(X) > 0.5)
    dense = with_features(model, ("rank", "mean_diff"), True).fit(few, y, qid)
    thin = with_features(model, ("rank", "mean_diff"), True).fit(form(few), y, qid)
    expected = dense.predict(few, qid=qid)
    for items in (few, form(few)):
        np.testing.assert_allclose(thin.predict(items, qid=qid), expected, rtol=1e-12, atol=1e-12)
    explained = thin.explain(form(few), 0, 1, qid=qid)
    assert explained.difference == pytest.approx(expected[0] - expected[1])


def test_float32_stays_float32(data) -> None:
    X, y, qid = data
    X = X.astype(np.float32)
    ours = LinearRankSVM(query_features=["zscore"]).fit(X, y, qid)
    theirs = LinearRankSVM().fit(made(X, qid, ["zscore"], True), y, qid)
    np.testing.assert_array_equal(ours.coef_, theirs.coef_)
    np.testing.assert_array_equal(
        ours.predict(X, qid), theirs.predict(made(X, qid, ["zscore"], True))
    )


@given(
    qid=st.lists(st.integers(0, 5), min_size=3, max_size=30),
    seed=st.integers(0, 99),
    most=st.integers(1, 40),
    is_sparse=st.booleans(),
)
def test_scores_piece_by_piece(qid: list[int], seed: int, most: int, is_sparse: bool) -> None:
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, (len(qid), 2)).astype(float)
    model = LinearRankSVM(query_features=("rank", "zscore"), scaling="quantile")
    known = rng.normal(size=(6, 2)), [0, 1, 0, 1, 0, 1], [0, 0, 1, 1, 2, 2]
    model.fit(*known)
    expected = model.predict(X, qid)
    items: Any = sp.csr_array(X) if is_sparse else X
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "MADE_VALUES", 6 * most)
        np.testing.assert_array_equal(model.predict(items, qid), expected)


@given(st.lists(st.integers(0, 6), max_size=40), st.integers(1, 12))
def test_pieces_are_whole_queries(qid: list[int], most: int) -> None:
    groups, ids = QueryGroups.from_qid(qid, len(qid)), np.array(qid, dtype=np.int64)
    seen: list[int] = []
    for rows, queries in groups.pieces(most):
        part = np.arange(len(qid))[rows]
        assert queries.n_items == part.size > 0
        assert part.size <= most or queries.n_queries == 1
        np.testing.assert_array_equal(queries.ids[queries.index], ids[part])
        assert set(ids[part]) == set(queries.ids.tolist())
        seen += part.tolist()
    assert sorted(seen) == list(range(len(qid)))


def test_zscores_of_two_items_have_two_quantiles() -> None:
    """They are -1 and 1, up to roundings, which must not become quantiles."""
    X = np.random.default_rng(0).normal(size=(200, 1))
    qid = np.arange(200) // 2
    model = LinearRankSVM(query_features=("zscore",), keep_features=False, scaling="quantile")
    scores = model.fit(X, X[:, 0], qid).predict(X, qid)
    assert np.unique(scores.round(9)).size == 2


@pytest.mark.parametrize("model", [MODELS[1], MODELS[3], MODELS[5]], ids=repr)
def test_the_number_of_threads_does_not_matter(data, model: Any) -> None:
    X, y, qid = data
    X, y, qid = np.tile(X, (20, 1)), np.tile(y, 20), np.arange(20).repeat(len(qid))
    found = []
    for n_jobs in (1, 3):
        fitted = with_features(model, ALL, True).set_params(n_jobs=n_jobs).fit(X, y, qid)
        found.append(fitted.predict(X, qid))
    np.testing.assert_array_equal(*found)


def test_items_of_one_query_need_no_ids(data) -> None:
    X, y, _ = data
    model = LinearRankSVM(query_features=("rank",)).fit(X, y)
    same = np.zeros(len(y), dtype=int)
    np.testing.assert_array_equal(model.predict(X), model.predict(X, qid=same))
    np.testing.assert_array_equal(
        model.predict(X), LinearRankSVM().fit(made(X, None, ["rank"], True), y).predict(
            made(X, None, ["rank"], True)
        ),
    )  # fmt: skip
    # Another query, of its own.
    assert model.predict(X[:1]).shape == (1,)


@pytest.mark.filterwarnings("ignore:.*of the grid.*")
def test_a_model_of_several_queries_needs_ids(data) -> None:
    X, y, qid = data
    for model in (
        LinearRankSVM(query_features=("rank",)).fit(X, y, qid),
        KernelRankSVM(query_features=("rank",), scaling="standard").fit(X, y, qid),
        LinearRankSVMCV([1.0, 10.0], query_features=("rank",), cv=3).fit(X, y, qid),
    ):
        for call in (
            lambda model=model: model.predict(X),
            lambda model=model: model.rank(X),
            lambda model=model: model.explain(X, 0, 1),
            lambda model=model: model.score_pairs(X, [0], [1]),
            lambda model=model: model.score(X, y),  # without a warning about what is refused
        ):
            with pytest.raises(ValueError, match=r"25 queries .*\(rank\).*predict\(X, qid=qid\)"):
                call()
        assert model.predict(X, qid=np.zeros(len(y))).shape == y.shape


def test_ids_are_checked_also_where_they_are_not_needed(data) -> None:
    X, y, qid = data
    for names in ((), ("rank",)):
        model = LinearRankSVM(query_features=names).fit(X, y, qid)
        with pytest.raises(ValueError, match="one query id per row; got 3 ids"):
            model.predict(X, qid=[1, 2, 3])
    plain = LinearRankSVM().fit(X, y, qid)
    np.testing.assert_array_equal(plain.predict(X, qid=qid), plain.predict(X))


@pytest.mark.parametrize("frames", [pd.DataFrame, pl.DataFrame])
def test_frames(data, frames: Any) -> None:
    X, y, qid = data
    frame = frames({**{name: X[:, k] for k, name in enumerate(NAMES)}, "query": qid, "y": y})
    model = LinearRankSVM(query_features=("rank",)).fit(frame, "y", qid="query")
    expected = LinearRankSVM(query_features=("rank",)).fit(X, y, qid).predict(X, qid)
    assert model.feature_names_in_.tolist() == NAMES
    for found in (
        model.predict(frame),
        model.predict(frame, qid="query"),
        model.predict(frame[[*NAMES, "query"]]),
        model.predict(frame[NAMES], qid=qid),
    ):
        np.testing.assert_array_equal(found, expected)
    assert model.score(frame, "y") == model.score(frame[NAMES], y, qid=qid)
    np.testing.assert_array_equal(model.rank(frame), model.rank(frame[NAMES], qid))
    assert "rank(bm25)" in model.explain(frame, 0, 1).names
    with pytest.raises(ValueError, match="got no qid"):
        model.predict(frame[NAMES])


def test_explanations_tell_a_feature_from_its_rank(data) -> None:
    X, y, qid = data
    frame = pd.DataFrame(X, columns=NAMES)
    model = LinearRankSVM(query_features=("rank", "zscore"), scaling="standard")
    model.fit(frame, y, qid)
    scores = model.predict(frame, qid)
    wide = made(X, qid, ("rank", "zscore"), True)
    columns = [*NAMES, *(f"rank({one})" for one in NAMES), *(f"zscore({one})" for one in NAMES)]
    for i, j in ((0, 1), (3, 17), (17, 3)):
        explained = model.explain(frame, i, j, qid)
        parts = model.coef_ * (wide[i] - wide[j])
        assert explained.part == "feature"
        found = dict(zip(explained.names, explained.contributions, strict=True))
        assert found == pytest.approx({c: p for c, p in zip(columns, parts, strict=True) if p})
        assert [columns[k] for k in explained.index] == list(explained.names)
        assert explained.contributions.sum() == pytest.approx(scores[i] - scores[j])
        assert explained.scores == pytest.approx((scores[i], scores[j]))
    nameless = LinearRankSVM(query_features=("minmax",), keep_features=False).fit(X, y, qid)
    names = nameless.explain(X, 0, 1, qid).names
    assert set(names) <= {f"minmax(feature {k})" for k in range(4)}


@pytest.mark.parametrize("model", MODELS[2:], ids=repr)
@pytest.mark.filterwarnings("ignore:.*relative gap.*")
def test_explanations_sum_to_the_difference(data, model: Any) -> None:
    X, y, qid = data
    fitted = with_features(model, ("rank",), True).fit(X, y, qid)
    scores = fitted.predict(X, qid)
    explained = fitted.explain(X, 2, 9, qid=qid)
    assert explained.difference == pytest.approx(scores[2] - scores[9])
    assert explained.contributions.sum() == pytest.approx(explained.difference)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.filterwarnings("ignore:.*relative gap.*")
def test_files_and_pickles(data, model: Any, keep: bool, tmp_path) -> None:
    X, y, qid = data
    fitted = with_features(model, ["zscore", "rank"], keep).fit(X, y, qid)
    expected = fitted.predict(X, qid)
    fitted.save(tmp_path / "m.safetensors")
    loaded = ranksvm.load(tmp_path / "m.safetensors")
    assert loaded.query_features == ("zscore", "rank")
    assert loaded.keep_features is keep
    assert loaded.n_features_in_ == X.shape[1]
    for one in (loaded, pickle.loads(pickle.dumps(fitted)), pickle.loads(pickle.dumps(loaded))):
        np.testing.assert_array_equal(one.predict(X, qid), expected)
        with pytest.raises(ValueError, match="got no qid"):
            one.predict(X)
    refitted = clone(loaded).fit(X, y, qid)
    np.testing.assert_array_equal(refitted.predict(X, qid), expected)


def test_a_loaded_model_predicts_without_scikit_learn(data, tmp_path) -> None:
    X, y, qid = data
    model = LinearRankSVM(query_features=("rank",)).fit(X, y, qid)
    model.save(tmp_path / "m.safetensors")
    np.savez(tmp_path / "d.npz", X=X, qid=qid, scores=model.predict(X, qid))
    code = f"""
import sys
import numpy as np
import ranksvm
d = np.load({str(tmp_path / "d.npz")!r})
model = ranksvm.load({str(tmp_path / "m.safetensors")!r})
assert np.array_equal(model.predict(d["X"], qid=d["qid"]), d["scores"])
try:
    model.predict(d["X"])
except ValueError as error:
    assert "got no qid" in str(error)
else:
    raise AssertionError
assert "sklearn" not in sys.modules
assert model.predict(d["X"].tolist(), d["qid"]).tolist() == d["scores"].tolist()
assert "sklearn" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_was_fitted_counts_and_not_what_was_set_since(data) -> None:
    X, y, qid = data
    model = LinearRankSVM(query_features=("rank",)).fit(X, y, qid)
    expected = model.predict(X, qid)
    model.set_params(query_features=(), keep_features=True)
    np.testing.assert_array_equal(model.predict(X, qid), expected)
    plain = LinearRankSVM().fit(X, y, qid)
    expected = plain.predict(X)
    plain.set_params(query_features=("rank",))
    np.testing.assert_array_equal(plain.predict(X), expected)


@pytest.mark.filterwarnings("ignore:.*from the labels as well")
def test_explicit_pairs(data) -> None:
    X, y, qid = data
    better, worse = np.nonzero((qid[:, None] == qid) & (y[:, None] > y))
    wide = made(X, qid, ("rank",), True)
    ours = LinearRankSVM(query_features=("rank",))
    for options in ({}, {"y": y}):
        ours.fit_pairs(X, better, worse, qid=qid, **options)
        theirs = LinearRankSVM().fit_pairs(wide, better, worse, qid=qid, **options)
        np.testing.assert_array_equal(ours.coef_, theirs.coef_)
        assert ours.score_pairs(X, better, worse, qid=qid) == theirs.score_pairs(
            wide, better, worse
        )
    with pytest.raises(ValueError, match="can only be used with labels"):
        ours.fit_pairs(X, better, worse, qid=qid, sample_weight=np.ones(len(y)))
    # Only some items occur in pairs: the others of their queries count all the same.
    few = LinearRankSVM(query_features=("rank",)).fit_pairs(X, better[:2], worse[:2], qid=qid)
    same = LinearRankSVM().fit_pairs(wide, better[:2], worse[:2])
    np.testing.assert_array_equal(few.coef_, same.coef_)


def test_warm_start(data) -> None:
    X, y, qid = data
    model = LinearRankSVM(query_features=("rank",), warm_start=True, scaling="standard")
    first = model.fit(X, y, qid).n_iter_
    assert model.fit(X, y, qid).n_iter_ < first
    model.set_params(query_features=()).fit(X, y, qid)  # a start of another size is none
    assert model.coef_.shape == (4,)


def test_early_stopping_of_factorized_models(data) -> None:
    X, y, qid = data
    made_before = made(X, qid, ("rank",), True)
    settings: Any = {"n_factors": 2, "max_iter": 20, "random_state": 0, "patience": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = FactorizedRankSVM(query_features=("rank",), **settings)
        ours.fit(X, y, qid, eval_set=(X, y, qid))
        theirs = FactorizedRankSVM(**settings)
        theirs.fit(made_before, y, qid, eval_set=(made_before, y, qid))
    assert ours.best_iteration_ == theirs.best_iteration_
    np.testing.assert_array_equal(ours.coef_, theirs.coef_)


SEARCHES: list[Any] = [
    LinearRankSVMCV([0.1, 1.0, 10.0], cv=3, scaling="standard"),
    KernelRankSVMCV([1.0, 10.0], 2, cv=3, scaling="standard"),
    KernelRankSVMCV([1.0, 10.0], 3, cv=3, approximation="nystroem", n_components=9,
                    random_state=0),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*of the grid.*", "ignore:.*standard deviations.*")
@pytest.mark.parametrize("search", SEARCHES, ids=repr)
def test_searches(data, search: Any, tmp_path) -> None:
    X, y, qid = data
    wide = made(X, qid, ("rank", "mean_diff"), True)
    ours = with_features(search, ("rank", "mean_diff"), True).fit(X, y, qid)
    theirs = clone(search).fit(wide, y, qid)
    assert ours.C_ == theirs.C_
    for name in ("mean_test_score", "split0_objective", "split2_objective"):
        np.testing.assert_array_equal(ours.cv_results_[name], theirs.cv_results_[name])
    if hasattr(theirs, "gammas_"):  # the default grid is that of the features the kernel sees
        np.testing.assert_array_equal(ours.gammas_, theirs.gammas_)
    expected = theirs.predict(wide)
    np.testing.assert_array_equal(ours.predict(X, qid), expected)
    assert ours.score(X, y, qid) == theirs.score(wide, y, qid)
    assert ours.n_features_in_ == X.shape[1]
    ours.save(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(
        ranksvm.load(tmp_path / "m.safetensors").predict(X, qid), expected
    )
    # A validation set is compared within its own queries.
    part, rest = qid < 15, qid >= 15
    ours.fit(X[part], y[part], qid[part], validation=(X[rest], y[rest], qid[rest]))
    theirs.fit(wide[part], y[part], qid[part], validation=(wide[rest], y[rest], qid[rest]))
    np.testing.assert_array_equal(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"]
    )
    # A search that continues finds what it has written.
    path = tmp_path / "search.db"
    kept = with_features(search, ["rank"], True).set_params(checkpoint=path, n_jobs=1)
    first = kept.fit(X, y, qid).cv_results_["mean_test_score"]
    np.testing.assert_array_equal(kept.fit(X, y, qid).cv_results_["mean_test_score"], first)
    with pytest.raises(ValueError, match="different search"):
        kept.set_params(query_features=["zscore"]).fit(X, y, qid)


def test_a_search_makes_them_once(data, monkeypatch) -> None:
    X, y, qid = data
    calls = []
    real = QueryView.apply

    def counting(self: QueryView, *arguments: Any) -> Any:
        calls.append(self)
        return real(self, *arguments)

    monkeypatch.setattr(QueryView, "apply", counting)
    search = LinearRankSVMCV([1.0, 10.0], query_features=("rank",), cv=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(X, y, qid)
    assert len(calls) == 1


@pytest.mark.filterwarnings("ignore:.*of the grid.*")
def test_a_search_over_items_of_one_ranking(data) -> None:
    X, y, _ = data
    wide = made(X, None, ("rank",), True)
    ours = LinearRankSVMCV([0.1, 1.0, 10.0], query_features=("rank",), cv=3).fit(X, y)
    theirs = LinearRankSVMCV([0.1, 1.0, 10.0], cv=3).fit(wide, y)
    np.testing.assert_array_equal(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"]
    )


@pytest.fixture
def routing() -> Any:
    with config_context(enable_metadata_routing=True):
        yield


def test_pipelines(routing, data) -> None:
    X, y, qid = data
    scaled = StandardScaler().fit_transform(X)
    expected = LinearRankSVM(query_features=("zscore",)).fit(scaled, y, qid).predict(scaled, qid)
    pipeline = make_pipeline(StandardScaler(), LinearRankSVM(query_features=("zscore",)))
    pipeline.fit(X, y, qid=qid)
    np.testing.assert_array_equal(pipeline.predict(X, qid=qid), expected)
    assert pipeline.score(X, y, qid=qid) > 0.5
    with pytest.raises(ValueError, match="enable_metadata_routing"):
        pipeline.predict(X)
    # Whoever does not need the ids may get them, or not.
    plain = make_pipeline(StandardScaler(), LinearRankSVM()).fit(X, y, qid=qid)
    np.testing.assert_array_equal(plain.predict(X), plain.predict(X, qid=qid))


def test_searches_of_scikit_learn(routing, data) -> None:
    X, y, qid = data
    grid = {"query_features": [(), ("rank",), ["rank", "zscore"]], "C": [1.0, 10.0]}
    for scoring in (None, ranking_scorer("ndcg@5")):
        search = GridSearchCV(LinearRankSVM(), grid, scoring=scoring, cv=QueryKFold(3))
        search.fit(X, y, qid=qid)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        best = search.best_estimator_
        np.testing.assert_array_equal(best.predict(X, qid=qid), clone(best).fit(X, y, qid).predict(
            X, qid=qid
        ))  # fmt: skip
    found = cross_validate(
        LinearRankSVM(query_features=("rank",)), X, y, params={"qid": qid}, cv=QueryKFold(3)
    )
    for k, (train, test) in enumerate(QueryKFold(3).split(X, y, qid)):
        model = LinearRankSVM(query_features=("rank",)).fit(X[train], y[train], qid[train])
        assert found["test_score"][k] == model.score(X[test], y[test], qid[test])


def test_a_column_name_that_a_pipeline_loses(routing, data) -> None:
    X, y, qid = data
    frame = pd.DataFrame(X, columns=NAMES).assign(query=qid)
    lost = make_pipeline(QueryFeatures(), LinearRankSVM())
    with pytest.raises(ValueError, match="in a pipeline whose first steps turn a frame into an"):
        lost.fit(frame, y, qid="query")
    lost.fit(frame[NAMES], y, qid=frame["query"])
    assert lost.predict(frame[NAMES], qid=frame["query"]).shape == y.shape


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"query_features": "rank"}, r"query_features must be a list or tuple of names.*'rank'"),
        ({"query_features": ("median",)}, r"query_features must be one of 'rank', .*'median'"),
        ({"query_features": ("rank", "rank")}, r"query_features has 'rank' twice"),
        ({"query_features": 3}, r"query_features must be a list or tuple"),
        ({"keep_features": False}, r"keep_features=False needs query_features"),
        ({"keep_features": "no"}, r"keep_features must be True or False; got 'no'"),
    ],
)
def test_wrong_parameters(data, settings: Any, message: str) -> None:
    X, y, qid = data
    for model in (LinearRankSVM, KernelRankSVM, FactorizedRankSVM, LinearRankSVMCV):
        with pytest.raises(ValueError, match=message):
            model(**settings).fit(X, y, qid)


def test_what_has_no_features_is_refused(data) -> None:
    X, y, qid = data
    with pytest.raises(ValueError, match=r"no features to compare .*use query_features=\(\)"):
        KernelRankSVM(kernel="precomputed", query_features=("rank",)).fit(X @ X.T, y, qid)


def test_missing_values_are_refused(data) -> None:
    X, y, qid = data
    holes = X.copy()
    holes[3, 1] = np.nan
    model = LinearRankSVM(query_features=("rank",))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(holes, y, qid)
    model.fit(X, y, qid)
    with pytest.raises(ValueError, match="NaN"):
        model.predict(holes, qid)


def test_differences_that_overflow_are_refused(data) -> None:
    X, y, qid = data
    huge = X.copy()
    huge[:, 0] = 1.7e308 * np.where(np.arange(len(y)) % 2, 1.0, -1.0)
    with pytest.raises(OverflowError, match=r"overflows float64\. Scale the features down\.$"):
        LinearRankSVM(query_features=("mean_diff",)).fit(huge, y, qid)
    single = np.clip(huge, -3e38, 3e38).astype(np.float32)
    with pytest.raises(
        OverflowError, match=r"overflows float32\. Scale .* down, or use float64\.$"
    ):
        LinearRankSVM(query_features=("mean_diff",)).fit(single, y, qid)
    model = LinearRankSVM(query_features=("mean_diff",)).fit(X, y, qid)
    with pytest.raises(OverflowError, match="Scale the features down"):
        model.predict(huge, qid)


def test_too_many_columns_for_the_memory(data) -> None:
    _, y, qid = data
    wide = sp.csr_array((len(y), 2**31 - 1))
    with pytest.raises(MemoryError, match="features of the query, which are dense"):
        LinearRankSVM(query_features=("rank",)).fit(wide, y, qid)


def test_exports_are_refused(data) -> None:
    X, y, qid = data
    for keep in (True, False):
        model = LinearRankSVM(query_features=("rank",), keep_features=keep).fit(X, y, qid)
        assert model._get_model().weights is None
        out = io.BytesIO()
        with pytest.raises(ValueError, match=r"features of the query \(rank\). Train it without"):
            write_svmrank(out, model._get_model())
        assert not out.getvalue()


def test_problems_get_the_columns_that_the_settings_ask_for(data) -> None:
    X, y, qid = data
    ranking = RankingData(X, y, qid)
    settings = LinearSettings(query_features=("rank",))
    problem = make_problem(ranking, settings)
    model = problem.model(problem.solve())
    assert (model.n_features, model.n_columns) == (4, 8)
    unprepared = LinearProblem(ranking, settings)
    with pytest.raises(ValueError, match="the settings have QueryView"):
        unprepared.model(unprepared.solve())


def expected_failures(estimator: Any) -> dict[str, str]:
    del estimator
    weights = "an item counts in its query whatever its weight"
    return {
        "check_methods_subset_invariance": "scores of an item depend on the others of its query",
        "check_sample_weight_equivalence_on_dense_data": weights,
        "check_sample_weight_equivalence_on_sparse_data": weights,
    }


@parametrize_with_checks(
    [LinearRankSVM(query_features=("rank",)), KernelRankSVM(query_features=["zscore", "rank"])],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)
