"""Kernel features as scikit-learn transformers."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn import kernel_approximation as peers
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from ranksvm import LinearRankSVM
from ranksvm._vectors import Array
from ranksvm.datasets import make_ranking
from ranksvm.kernel_approximation import Nystroem, RandomFourier
from ranksvm.maps.features import make_fourier, make_nystroem
from ranksvm.maps.kernels import Kernel
from ranksvm.maps.landmarks import LANDMARKS


@pytest.mark.filterwarnings("ignore:n_components=500 exceeds")
@parametrize_with_checks(
    [
        Nystroem(),
        Nystroem(n_components=5),
        Nystroem("laplacian", n_components=5, landmarks="kmeans", dtype="float32"),
        Nystroem("poly", n_components=5, landmarks="leverage", gamma="auto", n_jobs=2),
        RandomFourier(),
        RandomFourier("laplacian", n_components=7, dtype="float32", n_jobs=2),
    ]
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    """All of them: there is no list of expected failures."""
    check(estimator)


def random_items(n: int = 60, d: int = 5, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(n, d))


both = pytest.mark.parametrize(
    "transformer",
    [
        Nystroem(n_components=20, random_state=0),
        Nystroem("laplacian", landmarks="kmeans", n_components=20, random_state=0),
        Nystroem("poly", landmarks="leverage", n_components=20, random_state=0),
        RandomFourier(n_components=20, random_state=0),
        RandomFourier("laplacian", n_components=21, random_state=0),
    ],
    ids=lambda transformer: f"{type(transformer).__name__}-{transformer.kernel}",
)


@pytest.mark.parametrize("how", LANDMARKS)
def test_nystroem_is_its_basis(how: str) -> None:
    X, new = random_items(), random_items(9, seed=1)
    ours = Nystroem("poly", gamma=0.3, degree=2, coef0=0.5, n_components=12, landmarks=how)
    ours.set_params(random_state=4).fit(X)
    basis = make_nystroem(X, Kernel("poly", 0.3, 0.5, 2), 12, how, seed=4)
    np.testing.assert_array_equal(ours.transform(new), basis.features(new))
    np.testing.assert_array_equal(ours.components_, basis.landmarks)
    np.testing.assert_array_equal(ours.normalization_, basis.whitening)
    assert ours.gamma_ == 0.3


@pytest.mark.parametrize("orthogonal", [True, False])
def test_random_fourier_is_its_basis(orthogonal: bool) -> None:
    X, new = random_items(), random_items(9, seed=1)
    ours = RandomFourier(gamma=0.3, n_components=12, orthogonal=orthogonal, random_state=4).fit(X)
    basis = make_fourier(Kernel("rbf", 0.3), 5, 12, orthogonal=orthogonal, seed=4)
    np.testing.assert_array_equal(ours.transform(new), basis.features(new))
    np.testing.assert_allclose(
        ours.transform(new),
        np.sqrt(2 / 12) * np.cos(new @ ours.frequencies_.T + ours.shifts_),
        atol=1e-13,
    )


@pytest.mark.parametrize(
    ("kernel", "settings"),
    [
        ("rbf", {"gamma": 0.2}),
        ("laplacian", {"gamma": 0.1}),
        ("poly", {"gamma": 0.2, "degree": 2, "coef0": 1.0}),
        ("linear", {}),
    ],
)
def test_with_all_items_nystroem_equals_scikit_learns(kernel: str, settings: Any) -> None:
    """Same inner products: features are the same up to a rotation."""
    X, new = random_items(40), random_items(15, seed=1)
    ours = Nystroem(kernel, n_components=40, random_state=0, **settings).fit(X).transform(new)
    theirs = peers.Nystroem(
        kernel=kernel,
        n_components=40,
        **({} if kernel == "linear" else settings),
        random_state=0,
    )
    expected = theirs.fit(X).transform(new)
    np.testing.assert_allclose(
        ours @ ours.T, expected @ expected.T, atol=1e-6 * np.abs(expected).max() ** 2
    )


def test_a_kernel_of_ones_own():
    X = random_items()
    mine = Nystroem(lambda A, B: rbf_kernel(A, B, gamma=0.2), n_components=20, random_state=0)
    named = Nystroem("rbf", gamma=0.2, n_components=20, random_state=0)
    a, b = mine.fit_transform(X), named.fit_transform(X)
    np.testing.assert_allclose(a @ a.T, b @ b.T, atol=1e-9)


@both
def test_gamma_scale_and_auto(transformer: Any) -> None:
    X = 3.0 * random_items()
    fitted = clone(transformer).fit(X)
    assert fitted.gamma_ == pytest.approx(1 / (5 * X.var()))
    assert clone(transformer).set_params(gamma="auto").fit(X).gamma_ == 0.2
    np.testing.assert_array_equal(
        fitted.transform(X), clone(transformer).set_params(gamma=fitted.gamma_).fit_transform(X)
    )


@both
@pytest.mark.parametrize("layout", [sp.csr_array, sp.csr_matrix, sp.csc_array])
def test_sparse_items_are_like_dense_ones(transformer: Any, layout: Any) -> None:
    X = np.maximum(0.0, random_items(80))
    dense = clone(transformer).fit_transform(X)
    sparse = clone(transformer).fit_transform(layout(X))
    assert isinstance(sparse, np.ndarray)
    np.testing.assert_allclose(sparse @ sparse.T, dense @ dense.T, rtol=1e-7, atol=1e-7)


@both
def test_repeated_and_unsorted_entries(transformer: Any) -> None:
    """A CSR matrix with columns in any order, some twice; it stays as it is."""
    data = np.array([1.0, 2.0, 0.5, 0.5, 3.0, 1.0])
    indices, indptr = np.array([2, 0, 1, 1, 0, 2]), np.array([0, 2, 5, 6])
    messy = sp.csr_array((data, indices, indptr), shape=(3, 3))
    clean = np.array([[2.0, 0.0, 1.0], [3.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    fitted = clone(transformer).set_params(n_components=3, gamma=0.1)
    a, b = fitted.fit_transform(messy), fitted.fit_transform(clean)
    np.testing.assert_allclose(a @ a.T, b @ b.T, atol=1e-9)
    np.testing.assert_array_equal(messy.indices, indices)


@both
def test_float32(transformer: Any) -> None:
    X = random_items()
    double = clone(transformer).fit_transform(X)
    single = clone(transformer).set_params(dtype="float32").fit_transform(X)
    assert double.dtype == np.float64
    assert single.dtype == np.float32
    np.testing.assert_array_equal(single, double.astype(np.float32))
    X32 = X.astype(np.float32)
    assert clone(transformer).fit_transform(X32).dtype == np.float64


@both
def test_random_states_and_threads(transformer: Any) -> None:
    X = random_items()
    one, two = (clone(transformer).set_params(n_jobs=n).fit_transform(X) for n in (1, 2))
    np.testing.assert_array_equal(one, two)
    for make in (np.random.default_rng, np.random.RandomState):
        a, b = (clone(transformer).set_params(random_state=make(5)) for _ in range(2))
        np.testing.assert_array_equal(a.fit_transform(X), b.fit_transform(X))
    fresh = [clone(transformer).set_params(random_state=None).fit_transform(X) for _ in range(2)]
    assert not np.array_equal(*fresh)


@both
def test_names_frames_and_pickles(transformer: Any) -> None:
    X = pd.DataFrame(random_items(), columns=list("abcde"))
    fitted = clone(transformer).set_output(transform="pandas").fit(X)
    frame = fitted.transform(X)
    prefix = type(transformer).__name__.lower()
    assert list(frame.columns) == [f"{prefix}{j}" for j in range(frame.shape[1])]
    assert list(fitted.get_feature_names_out()) == list(frame.columns)
    assert list(fitted.feature_names_in_) == list("abcde")
    again = pickle.loads(pickle.dumps(fitted)).transform(X)
    np.testing.assert_array_equal(again, frame)


def test_repeated_items_give_fewer_features():
    X = np.repeat(random_items(10), 6, axis=0)
    features = Nystroem(n_components=60, gamma=0.3, random_state=0).fit(X)
    assert features.transform(X).shape == (60, 10)
    assert len(features.get_feature_names_out()) == 10
    F = features.transform(X)
    np.testing.assert_allclose(F @ F.T, rbf_kernel(X, gamma=0.3), atol=1e-9)


@both
def test_before_a_ranker_in_a_pipeline(transformer: Any) -> None:
    X, y, qid, _ = make_ranking(30, 15, 5, signal="nonlinear", noise=0.1, random_state=0)
    transformer = clone(transformer).set_params(n_components=100)
    ranker = LinearRankSVM().fit(transformer.fit_transform(X), y, qid=qid)
    pipeline = make_pipeline(clone(transformer), LinearRankSVM())
    pipeline.fit(X, y, linearranksvm__qid=qid)
    np.testing.assert_array_equal(pipeline.predict(X), ranker.predict(transformer.transform(X)))
    with config_context(enable_metadata_routing=True):
        accuracy = pipeline.fit(X, y, qid=qid).score(X, y, qid=qid)
    assert accuracy == ranker.score(transformer.transform(X), y, qid=qid)
    assert accuracy > LinearRankSVM().fit(X, y, qid=qid).score(X, y, qid=qid) + 0.02


# What goes wrong


@both
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gamma": 0.0}, "gamma must be a positive finite number"),
        ({"gamma": -1.0}, "gamma must be a positive finite number"),
        ({"gamma": "big"}, "gamma must be a positive finite number"),
        ({"n_components": 0}, "n_components must be a positive integer; got 0"),
        ({"n_components": 2.5}, "n_components must be a positive integer"),
        ({"dtype": "float16"}, "dtype must be one of 'float64', 'float32'; got 'float16'"),
        ({"kernel": "precomputed"}, "'rbf'"),
        ({"n_jobs": 0}, "n_jobs must be None or an integer other than 0"),
    ],
)
def test_bad_parameters(transformer: Any, settings: Any, message: str) -> None:
    broken = clone(transformer).set_params(**settings)
    with pytest.raises(ValueError, match=message):
        broken.fit_transform(random_items())


def test_bad_landmarks():
    with pytest.raises(ValueError, match="landmarks must be one of"):
        Nystroem(n_components=6, landmarks="k-means").fit(random_items())
    with pytest.raises(ValueError, match="not positive semi-definite"):
        Nystroem("sigmoid", gamma=1.0, coef0=-1.0, n_components=30).fit(random_items())


def test_kernels_of_ones_own_that_fail():
    with pytest.raises(ValueError, match=r"returned nan .* must return finite"):
        Nystroem(lambda A, B: np.full((len(A), len(B)), np.nan), n_components=5).fit(random_items())
    with pytest.raises(ValueError, match="must return an array of shape"):
        Nystroem(lambda A, B: np.ones(3), n_components=5).fit(random_items())
    with pytest.raises(ValueError, match="must be symmetric at the landmarks"):
        Nystroem(lambda A, B: 1.0 + A[:, :1] + 0.0 * B[:, 0], n_components=5).fit(random_items())


@both
def test_bad_items(transformer: Any) -> None:
    X = random_items()
    fitted = clone(transformer).fit(X)
    with pytest.raises(ValueError, match=r"X has 4 features, but .* is expecting 5 features"):
        fitted.transform(X[:, :4])
    X[3, 2] = np.nan
    for call in (fitted.transform, clone(transformer).fit):
        with pytest.raises(ValueError, match=r"column 2: 1 NaN"):
            call(X)
