"""``fit_pairs(chosen=A, rejected=B)``: pairs as the rows of two matrices."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from ranksvm import KernelRankSVM, KernelRankSVMCV, LinearRankSVM, LinearRankSVMCV
from ranksvm.data.pair_groups import connected_groups
from ranksvm.data.paired_rows import PairedRows, equal_rows
from ranksvm.data.preferences import Preferences
from ranksvm.data.ranking_data import RankingData
from ranksvm.estimators.pair_inputs import pair_data
from ranksvm.learners.differences import with_differences
from ranksvm.learners.linear import LinearSettings

pd = pytest.importorskip("pandas")
NOTHING = dict.fromkeys(("y", "qid", "group", "sample_weight", "query_weight"))


def answers(n: int = 200, d: int = 5, seed: int = 0, noise: float = 1.0):
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(2, n, d)) * np.linspace(0.5, 3.0, d) + 1.0
    weights = rng.normal(size=d)
    up = (A - B) @ weights + noise * rng.logistic(size=n) > 0.0
    return np.where(up[:, None], A, B), np.where(up[:, None], B, A)


def by_rows(model, A, B, **options):
    n = len(A)
    return model.fit_pairs(np.concatenate([A, B]), np.arange(n), n + np.arange(n), **options)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
@pytest.mark.parametrize("scaling", ["auto", None, "minmax", "robust", "quantile"])
def test_is_the_model_of_the_stacked_rows(scaling, loss: str) -> None:
    A, B = answers()
    weight = np.random.default_rng(1).random(len(A))
    make = {"loss": loss, "scaling": scaling, "tol": 1e-7}
    one = LinearRankSVM(**make).fit_pairs(chosen=A, rejected=B, weight=weight)
    other = by_rows(LinearRankSVM(**make), A, B, weight=weight)
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-6)
    assert one.n_pairs_ == other.n_pairs_ == len(A)
    np.testing.assert_allclose(one.predict(A), other.predict(A), atol=5e-3)
    facts = one._facts
    assert facts["n_items"] == 400
    score = one.score_pairs(chosen=A, rejected=B, weight=weight)
    assert score == other.score_pairs(
        np.concatenate([A, B]), np.arange(200), 200 + np.arange(200), weight=weight
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kinds_of_matrices(dtype) -> None:
    A, B = (X.astype(dtype) for X in answers())
    names = [f"f{k}" for k in range(A.shape[1])]
    wanted = LinearRankSVM(scaling=None, tol=1e-8).fit_pairs(chosen=A, rejected=B)
    kinds = {
        "lists": (A.tolist(), B.tolist()),
        "CSR": (sparse.csr_matrix(A), sparse.csr_matrix(B)),
        "CSC and dense": (sparse.csc_matrix(A), B),
        "frames": (pd.DataFrame(A, columns=names), pd.DataFrame(B, columns=names)),
        "Fortran": (np.asfortranarray(A), np.asfortranarray(B)),
    }
    for name, (chosen, rejected) in kinds.items():
        model = LinearRankSVM(scaling=None, tol=1e-8).fit_pairs(chosen=chosen, rejected=rejected)
        np.testing.assert_allclose(model.coef_, wanted.coef_, atol=1e-3, err_msg=name)
        assert model.score_pairs(chosen=chosen, rejected=rejected) == pytest.approx(
            wanted.score_pairs(chosen=A, rejected=B)
        )
        proba = model.predict_pair_proba(chosen, rejected)
        np.testing.assert_allclose(proba, wanted.predict_pair_proba(A, B), atol=5e-2)
    assert kinds["frames"][0].columns.tolist() == names


@pytest.mark.parametrize("approximation", [None, "nystroem", "fourier"])
def test_kernels(approximation) -> None:
    A, B = answers(60)
    make = {"approximation": approximation, "n_components": 20, "random_state": 0, "tol": 1e-6}
    one = KernelRankSVM(**make).fit_pairs(chosen=A, rejected=B)
    other = by_rows(KernelRankSVM(**make), A, B)
    np.testing.assert_array_equal(one.predict(A), other.predict(A))
    assert one._facts["pair_probability"] == other._facts["pair_probability"]


def test_a_linear_model_gets_differences_and_no_copy() -> None:
    A, B = answers()
    model = LinearRankSVM()
    settings = model._settings(LinearSettings)
    data = pair_data(model, None, None, None, settings, chosen=A, rejected=B, **NOTHING)
    assert isinstance(data.X, PairedRows)
    assert data.X.parts[0][0] is A
    np.testing.assert_array_equal(data.X.differences()[:-1], A - B)
    np.testing.assert_array_equal(data.X.matrix(), np.concatenate([A, B]))


def test_certificate_holds_for_the_pairs_as_given() -> None:
    A, B = answers(300, 4)
    for scaling in (None, "standard"):
        model = LinearRankSVM(3.0, scaling=scaling, tol=1e-6).fit_pairs(chosen=A, rejected=B)
        w = model.coef_
        unit = np.ones(4) if scaling is None else np.concatenate([A, B]).std(axis=0)
        loss = np.maximum(0.0, 1.0 - (A - B) @ w) ** 2
        objective = 0.5 * (unit * w) @ (unit * w) + 3.0 * loss.mean()
        assert model.objective_ - model.gap_ <= objective <= model.objective_ * (1 + 1e-12)


def test_differences_that_overflow_are_not_used() -> None:
    A = np.array([[1.7e308, 1.0], [1.0, 2.0]])
    B = np.array([[-1.7e308, 0.0], [0.0, 1.0]])
    assert PairedRows([(A, B)]).differences() is None
    pairs = Preferences(np.arange(2), 2 + np.arange(2))
    data = RankingData(PairedRows([(A, B)]), preferences=pairs)
    found, units = with_differences(data, "minmax", 1)
    np.testing.assert_array_equal(found.X, np.concatenate([A, B]))
    np.testing.assert_array_equal(found.preferences.worse, pairs.worse)
    np.testing.assert_array_equal(units.tallest, [1.7e308, 2.0])


def test_equal_rows_are_one_item() -> None:
    A, B = answers(40)
    A[1], B[3], A[7] = A[0], A[0], B[5]
    first = equal_rows([A, B])
    stacked = np.concatenate([A, B])
    wanted = [int(np.argmax((stacked == row).all(axis=1))) for row in stacked]
    assert first.tolist() == wanted
    assert equal_rows([sparse.csr_matrix(A), sparse.csr_matrix(B)]).tolist() == wanted
    assert equal_rows([A[4:5], B[8:]]) is None
    data = pair_data(LinearRankSVM(), None, None, None, chosen=A, rejected=B, **NOTHING)
    assert data.n_items == 77
    groups = connected_groups(data)
    assert groups.n_queries == 37  # pairs 0, 1 and 3 share a row, so do 5 and 7
    assert groups.index[data.preferences.better[1]] == groups.index[data.preferences.worse[3]]
    one = LinearRankSVM(tol=1e-8, scaling=None).fit_pairs(chosen=A, rejected=B)
    other = by_rows(LinearRankSVM(tol=1e-8, scaling=None), A, B)
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-3)


@pytest.mark.filterwarnings("ignore:.*of the grid")
def test_groups_are_queries_and_folds_do_not_divide_them() -> None:
    A, B = answers(90)
    prompt = np.repeat([f"p{k}" for k in range(30)], 3)
    data = pair_data(LinearRankSVM(), None, None, None, chosen=A, rejected=B, groups=prompt,
                     **NOTHING)  # fmt: skip
    groups = connected_groups(data)
    assert groups.n_queries == 30
    assert (groups.index[:90] == np.repeat(np.arange(30), 3)).all()
    assert (groups.index[90:] == groups.index[:90]).all()
    weight = np.where(np.arange(90) % 3 == 0, 4.0, 1.0)
    mean = LinearRankSVM(reduction="query_mean", tol=1e-8, scaling=None).fit_pairs(
        chosen=A, rejected=B, weight=weight, groups=prompt
    )
    same = by_rows(
        LinearRankSVM(reduction="query_mean", tol=1e-8, scaling=None),
        A, B, weight=weight, qid=np.concatenate([prompt, prompt]),
    )  # fmt: skip
    assert mean.objective_ == pytest.approx(same.objective_, rel=1e-7)
    assert mean._facts["pair_probability"]["slope"] == pytest.approx(
        same._facts["pair_probability"]["slope"], rel=0.05
    )
    tuned = LinearRankSVMCV([0.1, 1.0, 10.0], cv=3).fit_pairs(chosen=A, rejected=B, groups=prompt)
    rows = LinearRankSVMCV([0.1, 1.0, 10.0], cv=3)
    by_rows(rows, A, B, qid=np.concatenate([prompt, prompt]))
    assert tuned.best_score_ == rows.best_score_
    np.testing.assert_allclose(
        tuned.cv_results_["mean_test_score"], rows.cv_results_["mean_test_score"]
    )


@pytest.mark.filterwarnings("ignore:.*of the grid")
@pytest.mark.parametrize("search", [LinearRankSVMCV, KernelRankSVMCV])
def test_searches(search) -> None:
    A, B = answers(60)
    options = {} if search is LinearRankSVMCV else {"gammas": [0.1, 0.5]}
    model = search([0.5, 5.0, 50.0], cv=3, **options).fit_pairs(chosen=A, rejected=B)
    assert model.metric_ == "pair_accuracy"
    assert model.best_score_ > 0.7
    assert model.predict_pair_proba(A, B).shape == (60,)
    held_out = search([0.5, 5.0, 50.0], **options).fit_pairs(
        chosen=A[:40], rejected=B[:40], validation=(A[40:], B[40:]), calibrate=False
    )
    score = held_out.score_pairs(chosen=A[40:], rejected=B[40:])
    assert held_out.best_score_ == pytest.approx(score)  # both are of the model of all pairs


def test_ties_as_matrices() -> None:
    A, B = answers(60)
    C, D = answers(20, seed=5)
    weight = np.linspace(0.5, 2.0, 20)
    X = np.concatenate([A, B, C, D])
    rows = LinearRankSVM(tol=1e-8, scaling=None).fit_pairs(
        X, np.arange(60), 60 + np.arange(60),
        ties=(120 + np.arange(20), 140 + np.arange(20), weight),
    )  # fmt: skip
    ties = LinearRankSVM(tol=1e-8, scaling=None).fit_pairs(
        chosen=A, rejected=B, ties=(C, D, weight)
    )
    assert ties.objective_ == pytest.approx(rows.objective_, rel=1e-7)
    assert ties.n_pairs_ == rows.n_pairs_ == 80
    D = D.copy()
    D[3] = C[3]  # two equal answers are a tie like any other
    C[4] = A[0]
    equal = LinearRankSVM().fit_pairs(chosen=A, rejected=B, ties=(C, D))
    assert equal.n_pairs_ == 80
    grouped = LinearRankSVM().fit_pairs(
        chosen=A, rejected=B, groups=np.arange(60) // 2, ties=(C, D, None, np.arange(20))
    )
    assert grouped._facts["n_queries"] == 30
    assert grouped._facts["explicit_ties"] == 20


A2, B2 = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0.0, 1.0], [2.0, 2.0]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"chosen": A2}, "got chosen without rejected. Give either X, better and worse"),
        ({"rejected": A2}, "got rejected without chosen"),
        ({}, "X and better and worse missing"),
        ({"X": A2, "better": [0]}, "worse missing"),
        ({"X": A2, "chosen": A2, "rejected": B2}, "got pairs in two forms: X, and chosen"),
        ({"chosen": A2, "rejected": B2, "y": [1, 0]}, "y is about the rows of X"),
        ({"chosen": A2, "rejected": B2, "qid": [1, 0]}, "groups= for their queries"),
        ({"chosen": A2, "rejected": B2[:1]}, "one row per pair each; got 2 and 1 rows"),
        ({"chosen": A2, "rejected": B2[:, :1]}, "rejected: it has other features than chosen"),
        ({"chosen": A2, "rejected": [[1.0, np.nan], [1, 2]]}, "rejected: .*NaN"),
        ({"chosen": [1.0, 2.0], "rejected": B2}, "chosen: "),
        ({"chosen": A2, "rejected": A2}, "2 of 2 pairs have the same features"),
        ({"chosen": A2, "rejected": B2, "weight": [1.0]}, "weight has 1 values for 2 pairs"),
        ({"chosen": A2, "rejected": B2, "groups": [1]}, "groups"),
        ({"chosen": A2, "rejected": B2, "groups": [1, 2], "ties": (A2, B2)}, "ties have none"),
        ({"chosen": A2, "rejected": B2, "ties": (A2, B2, None, [1, 2])}, "pairs have none"),
        ({"chosen": A2, "rejected": B2, "ties": (A2,)}, r"ties must be a tuple \(A, B\)"),
        ({"chosen": A2, "rejected": B2, "ties": ([0], [1])}, "got one-dimensional arrays"),
        ({"X": A2, "better": [0], "worse": [1], "groups": [1]}, "query of each row of X: qid="),
        ({"chosen": A2, "rejected": B2, "calibrate": "yes"}, "calibrate must be True or False"),
    ],
)
@pytest.mark.parametrize("make", [LinearRankSVM, KernelRankSVM, LinearRankSVMCV])
def test_wrong_arguments_are_refused(make, arguments, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make().fit_pairs(**arguments)


def test_what_matrices_of_pairs_cannot_do() -> None:
    with pytest.raises(ValueError, match=r"fit_pairs\(K, better, worse\)"):
        KernelRankSVM(kernel="precomputed").fit_pairs(chosen=A2, rejected=B2)
    with pytest.raises(ValueError, match=r"fit_pairs\(X, better, worse, qid=qid\)"):
        LinearRankSVM(query_features=["rank"]).fit_pairs(chosen=A2, rejected=B2)
    frame = pd.DataFrame(A2, columns=["a", "b"])
    with pytest.raises(ValueError, match="rejected: "):
        LinearRankSVM().fit_pairs(chosen=frame, rejected=frame.rename(columns={"b": "c"}))
    model = LinearRankSVM().fit_pairs(chosen=A2, rejected=B2)
    with pytest.raises(ValueError, match="got chosen without rejected"):
        model.score_pairs(chosen=A2)
