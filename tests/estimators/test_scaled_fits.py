"""``scaling=``: the same models as on features that were scaled before."""

from __future__ import annotations

import json
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import ranksvm
from ranksvm import (
    FactorizedRankSVM,
    KernelRankSVM,
    KernelRankSVMCV,
    LinearRankSVM,
    LinearRankSVMCV,
)
from ranksvm.data.ranking_data import RankingData
from ranksvm.data.scaling import SCALINGS, scaling_of
from ranksvm.datasets import make_ranking
from ranksvm.export import write_svmrank
from ranksvm.learners import LinearProblem, LinearSettings
from ranksvm.model_selection import QueryKFold

AFFINE = ("standard", "minmax", "robust")
SPREAD = {"standard": lambda X: StandardScaler().fit(X).scale_,
          "minmax": lambda X: 1.0 / MinMaxScaler().fit(X).scale_}  # fmt: skip


@pytest.fixture(scope="module")
def data():
    X, y, qid, _ = make_ranking(40, (2, 20), 6, random_state=0)
    return X * 10.0 ** np.arange(-3, 3) + [0, 5, 0, -3, 0, 1], y, qid


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
@pytest.mark.parametrize("name", sorted(SPREAD))
def test_linear_is_a_fit_on_scaled_features(data, name: str, loss: str) -> None:
    X, y, qid = data
    spread = SPREAD[name](X)
    ours = LinearRankSVM(50.0, scaling=name, loss=loss, tol=1e-6).fit(X, y, qid)
    theirs = LinearRankSVM(50.0, scaling=None, loss=loss, tol=1e-6).fit(X / spread, y, qid)
    assert ours.objective_ - ours.gap_ <= theirs.objective_
    assert theirs.objective_ - theirs.gap_ <= ours.objective_
    assert ours.gap_ <= 1e-6 * ours.objective_
    np.testing.assert_allclose(ours.coef_ * spread, theirs.coef_, rtol=0.02, atol=2e-3)
    # The objective in the units of the scaled features, pair by pair.
    v, scores = ours.coef_ * spread, X @ ours.coef_
    total = pairs = 0.0
    for q in np.unique(qid):
        s, labels = scores[qid == q], y[qid == q]
        better, worse = np.nonzero(labels[:, None] > labels)
        slack = np.maximum(0.0, 1.0 - s[better] + s[worse])
        total += float((slack if loss == "hinge" else slack**2).sum())
        pairs += better.size
    assert 0.5 * v @ v + 50.0 * total / pairs == pytest.approx(ours.objective_, rel=2e-6)


@pytest.mark.parametrize("name", sorted(SCALINGS))
@pytest.mark.parametrize(
    "settings",
    [
        {"kernel": "rbf"},
        {"kernel": "laplacian"},
        {"kernel": "poly", "degree": 2, "gamma": 0.1},
        {"approximation": "nystroem", "n_components": 40, "random_state": 0},
        {"approximation": "fourier", "n_components": 40, "random_state": 0},
    ],
)
def test_kernels_are_those_of_scaled_features(data, name: str, settings) -> None:
    X, y, qid = data
    scaled = scaling_of(name, X).apply(X)
    ours = KernelRankSVM(scaling=name, **settings).fit(X, y, qid)
    theirs = KernelRankSVM(scaling=None, **settings).fit(scaled, y, qid)
    assert ours.objective_ == theirs.objective_
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(scaled))


@pytest.mark.parametrize("form", [sp.csr_matrix, sp.csc_matrix])
@pytest.mark.parametrize("name", AFFINE)
def test_sparse_and_dense_agree(data, name: str, form) -> None:
    X, y, qid = data
    X = np.where(np.abs(X) > np.median(np.abs(X), axis=0), X, 0.0)
    dense = LinearRankSVM(scaling=name, tol=1e-7).fit(X, y, qid)
    sparse = LinearRankSVM(scaling=name, tol=1e-7).fit(form(X), y, qid)
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=1e-6)
    # "scale" sees the offsets, which an rbf kernel does not.
    kernel = KernelRankSVM(scaling=name, gamma=0.2).fit(form(X), y, qid)
    rbf = KernelRankSVM(scaling=name, gamma=0.2).fit(X, y, qid)
    np.testing.assert_allclose(kernel.predict(form(X)), rbf.predict(X), rtol=1e-6, atol=1e-8)


def test_a_kernel_on_features_of_very_different_scales_warns(data) -> None:
    X, y, qid = data
    with pytest.warns(UserWarning, match=r"differ by a factor of \de\+0\d.*scaling='standard'"):
        KernelRankSVM(scaling=None).fit(X, y, qid)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelRankSVM().fit(X, y, qid)
        KernelRankSVM(kernel="linear", scaling=None, tol=0.1).fit(X, y, qid)
        KernelRankSVM(scaling=None).fit(np.c_[X[:, :3], np.ones(len(X))], y, qid)


