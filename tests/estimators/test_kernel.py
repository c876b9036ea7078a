"""KernelRankSVM: the same optimum as independent solvers, whatever holds K; input; scikit-learn."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import ranksvm.maps.gram
from ranksvm import KernelRankSVM, LinearRankSVM
from ranksvm.datasets import make_ranking
from ranksvm.maps.gram_checks import DENSE, check_gram

Array = np.ndarray
GAMMA = 0.2
WAYS = [
    ("squared_hinge", "newton"),
    ("squared_hinge", "bundle"),
    ("hinge", "smoothed_newton"),
    ("hinge", "bundle"),
]
every_way = pytest.mark.parametrize(("loss", "solver"), WAYS)
EXACT = {"tol": 1e-9, "max_iter": 5000}


_LANDMARKS = "landmarks are drawn from the rows: repeating a row draws others"
EXPECTED = {
    "precomputed": {
        "check_positive_only_tag_during_fit": "its X is no kernel matrix, and is refused as such",
        "check_estimators_dtypes": "a kernel matrix cut to integers is none",
        "check_estimators_nan_inf": "it predicts from X of 3 columns after a kernel matrix of 10",
    },
    "nystroem": {
        "check_sample_weight_equivalence_on_dense_data": _LANDMARKS,
        "check_sample_weight_equivalence_on_sparse_data": _LANDMARKS,
    },
}


@parametrize_with_checks(
    [
        KernelRankSVM(scaling=None),
        KernelRankSVM(kernel="laplacian", reduction="sum", C=0.1, scaling=None),
        KernelRankSVM(kernel="poly", degree=2, gamma=1e-4, reduction="query_mean", scaling=None),
        KernelRankSVM(kernel="precomputed", scaling=None),
        KernelRankSVM(loss="hinge", scaling=None),
        KernelRankSVM(approximation="nystroem", n_components=5, landmarks="kmeans", scaling=None),
        KernelRankSVM(approximation="fourier", n_components=50, dtype="float32", scaling=None),
    ],
    expected_failed_checks=lambda model: EXPECTED.get(model.approximation or model.kernel, {}),
)
def test_scikit_learn_checks(estimator: KernelRankSVM, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def data() -> tuple[Array, Array, Array]:
    """Queries of different sizes, one of them of a single utility, rows shuffled."""
    X, y, qid, _ = make_ranking(14, (4, 12), 5, signal="nonlinear", shuffle=True, random_state=0)
    y[qid == qid[0]] = 1.0
    return X, y, qid


def pairs(y: Array, qid: Array) -> tuple[Array, Array]:
    return np.nonzero((qid[:, None] == qid[None, :]) & (y[:, None] > y[None, :]))


def stated_objective(
    model: KernelRankSVM, K: Array, y: Array, qid: Array, weight: Array | None = None
) -> float:
    """The objective of the documentation, pair by pair."""
    beta = np.zeros(len(y))
    beta[model.support_] = model.dual_coef_
    better, worse = pairs(y, qid)
    w = np.ones(len(y)) if weight is None else weight
    scores = K @ beta
    slack = np.maximum(0.0, 1.0 - scores[better] + scores[worse])
    loss = slack if model.loss == "hinge" else slack**2
    weights = w[better] * w[worse]
    if model.reduction == "query_mean":
        of = qid[better]
        risk = np.mean([np.average(loss[of == q], weights=weights[of == q]) for q in set(of)])
    else:
        risk = weights @ loss / (weights.sum() if model.reduction == "mean" else 1.0)
    return 0.5 * float(beta @ K @ beta) + model.C * float(risk)


# --- The optimum ---------------------------------------------------------------------------------


@every_way
@pytest.mark.parametrize("reduction", ["sum", "mean", "query_mean"])
def test_objective_and_gap_are_what_they_say(data, loss: str, solver: str, reduction: str) -> None:
    X, y, qid = data
    K = rbf_kernel(X, gamma=GAMMA)
    C = 0.05 if reduction == "sum" else 30.0
    model = KernelRankSVM(
        C, gamma=GAMMA, loss=loss, solver=solver, reduction=reduction, scaling=None
    )
    model.fit(X, y, qid)
    assert model.status_ == "converged"
    assert model.objective_ == pytest.approx(stated_objective(model, K, y, qid), rel=1e-9)
    assert 0.0 <= model.gap_ <= model.tol * model.objective_
    best = clone(model).set_params(tol=1e-7, max_iter=5000).fit(X, y, qid)
    assert model.objective_ - best.objective_ <= model.gap_ * (1 + 1e-9)
    assert best.gap_ <= 1e-7 * best.objective_


@every_way
def test_linear_kernel_is_the_linear_machine(data, loss: str, solver: str) -> None:
    X, y, qid = data
    settings = {"loss": loss, "solver": solver, "tol": 1e-8, "max_iter": 5000}
    linear = LinearRankSVM(30.0, **settings, scaling=None).fit(X, y, qid)
    kernel = KernelRankSVM(30.0, kernel="linear", **settings, scaling=None).fit(X, y, qid)
    assert kernel.objective_ == pytest.approx(linear.objective_, rel=3e-8)
    np.testing.assert_allclose(kernel.predict(X), linear.predict(X), atol=2e-3)
    w = kernel.dual_coef_ @ kernel.support_vectors_
    np.testing.assert_allclose(w, linear.coef_, atol=2e-3)


def test_hinge_is_a_classifier_of_pair_differences(data) -> None:
    """scikit-learn's SVC without an intercept: every difference once with each sign."""
    X, y, qid = data
    C = 0.05
    K = rbf_kernel(X, gamma=GAMMA)
    better, worse = pairs(y, qid)
    G = K[np.ix_(better, better)] - K[np.ix_(better, worse)]
    G = G - K[np.ix_(worse, better)] + K[np.ix_(worse, worse)]
    signs = np.repeat([1.0, -1.0], len(better))
    both = np.kron([[1.0, -1.0], [-1.0, 1.0]], G)
    # Symmetric data: the intercept is zero, and each pair counts twice.
    classifier = SVC(kernel="precomputed", C=C / 2.0, tol=1e-10).fit(both, signs)
    assert abs(classifier.intercept_[0]) < 1e-8
    alpha = np.zeros(len(signs))
    alpha[classifier.support_] = classifier.dual_coef_[0]
    margins = (both @ alpha)[: len(better)]
    theirs = 0.5 * alpha @ both @ alpha + C * np.maximum(0.0, 1.0 - margins).sum()
    ours = KernelRankSVM(
        C, gamma=GAMMA, loss="hinge", reduction="sum", tol=1e-9, max_iter=9999, scaling=None
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ours.fit(X, y, qid)
    assert ours.objective_ == pytest.approx(theirs, rel=1e-7)
    scores = ours.predict(X)
    np.testing.assert_allclose(scores[better] - scores[worse], margins, atol=1e-3)


def test_squared_hinge_is_a_linear_machine_on_eigen_features(data) -> None:
    """An independent minimiser on explicit pairs of explicit features."""
    X, y, qid = data
    values, vectors = np.linalg.eigh(rbf_kernel(X, gamma=GAMMA))
    features = vectors * np.sqrt(np.maximum(values, 0.0))
    better, worse = pairs(y, qid)
    rows = features[better] - features[worse]
    C = 0.05

    def objective(w: Array) -> tuple[float, Array]:
        slack = np.maximum(0.0, 1.0 - rows @ w)
        return 0.5 * w @ w + C * slack @ slack, w - 2.0 * C * slack @ rows

    found = minimize(objective, np.zeros(features.shape[1]), jac=True, tol=1e-14)
    model = KernelRankSVM(C, gamma=GAMMA, reduction="sum", tol=1e-10, scaling=None).fit(X, y, qid)
    linear = LinearRankSVM(C, reduction="sum", tol=1e-10, scaling=None).fit(features, y, qid)
    assert model.objective_ == pytest.approx(found.fun, rel=1e-8)
    assert model.objective_ == pytest.approx(linear.objective_, rel=1e-9)
    np.testing.assert_allclose(model.predict(X), linear.predict(features), atol=1e-4)


@pytest.mark.parametrize(
    ("params", "matrix"),
    [
        ({"kernel": "rbf", "gamma": GAMMA}, lambda X, Z: rbf_kernel(X, Z, gamma=GAMMA)),
        ({"kernel": "laplacian", "gamma": GAMMA}, lambda X, Z: laplacian_kernel(X, Z, gamma=GAMMA)),
        (
            {"kernel": "poly", "gamma": GAMMA, "degree": 2, "coef0": 0.5},
            lambda X, Z: polynomial_kernel(X, Z, gamma=GAMMA, degree=2, coef0=0.5),
        ),
    ],
)
def test_precomputed_and_callable_are_the_named_kernel(data, params: Any, matrix: Any) -> None:
    X, y, qid = data
    named = KernelRankSVM(30.0, tol=1e-9, **params, scaling=None).fit(X, y, qid)
    called = KernelRankSVM(30.0, tol=1e-9, kernel=matrix, scaling=None).fit(X, y, qid)
    given = KernelRankSVM(30.0, tol=1e-9, kernel="precomputed", scaling=None).fit(
        matrix(X, X), y, qid
    )
    new = X[::3] + 0.1
    expected = named.predict(new)
    np.testing.assert_allclose(called.predict(new), expected, atol=1e-9)
    np.testing.assert_allclose(given.predict(matrix(new, X)), expected, atol=1e-9)
    np.testing.assert_array_equal(given.support_, named.support_)
    # By hand, from the attributes.
    by_hand = matrix(new, X[named.support_]) @ named.dual_coef_
    np.testing.assert_allclose(by_hand, expected, atol=1e-9)


@pytest.mark.parametrize("landmarks", ["uniform", "leverage"])
def test_nystroem_with_all_items_is_exact(data, landmarks: str) -> None:
    X, y, qid = data
    exact = KernelRankSVM(30.0, gamma=GAMMA, **EXACT, scaling=None).fit(X, y, qid)
    approximate = KernelRankSVM(
        30.0, gamma=GAMMA, approximation="nystroem", n_components=len(y), landmarks=landmarks,
        random_state=0, tol=1e-8, scaling=None,
).fit(X, y, qid)  # fmt: skip
    assert approximate.objective_ == pytest.approx(exact.objective_, rel=1e-7)
    np.testing.assert_allclose(approximate.predict(X), exact.predict(X), atol=1e-4)


@pytest.mark.parametrize("approximation", ["nystroem", "fourier"])
@every_way
def test_approximations_come_near_and_say_what_they_are(
    data, approximation: str, loss: str, solver: str
) -> None:
    X, y, qid = data
    exact = KernelRankSVM(30.0, gamma=GAMMA, loss=loss, scaling=None).fit(X, y, qid)
    model = KernelRankSVM(
        30.0, gamma=GAMMA, loss=loss, solver=solver, approximation=approximation,
        n_components=60 if approximation == "nystroem" else 4000, random_state=0, scaling=None,
).fit(X, y, qid)  # fmt: skip
    assert model.status_ == "converged"
    assert model.objective_ == pytest.approx(exact.objective_, rel=0.05)
    if approximation == "nystroem":
        features = rbf_kernel(X, model.components_, gamma=GAMMA)
        assert not hasattr(model, "random_offset_")
    else:
        projected = X @ model.components_.T + model.random_offset_
        features = np.sqrt(2.0 / len(model.coef_)) * np.cos(projected)
    np.testing.assert_allclose(features @ model.coef_, model.predict(X), atol=1e-8)
    for name in ("support_", "dual_coef_", "support_vectors_"):
        assert not hasattr(model, name)


def test_switching_the_approximation_leaves_nothing_behind(data) -> None:
    X, y, qid = data
    model = KernelRankSVM(gamma=GAMMA, approximation="fourier", random_state=0, scaling=None).fit(
        X, y, qid
    )
    model.set_params(approximation=None).fit(X, y, qid)
    assert not hasattr(model, "components_")
    assert not hasattr(model, "random_offset_")
    assert len(model.support_) == len(model.dual_coef_)


# --- Memory, threads, precision ------------------------------------------------------------------


@pytest.fixture
def small_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut K into many strips although it is small."""
    monkeypatch.setattr(ranksvm.maps.gram, "STRIP_ROWS", 16)
    monkeypatch.setattr(ranksvm.maps.gram, "TILE_VALUES", 256)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "callable"])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_model_does_not_depend_on_memory_or_threads(
    data, small_strips: None, dtype: str, kernel: str, sparse: bool
) -> None:
    X, y, qid = data
    chosen: Any = kernel
    if kernel == "callable":
        chosen = lambda A, B: rbf_kernel(A, B, gamma=GAMMA)  # noqa: E731
    given = sp.csr_matrix(np.where(X > 0.3, X, 0.0)) if sparse else X
    models = [
        KernelRankSVM(
            30.0,
            kernel=chosen,
            gamma=GAMMA,
            dtype=dtype,
            memory_budget=budget,
            n_jobs=n_jobs,
            scaling=None,
        ).fit(given, y, qid)
        for budget, n_jobs in [("1GB", 1), ("1GB", 3), (45_000, 1), ("60kB", 2)]
    ]
    first = models[0]
    for model in models[1:]:
        assert model.objective_ == first.objective_
        np.testing.assert_array_equal(model.dual_coef_, first.dual_coef_)
        np.testing.assert_array_equal(model.predict(given), first.predict(given))


def test_items_in_no_pair_take_no_random_features_away() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.zeros(40)
    y[:6] = range(6)
    qid = np.repeat([0, 1, 2], [10, 15, 15])  # only the first query has pairs
    model = KernelRankSVM(approximation="fourier", n_components=30, random_state=0).fit(X, y, qid)
    assert len(model.coef_) == 30


@pytest.mark.parametrize("approximation", [None, "nystroem", "fourier"])
def test_sparse_items_in_any_order_are_the_dense_ones(data, approximation: str | None) -> None:
    X, y, qid = data
    dense = np.where(X > 0.3, X, 0.0)
    csr = sp.csr_matrix(dense)
    rows = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
    order = np.lexsort((-csr.indices, rows))
    untidy = sp.csr_matrix((csr.data[order], csr.indices[order], csr.indptr), shape=csr.shape)
    settings: dict[str, Any] = {"gamma": GAMMA, "approximation": approximation, "tol": 1e-7}
    settings |= {"n_components": 40, "random_state": 0}
    expected = KernelRankSVM(30.0, **settings, scaling=None).fit(dense, y, qid).predict(dense)
    for items in (csr, csr.tocsc(), untidy, sp.csr_array(csr)):
        model = KernelRankSVM(30.0, **settings, scaling=None).fit(items, y, qid)
        np.testing.assert_allclose(model.predict(items), expected, atol=1e-4)
        np.testing.assert_allclose(model.predict(dense), expected, atol=1e-4)


def test_float32_is_near(data) -> None:
    X, y, qid = data
    double = KernelRankSVM(30.0, gamma=GAMMA, tol=1e-5, scaling=None).fit(X, y, qid)
    single = KernelRankSVM(30.0, gamma=GAMMA, tol=1e-5, dtype="float32", scaling=None).fit(
        X, y, qid
    )
    assert single.status_ == "converged"
    assert single.objective_ == pytest.approx(double.objective_, rel=1e-5)
    np.testing.assert_allclose(single.predict(X), double.predict(X), atol=5e-3)


def test_an_offset_costs_no_digits(data) -> None:
    """Distances do not change when all items move far away."""
    X, y, qid = data
    here = KernelRankSVM(30.0, gamma=GAMMA, tol=1e-9, scaling=None).fit(X, y, qid)
    there = KernelRankSVM(30.0, gamma=GAMMA, tol=1e-9, scaling=None).fit(X + 1e6, y, qid)
    np.testing.assert_allclose(there.predict(X + 1e6), here.predict(X), atol=1e-6)


def test_items_without_a_partner_are_left_out(data) -> None:
    X, y, qid = data
    alone = qid == qid[0]
    assert alone.sum() > 1
    whole = KernelRankSVM(30.0, gamma=GAMMA, scaling=None).fit(X, y, qid)
    part = KernelRankSVM(30.0, gamma=GAMMA, scaling=None).fit(X[~alone], y[~alone], qid[~alone])
    assert not np.isin(np.flatnonzero(alone), whole.support_).any()
    np.testing.assert_array_equal(whole.dual_coef_, part.dual_coef_)
    weight = np.where(np.arange(len(y)) % 5 == 0, 0.0, 1.0)
    weighted = KernelRankSVM(30.0, gamma=GAMMA, scaling=None).fit(X, y, qid, sample_weight=weight)
    assert (weight[weighted.support_] > 0.0).all()


def test_weights(data) -> None:
    X, y, qid = data
    K = rbf_kernel(X, gamma=GAMMA)
    weight = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    model = KernelRankSVM(30.0, gamma=GAMMA, tol=1e-8, scaling=None).fit(
        X, y, qid, sample_weight=weight
    )
    assert model.objective_ == pytest.approx(stated_objective(model, K, y, qid, weight), rel=1e-9)
    rows = np.repeat(np.arange(len(y)), weight.astype(int))
    repeated = KernelRankSVM(30.0, gamma=GAMMA, tol=1e-8, scaling=None).fit(
        X[rows], y[rows], qid[rows]
    )
    assert repeated.objective_ == pytest.approx(model.objective_, rel=1e-7)
    np.testing.assert_allclose(repeated.predict(X), model.predict(X), atol=1e-3)
    ids = list(dict.fromkeys(qid.tolist()))
    of_query = {q: float(k % 3) for k, q in enumerate(ids)}
    by_query = KernelRankSVM(1.0, gamma=GAMMA, reduction="sum", tol=1e-9, scaling=None)
    by_query.fit(X, y, qid, query_weight=of_query)
    by_item = clone(by_query)
    by_item.fit(X, y, qid, sample_weight=np.sqrt([of_query[q] for q in qid.tolist()]))
    assert by_query.objective_ == pytest.approx(by_item.objective_, rel=1e-8)


@given(st.data())
def test_any_small_set(data: st.DataObject) -> None:
    """Ties, one-item queries, equal items: certified, and F is what it says."""
    n = data.draw(st.integers(2, 12))
    X = np.array(data.draw(st.lists(st.integers(-2, 2), min_size=n, max_size=n)), dtype=float)
    y = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)), dtype=float)
    qid = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    C = data.draw(st.sampled_from([1e-3, 1.0, 1e3]))
    kernel = data.draw(st.sampled_from(["rbf", "laplacian", "linear"]))
    loss = data.draw(st.sampled_from(["squared_hinge", "hinge"]))
    model = KernelRankSVM(C, kernel=kernel, gamma=0.5, loss=loss, reduction="sum", scaling=None)
    if not len(pairs(y, qid)[0]):
        with pytest.raises(ValueError, match="no comparable pair"):
            model.fit(X[:, None], y, qid)
        return
    model.fit(X[:, None], y, qid)
    d = np.abs(X[:, None] - X[None, :])
    K = {"rbf": np.exp(-0.5 * d**2), "laplacian": np.exp(-0.5 * d), "linear": np.outer(X, X)}
    value = stated_objective(model, K[kernel], y, qid)
    assert model.objective_ == pytest.approx(value, rel=1e-7, abs=1e-9)
    assert model.status_ == "converged"


# --- scikit-learn --------------------------------------------------------------------------------


def test_grid_search_and_pickle(data) -> None:
    import sklearn

    X, y, qid = data
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(
            KernelRankSVM(gamma=GAMMA, scaling=None),
            {"C": [1.0, 30.0], "kernel": ["rbf", "laplacian"]},
            cv=GroupKFold(3).set_split_request(groups="qid"),
        ).fit(X, y, qid=qid)
    best = search.best_estimator_
    again = pickle.loads(pickle.dumps(best))
    np.testing.assert_array_equal(again.predict(X), best.predict(X))


def test_precomputed_kernels_are_split_by_scikit_learn(data) -> None:
    """The pairwise tag: rows and columns of K go together."""
    import sklearn

    X, y, qid = data
    K = rbf_kernel(X, gamma=GAMMA)
    folds = list(GroupKFold(3).split(X, y, groups=qid))
    with sklearn.config_context(enable_metadata_routing=True):
        scores = [
            GridSearchCV(model, {"C": [30.0]}, cv=folds).fit(given, y, qid=qid).best_score_
            for model, given in [
                (KernelRankSVM(gamma=GAMMA, scaling=None), X),
                (KernelRankSVM(kernel="precomputed", scaling=None), K),
            ]
        ]
    assert scores[0] == pytest.approx(scores[1])


def test_callback_and_history(data) -> None:
    X, y, qid = data
    rows = []
    model = KernelRankSVM(1000.0, gamma=GAMMA, tol=1e-9, scaling=None)
    model.fit(X, y, qid, callback=lambda row, coef: rows.append((row, len(coef))))
    assert [row for row, _ in rows] == model.history_
    stopped = clone(model).fit(X, y, qid, callback=lambda row, coef: row.iteration == 1)
    assert stopped.status_ == "stopped"
    assert stopped.objective_ - model.objective_ <= stopped.gap_


def test_a_step_costs_one_product(data) -> None:
    """A gradient and every conjugate gradient step but the first: one product with K each."""
    X, y, qid = data
    model = KernelRankSVM(1000.0, gamma=GAMMA, tol=1e-9, scaling=None).fit(X, y, qid)
    steps = sum(row.inner_iterations for row in model.history_)
    assert model.n_products_ <= steps + 2  # the first gradient, and a last look at the scores
    planes = KernelRankSVM(30.0, gamma=GAMMA, loss="hinge", scaling=None).fit(X, y, qid)
    assert planes.n_products_ <= 2 * planes.n_iter_ + 2


# --- Bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"gamma": 0.0}, r"gamma must be a positive finite number.*got 0\.0"),
        ({"gamma": -1.0}, "gamma must be a positive finite number"),
        ({"gamma": np.nan}, "gamma must be a positive finite number"),
        ({"gamma": "wide"}, "'scale' or 'auto'; got 'wide'"),
        ({"kernel": "gauss"}, "kernel must be one of 'rbf', .*, 'precomputed' or a callable; got"),
        ({"degree": 0}, "degree must be a positive integer"),
        ({"coef0": np.inf}, "coef0 must be a finite number"),
        ({"approximation": "pca"}, "approximation must be one of None, 'nystroem', 'fourier'"),
        ({"approximation": "fourier", "kernel": "poly"}, "Use approximation='nystroem'"),
        ({"approximation": "nystroem", "kernel": "precomputed"}, "use approximation=None"),
        ({"n_components": 0}, "n_components must be a positive integer"),
        ({"landmarks": "best"}, "landmarks must be one of"),
        ({"dtype": "float16"}, "dtype must be one of 'float64', 'float32'"),
        ({"memory_budget": "much"}, "memory_budget must be a positive number of bytes"),
        ({"memory_budget": 0}, "memory_budget must be a positive number of bytes"),
        (
            {"memory_budget": "1kB"},
            "leaves 1 KB for the kernel matrix.*one tile.*larger memory_budget",
        ),
        (
            {"memory_budget": "1kB", "approximation": "fourier"},
            "500 features of .* items take .* more than memory_budget='1kB'",
        ),
        ({"loss": "hinge", "solver": "newton"}, "needs a loss with second derivatives"),
        ({"kernel": "sigmoid", "gamma": 3.0, "coef0": -1.0}, "not positive semi-definite"),
    ],
)
def test_bad_parameters(data, params: dict[str, Any], message: str) -> None:
    X, y, qid = data
    if params.get("kernel") == "precomputed":
        X = rbf_kernel(X)
    model = KernelRankSVM(**params, scaling=None)
    with pytest.raises(ValueError, match=f"(?s){message}"):
        model.fit(X, y, qid)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_bad_kernel_functions(data) -> None:
    X, y, qid = data

    def holed(A: Array, B: Array) -> Array:
        K = rbf_kernel(A, B)
        K[0, -1] = np.nan
        return K

    with pytest.raises(ValueError, match=r"kernel holed returned nan.*not finite"):
        KernelRankSVM(kernel=holed, scaling=None).fit(X, y, qid)
    with pytest.raises(ValueError, match=r"must return an array of shape \(n_X, n_Z\)"):
        KernelRankSVM(kernel=lambda A, B: np.ones(3), scaling=None).fit(X, y, qid)
    with pytest.raises(ValueError, match="not positive semi-definite"):
        KernelRankSVM(kernel=lambda A, B: -rbf_kernel(A, B), scaling=None).fit(X, y, qid)


def test_bad_precomputed_matrices(data) -> None:
    X, y, qid = data
    K = rbf_kernel(X, gamma=GAMMA)
    model = KernelRankSVM(kernel="precomputed", scaling=None)
    with pytest.raises(ValueError, match=r"must be square.*got shape \(\d+, \d+\)"):
        model.fit(K[:, :-1], y, qid)
    skew = K.copy()
    skew[2, 5] += 0.25
    with pytest.raises(ValueError, match=r"symmetric; K\[2, 5\] = .* differ by 0\.25"):
        model.fit(skew, y, qid)
    values, vectors = np.linalg.eigh(K)
    values[3] = -2.0
    with pytest.raises(ValueError, match=r"semi-definite; its smallest eigenvalue is -2, "):
        model.fit((vectors * values) @ vectors.T, y, qid)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.where(K >= 1.0, np.nan, K), y, qid)
    fitted = model.fit(K, y, qid)
    with pytest.raises(ValueError, match=f"{len(y)} features"):
        fitted.predict(K[:, :-1])
    np.testing.assert_allclose(fitted.predict(sp.csr_matrix(K)), fitted.predict(K), atol=1e-12)


def test_large_matrices_are_checked_by_lanczos() -> None:
    n = DENSE + 200
    rng = np.random.default_rng(0)
    A = rng.standard_normal((n, 20))
    K = A @ A.T
    assert check_gram(K, n_threads=2) is K
    with pytest.raises(ValueError, match="semi-definite; its smallest eigenvalue is -"):
        check_gram(K - 30.0 * np.outer(np.eye(n)[7], np.eye(n)[7]))


def test_mismatched_features_at_predict(data) -> None:
    X, y, qid = data
    model = KernelRankSVM(gamma=GAMMA, scaling=None).fit(X, y, qid)
    with pytest.raises(ValueError, match=r"4 features.*expecting 5"):
        model.predict(X[:, :4])
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcde"))
    named = KernelRankSVM(gamma=GAMMA, scaling=None).fit(frame, y, qid)
    with pytest.raises(ValueError, match="feature names"):
        named.predict(frame.rename(columns={"a": "z"}))


def test_a_failed_fit_leaves_the_older_model(data) -> None:
    X, y, qid = data
    model = KernelRankSVM(gamma=GAMMA, scaling=None).fit(X, y, qid)
    before = model.predict(X)
    with pytest.raises(ValueError, match="gamma"):
        model.set_params(gamma=-1.0).fit(X[:, :3], y, qid)
    np.testing.assert_array_equal(model.predict(X), before)