def test_scales_of_the_features_do_not_matter(data) -> None:
    X, y, qid = data
    moved = X * 2.0 ** np.array([9, -20, 0, 3, -3, 1])
    for name in AFFINE:
        one, other = (LinearRankSVM(scaling=name, tol=1e-8).fit(Z, y, qid) for Z in (X, moved))
        assert one.objective_ == pytest.approx(other.objective_, rel=1e-7)


def test_constant_features_are_left_out(data) -> None:
    X, y, qid = data
    wide = np.c_[X, np.full(len(X), 1e9)]
    for name in sorted(SCALINGS):
        plain = LinearRankSVM(scaling=name).fit(X, y, qid)
        model = LinearRankSVM(scaling=name).fit(wide, y, qid)
        assert model.coef_[-1] == 0.0
        assert model._facts["constant_features"] == 1
        assert model.objective_ == pytest.approx(plain.objective_, rel=1e-3)
        kernel = KernelRankSVM(scaling=name, gamma=0.1).fit(wide, y, qid)
        without = KernelRankSVM(scaling=name, gamma=0.1).fit(X, y, qid)
        assert kernel._facts["constant_features"] == 1
        assert kernel.objective_ == pytest.approx(without.objective_, rel=1e-6)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_a_feature_of_rounding_errors_is_left_out(data, loss: str) -> None:
    X, y, qid = data
    nearly = np.where(np.arange(len(y)) % 2, 0.3, 0.1 + 0.2)
    without = LinearRankSVM(loss=loss).fit(X, y, qid)
    model = LinearRankSVM(loss=loss).fit(np.column_stack([X, nearly]), y, qid)
    assert model.status_ == "converged"
    assert model.coef_[-1] == 0.0
    assert model.objective_ == pytest.approx(without.objective_, rel=2e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing about scales
        KernelRankSVM(scaling=None).fit(np.column_stack([X[:, 3], nearly]), y, qid)


def test_constant_features_are_logged(data, capsys) -> None:
    X, y, qid = data
    wide = np.c_[X, np.full(len(X), 3.0), np.zeros(len(X))]
    LinearRankSVM(verbose=1).fit(wide, y, qid)
    assert "ranksvm: 2 constant features left out" in capsys.readouterr().err
    LinearRankSVM(verbose=1).fit(X, y, qid)
    assert "left out" not in capsys.readouterr().err


def test_constant_features_are_printed(data, run, tmp_path) -> None:
    X, y, qid = data
    wide = np.c_[X, np.full(len(X), 3.0), np.zeros(len(X))]
    ranksvm.data.save_letor(tmp_path / "train.txt", wide, y, qid)
    model = tmp_path / "m.safetensors"
    for kernel in ((), ("--kernel", "rbf")):
        code, out, err = run("train", tmp_path / "train.txt", "-o", model, "--force", *kernel)
        assert code == 0, err
        assert "standard scaling, 2 constant features left out" in out
        code, out, _ = run("info", model, "--json")
        assert json.loads(out)["constant_features"] == 2


def test_the_default_is_standard_for_dense_features_alone(data) -> None:
    X, y, qid = data
    for estimator, of_model in ((LinearRankSVM, "coef_"), (KernelRankSVM, "dual_coef_")):
        for X_given, expected in ((X, "standard"), (sp.csr_array(X), None)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                auto = estimator(tol=0.1).fit(X_given, y, qid)
                named = estimator(tol=0.1, scaling=expected).fit(X_given, y, qid)
            np.testing.assert_array_equal(getattr(auto, of_model), getattr(named, of_model))
            assert auto._get_model().describe()["scaling"] == expected
    given = KernelRankSVM(kernel="precomputed").fit(X[:, :2] @ X[:, :2].T, y, qid)
    assert given._facts["scaling"] is None
    called = KernelRankSVM(kernel=lambda a, b: a[:, :2] @ b[:, :2].T).fit(X, y, qid)
    assert called._facts["scaling"] is None


MODELS = [
    LinearRankSVM(),
    LinearRankSVMCV(3, cv=3),
    KernelRankSVM(),
    KernelRankSVM(approximation="nystroem", n_components=30, random_state=0),
    KernelRankSVMCV(2, 2, cv=3),
]


@pytest.mark.filterwarnings("ignore:.*of the grid:UserWarning")
@pytest.mark.parametrize("name", sorted(SCALINGS))
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_files_pickles_and_explanations(data, name: str, model, tmp_path) -> None:
    X, y, qid = data
    model = clone(model).set_params(scaling=name).fit(X, y, qid)
    expected = model.predict(X)
    model.save(tmp_path / "m.safetensors")
    loaded = ranksvm.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(loaded.predict(X), expected)
    assert loaded.get_params()["scaling"] == name
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(loaded)).predict(X), expected)
    found = loaded.explain(X, 0, 3)
    assert found.difference == expected[0] - expected[3]
    assert found.contributions.sum() == pytest.approx(found.difference, rel=1e-6, abs=1e-9)


@pytest.mark.filterwarnings("ignore:.*of the grid:UserWarning")
def test_folds_are_scaled_by_their_training_parts(data) -> None:
    """Each fold alone, by hand, has the objectives that the search found."""
    X, y, qid = data
    half = qid < np.median(qid)
    folds = [(np.flatnonzero(half), np.flatnonzero(~half)),
             (np.flatnonzero(~half), np.flatnonzero(half))]  # fmt: skip
    Cs = [1.0, 10.0, 100.0]
    for n_jobs in (1, 2):
        search = LinearRankSVMCV(Cs, cv=folds, scaling="standard", tol=1e-5, n_jobs=n_jobs)
        search.fit(X, y, qid)
        for k, (train, _) in enumerate(folds):
            for c, C in enumerate(Cs):
                alone = LinearRankSVM(C, scaling=None, tol=1e-5)
                alone.fit(StandardScaler().fit_transform(X[train]), y[train], qid[train])
                # Every fit is certified to the tolerance.
                expected = pytest.approx(alone.objective_, rel=3e-5)
                assert search.cv_results_[f"split{k}_objective"][c] == expected


@pytest.mark.filterwarnings("ignore:.*of the grid:UserWarning")
@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_folds_have_quantiles_of_their_own(data, loss: str) -> None:
    """Weights of another fold help, its scores do not: quantiles differ from fold to fold."""
    X, y, qid = data
    folds = list(QueryKFold(3).split(X, y, qid))
    Cs = [1.0, 10.0, 100.0]
    search = LinearRankSVMCV(Cs, cv=folds, scaling="quantile", loss=loss, tol=1e-6).fit(X, y, qid)
    for k, (train, _) in enumerate(folds):
        for c, C in enumerate(Cs):
            alone = LinearRankSVM(C, scaling="quantile", loss=loss, tol=1e-6)
            alone.fit(X[train], y[train], qid[train])
            objective = search.cv_results_[f"split{k}_objective"][c]
            assert 0.0 <= search.cv_results_[f"split{k}_gap"][c] <= 1e-6 * objective
            assert objective == pytest.approx(alone.objective_, rel=2e-6)


def test_scores_of_another_fold_may_have_a_feature_that_is_left_out_here(data) -> None:
    X, y, qid = data
    near = 1e6 * (1.0 + 1e-15 * (np.arange(len(y)) % 8))  # but for the first query
    X = np.column_stack([X, np.where(qid == 0, 5.0, near)])
    folds = [np.flatnonzero(qid < 20), np.flatnonzero(qid > 0)]
    first, second = (
        LinearProblem(RankingData(X[rows], y[rows], qid[rows]), LinearSettings()) for rows in folds
    )
    shared = first.shared_point(first.solve().point)
    shared = shared._replace(w=shared.w + 1.0, scores=X @ (shared.w + 1.0))
    known = second.known_point(shared, folds[1])
    assert known.scores is not None
    np.testing.assert_allclose(known.scores, X[folds[1], :-1] @ second.weights(known.w)[:-1])
    assert second.weights(known.w)[-1] == 0.0


def test_factorized(data) -> None:
    X, y, qid = data
    for name in AFFINE:
        model = FactorizedRankSVM(scaling=name, random_state=0).fit(X, y, qid, eval_set=(X, y, qid))
        assert model.score(X, y, qid) > 0.9
    with pytest.raises(ValueError, match=r"linear in the features.*scaling='standard'"):
        FactorizedRankSVM(scaling="quantile").fit(X, y, qid)


def test_item_weights_count(data) -> None:
    X, y, qid = data
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(np.float64)
    rows = np.flatnonzero(weight)
    for name in sorted(SCALINGS):
        one = LinearRankSVM(scaling=name).fit(X, y, qid, sample_weight=weight)
        other = LinearRankSVM(scaling=name).fit(
            X[rows], y[rows], qid[rows], sample_weight=weight[rows]
        )
        np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-3, atol=1e-8)


def test_warm_start_and_callback_use_weights_of_the_features(data) -> None:
    X, y, qid = data
    seen = []
    model = LinearRankSVM(scaling="standard", warm_start=True)
    model.fit(X, y, qid, callback=lambda row, coef: seen.append(coef))
    np.testing.assert_array_equal(seen[-1], model.coef_)
    before = model.coef_.copy()
    model.fit(X, y, qid)
    assert model.n_iter_ <= 1
    np.testing.assert_allclose(model.coef_, before, rtol=1e-2, atol=1e-9)


def test_what_cannot_be_scaled_is_refused(data, tmp_path) -> None:
    X, y, qid = data
    with pytest.raises(ValueError, match="scaling must be"):
        LinearRankSVM(scaling="log").fit(X, y, qid)
    with pytest.raises(ValueError, match="no features to scale"):
        KernelRankSVM(kernel="precomputed", scaling="standard").fit(X @ X.T, y, qid)
    model = LinearRankSVM(scaling="quantile").fit(X, y, qid)
    with pytest.raises(ValueError, match=r"linear model of quantiles\. Train it with another"):
        write_svmrank(tmp_path / "model.dat", model._get_model())


@pytest.fixture
def folder_of_files(data, tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    X, y, qid = data
    for number, rows in enumerate(np.array_split(np.arange(len(y)), 3)):
        columns = {"label": y[rows], "qid": qid[rows]}
        columns |= {f"x{j}": X[rows, j] for j in range(X.shape[1])}
        parquet.write_table(pa.table(columns), tmp_path / f"{number}.parquet")
    return tmp_path


def scores_without_names(model, X):
    return model._get_model().scores(X)


@pytest.mark.filterwarnings("ignore:.*of the grid:UserWarning")
@pytest.mark.parametrize("name", sorted(SCALINGS))
@pytest.mark.parametrize(
    "estimator", [LinearRankSVM(tol=1e-8), LinearRankSVMCV([1.0, 10.0], cv=3, tol=1e-6)]
)
def test_files_give_the_same_linear_model(data, name: str, estimator, folder_of_files) -> None:
    X, y, qid = data
    one = clone(estimator).set_params(scaling=name).fit(X, y, qid)
    files = clone(estimator).set_params(scaling=name)
    files.fit_files(folder_of_files, memory_budget="40MB")
    np.testing.assert_allclose(files.coef_, one.coef_, rtol=1e-3, atol=1e-9)
    np.testing.assert_allclose(scores_without_names(files, X), one.predict(X), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", sorted(SCALINGS))
@pytest.mark.parametrize("kind", ["nystroem", "fourier"])
def test_files_give_the_same_kernel_model(data, name: str, kind: str, folder_of_files) -> None:
    X, y, qid = data
    model = KernelRankSVM(
        approximation=kind, n_components=40, scaling=name, random_state=0, tol=1e-8
    )
    one = clone(model).fit(X, y, qid)
    files = clone(model).fit_files(folder_of_files, memory_budget="40MB")
    assert files._facts["gamma"] == pytest.approx(one._facts["gamma"], rel=1e-9)
    assert files._facts["scaling"] == name
    np.testing.assert_allclose(scores_without_names(files, X), one.predict(X), rtol=1e-4, atol=1e-3)


def test_a_format_without_quantiles_is_refused_before_the_work(run, tmp_path) -> None:
    for command in ("train", "tune"):
        options = ["-o", tmp_path / "m.dat", "--scaling", "quantile"]
        code, _, err = run(command, tmp_path / "there is no such file.txt", *options)
        assert code == 2
        assert "one weight per feature, which --scaling quantile is not" in " ".join(err.split())


def test_commands(run, folder, tmp_path) -> None:
    model = tmp_path / "m.safetensors"
    code, out, err = run(
        "train", folder / "train.txt", "-o", model, "--scaling", "standard", "--json"
    )
    assert code == 0, err
    assert json.loads(out)["settings"]["scaling"] == "standard"
    code, out, err = run("train", folder / "train.txt", "-o", model, "--scaling", "none", "--json")
    assert code == 0, err
    assert json.loads(out)["settings"]["scaling"] is None
    run("train", folder / "train.txt", "-o", model, "--scaling", "standard", "--json")
    X, y, qid, *_ = ranksvm.data.load_letor(folder / "train.txt")
    expected = LinearRankSVM(scaling="standard").fit(X, y, qid)
    code, out, _ = run("predict", model, folder / "test.txt")
    Z = ranksvm.data.load_letor(folder / "test.txt").X
    np.testing.assert_allclose(np.array(out.split(), dtype=float), expected.predict(Z), rtol=1e-6)
    code, _, err = run("train", folder / "train.txt", "-o", model, "--scaling", "log")
    assert code == 2
    assert "--scaling" in err
    grids = ("--C-grid", "1,50", "--gamma-grid", "0.1,1", "--folds", "3")
    code, out, err = run(
        "tune",
        folder / "train.txt",
        "-o",
        model,
        "--scaling",
        "quantile",
        "--kernel",
        "rbf",
        *grids,
    )
    assert code == 0, err
    assert run("predict", model, folder / "test.txt")[0] == 0
    code, out, _ = run("info", model, "--json")
    assert json.loads(out)["scaling"] == "quantile"
