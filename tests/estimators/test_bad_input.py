"""What a user can get wrong: an error that says what was got and what to do, or a right answer.

Each test looks for the parts of the message that help.
"""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from ranksvm import LinearRankSVM
from ranksvm.estimators.checks import check_finite_columns

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 4))
Y = np.repeat([0.0, 1.0, 2.0, 3.0], 5)
QID = np.tile(np.arange(4), 5)

LAYOUTS = {"C": np.array, "Fortran": np.asfortranarray, "CSR": sp.csr_array, "CSC": sp.csc_array}
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


def refused(*parts: str, error: type[Exception] = ValueError) -> Any:
    """Expect an error whose message has all parts, in this order."""
    return pytest.raises(error, match="(?s)" + ".*".join(map(re.escape, parts)))


def changed(array: np.ndarray, places: Any, value: float) -> np.ndarray:
    array = np.array(array, dtype=float)
    array[places] = value
    return array


# --- X -------------------------------------------------------------------------------------------


@every_layout
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nan_says_which_column_and_how_many(layout: str, dtype: type) -> None:
    bad = changed(X, ([1, 3, 7], 2), np.nan).astype(dtype)
    remedy = 'missing="impute"' if isinstance(LAYOUTS[layout](bad), np.ndarray) else "SimpleImputer"
    with refused("NaN or infinity in 1 of 4 columns", "column 2: 3 NaN", remedy):
        LinearRankSVM().fit(LAYOUTS[layout](bad), Y, QID)


@every_layout
@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinity_says_which_column_and_how_many(layout: str, value: float) -> None:
    bad = changed(changed(X, ([0, 5], 0), value), (9, 3), np.nan)
    with refused("in 2 of 4 columns", "column 0: 2 infinite", "column 3: 1 NaN"):
        LinearRankSVM().fit(LAYOUTS[layout](bad), Y, QID)


def test_nan_and_infinity_in_one_column() -> None:
    bad = changed(changed(X, (0, 1), np.inf), (1, 1), np.nan)
    bad[2, 1] = -np.inf  # infinities of both signs: their sum is NaN
    with refused("column 1: 1 NaN and 2 infinite"):
        LinearRankSVM().fit(bad, Y, QID)


def test_many_bad_columns_are_not_all_listed() -> None:
    bad = np.full((20, 12), np.nan)
    with refused("in 12 of 12 columns", "column 4: 20 NaN", "and 7 more columns"):
        LinearRankSVM().fit(bad, Y, QID)


def test_bad_columns_are_named_by_their_names() -> None:
    with refused("column 2 ('price'): 1 NaN"):
        check_finite_columns(changed(X, (0, 2), np.nan), ["a", "b", "price", "c"])


@every_layout
def test_nan_is_found_at_prediction_too(layout: str) -> None:
    model = LinearRankSVM().fit(X, Y, QID)
    bad = LAYOUTS[layout](changed(X, (4, 1), np.nan))
    for call in (model.predict, model.rank, lambda x: model.score(x, Y, QID)):
        with refused("column 1: 1 NaN"):
            call(bad)


@every_layout
def test_huge_but_finite_features_are_not_taken_for_infinite(layout: str) -> None:
    """Their sum overflows; none of them is infinite."""
    huge = np.where(RNG.random(X.shape) < 0.5, 1e308, 1.7e308)
    check_finite_columns(LAYOUTS[layout](huge), None)


def test_no_columns() -> None:
    with refused("0 feature(s) (shape=(20, 0))", "minimum of 1 is required"):
        LinearRankSVM().fit(np.empty((20, 0)), Y, QID)


def test_no_rows() -> None:
    with refused("0 sample(s) (shape=(0, 4))", "minimum of 1 is required"):
        LinearRankSVM().fit(np.empty((0, 4)), [])


def test_one_dimensional_features() -> None:
    with refused("Expected 2D array, got 1D array", "Reshape your data"):
        LinearRankSVM().fit(X[:, 0], Y, QID)


def test_features_that_are_no_numbers() -> None:
    with refused("could not convert string to float"):
        LinearRankSVM().fit([["a"], ["b"]], [0, 1])


def test_complex_features() -> None:
    with refused("Complex data not supported"):
        LinearRankSVM().fit(X * 1j, Y, QID)


def test_another_number_of_features_at_prediction() -> None:
    model = LinearRankSVM().fit(X, Y, QID)
    with refused("X has 3 features, but LinearRankSVM is expecting 4 features"):
        model.predict(X[:, :3])


@pytest.mark.parametrize("make", [sp.csr_array, sp.csc_array])
def test_a_broken_sparse_matrix(make) -> None:
    broken = make(X)
    broken.indices[3] = 1000
    with refused("broken sparse matrix", "indices must lie in 0 to", "Rebuild it"):
        LinearRankSVM().fit(broken, Y, QID)
    model = LinearRankSVM().fit(X, Y, QID)
    with refused("broken sparse matrix", "indices must lie in 0 to", "Rebuild it"):
        model.predict(broken)


def _set(matrix, **parts):
    for name, value in parts.items():
        setattr(matrix, name, value)
    return matrix


def _lil(columns):
    matrix = sp.lil_matrix(X)
    matrix.rows[0] = columns
    return matrix


def _dok(key):
    matrix = sp.dok_matrix(X.shape)
    matrix._dict[key] = 1.0
    return matrix


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: _set(sp.dia_matrix(X), offsets=np.arange(23) + 2**32), "offsets must fit into 32"),
        (lambda: _lil([0, 1, 2, 1.5]), "row 0 has columns that are not integers"),
        (lambda: _lil(None), "row 0 is not a list"),
        (lambda: _dok((2**40, 0)), "is outside"),
        (lambda: _dok((1.5, 0)), "not a pair of integers"),
        (lambda: _set(sp.csr_matrix(X), indices=[0] * X.size), "indices must be a one-dimensional"),
        (lambda: _set(sp.csr_matrix(X), data=np.ma.masked_array(X.ravel(), X.ravel() > 0)),
         "data is a masked array"),
        (lambda: _set(sp.csr_matrix(X), data=X.ravel().astype(str)), "data must be numbers"),
        (lambda: _set(sp.coo_matrix(X), data=np.ones((X.size, 1))), "each of one dimension"),
    ],
)  # fmt: skip
def test_other_broken_sparse_matrices(make, message: str) -> None:
    model = LinearRankSVM().fit(X, Y, QID)
    with refused("broken sparse matrix", message):
        model.predict(make())
    with refused("broken sparse matrix", message):
        LinearRankSVM().fit(make(), Y, QID)


def test_constant_and_zero_features_are_fine() -> None:
    constant = X.copy()
    constant[:, 1], constant[:, 2] = 7.0, 0.0
    model = LinearRankSVM().fit(constant, Y, QID)
    np.testing.assert_allclose(model.coef_[1:3], 0.0, atol=1e-12)
    # Nothing to tell the items apart: no model, and the loss says so.
    model = LinearRankSVM(10.0).fit(np.zeros((20, 4)), Y, QID)
    np.testing.assert_array_equal(model.coef_, np.zeros(4))
    assert model.objective_ == pytest.approx(10.0)
    assert model.score(X, Y, QID) == 0.5


# --- y -------------------------------------------------------------------------------------------


def test_missing_y() -> None:
    with refused("requires y to be passed", "None", "one label per item"):
        LinearRankSVM().fit(X, None)


@pytest.mark.parametrize("length", [19, 21, 0])
def test_y_of_another_length(length: int) -> None:
    with refused("inconsistent numbers of samples", "X has 20 rows", f"y has {length} values"):
        LinearRankSVM().fit(X, np.zeros(length), QID)


@pytest.mark.parametrize("labels", [["good", "bad"] * 10, np.array(["3", "x"] * 10, dtype=object)])
def test_y_that_is_not_numeric(labels) -> None:
    with refused(
        "y must hold real numbers",
        "Pass one numeric label per item",
        "larger is better",
    ):
        LinearRankSVM().fit(X, labels, QID)


def test_y_of_numbers_in_an_object_array_is_fine() -> None:
    expected = LinearRankSVM().fit(X, Y, QID)
    model = LinearRankSVM().fit(X, Y.astype(object), QID)
    np.testing.assert_array_equal(model.coef_, expected.coef_)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_y_with_nan_or_infinity_says_where(value: float) -> None:
    with refused(
        "y contains NaN or infinity in 2 of 20 rows", "first in row 6", "drop these items"
    ):
        LinearRankSVM().fit(X, changed(Y, [6, 11], value), QID)


def test_y_with_none() -> None:
    with refused(
        "y contains NaN or infinity in 10 of 20 rows", "first in row 0", "drop these items"
    ):
        LinearRankSVM().fit(X, [None, 1.0] * 10, QID)


def test_y_with_two_columns() -> None:
    with refused("y should be a 1d array", "(20, 2)"):
        LinearRankSVM().fit(X, np.column_stack([Y, Y]), QID)


def test_complex_y() -> None:
    with refused("y must hold real numbers", "complex128"):
        LinearRankSVM().fit(X, Y * 1j, QID)


# --- qid -----------------------------------------------------------------------------------------


def test_ids_of_another_length() -> None:
    with refused("qid must have one query id per row", "got 19 ids for 20 rows"):
        LinearRankSVM().fit(X, Y, qid=QID[:-1])
    with refused("group has 19 values for 20 rows", "sizes of queries", "their sum is 27"):
        LinearRankSVM().fit(X, Y, group=QID[:-1])


def test_query_sizes_instead_of_ids() -> None:
    with refused("got 3 ids for 20 rows", "look like query sizes", "np.repeat(np.arange(len(qid))"):
        LinearRankSVM().fit(X, Y, qid=[10, 4, 6])


def test_both_names_of_the_ids() -> None:
    with refused("qid and group", "only one"):
        LinearRankSVM().fit(X, Y, QID, group=QID)


def test_missing_ids() -> None:
    with refused("qid has a missing id in row 2", "Drop the rows"):
        LinearRankSVM().fit(X, Y, changed(QID, 2, np.nan))


def test_ids_of_another_length_at_score_and_rank() -> None:
    model = LinearRankSVM().fit(X, Y, QID)
    with refused("got 5 ids for 20 rows"):
        model.rank(X, QID[:5])
    with refused("got 5 ids for 20 rows"):
        model.score(X, Y, QID[:5])
    with refused("X has 20 rows", "y has 5 values"):
        model.score(X, Y[:5], QID)


# --- Nothing to learn from -----------------------------------------------------------------------


def test_a_single_item() -> None:
    with refused("no comparable pair", "1 sample", "two items of one query"):
        LinearRankSVM().fit(X[:1], Y[:1])


def test_one_level_everywhere() -> None:
    with refused("no comparable pair", "20 samples, 4 queries", "only one distinct label"):
        LinearRankSVM().fit(X, np.ones(20), QID)


def test_every_query_has_one_item() -> None:
    with refused("no comparable pair", "20 queries", "check the query ids and labels"):
        LinearRankSVM().fit(X, Y, np.arange(20))


def test_no_pair_at_score() -> None:
    model = LinearRankSVM().fit(X, Y, QID)
    with refused("has a comparable pair", "different labels"):
        model.score(X, np.ones(20), QID)


def test_two_items_are_enough() -> None:
    model = LinearRankSVM(0.5, reduction="sum", tol=1e-12, scaling=None).fit([[0.0], [1.0]], [0, 1])
    # F(w) = 1/2 w^2 + 1/2 max(0, 1 - w)^2 has its minimum 1/4 at w = 1/2.
    assert model.coef_[0] == pytest.approx(0.5, rel=1e-6)
    assert model.objective_ == pytest.approx(0.25, rel=1e-12)
    assert model.n_pairs_ == 1


# --- Weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_item_weights_that_are_no_weights(value: float) -> None:
    weight = changed(np.ones(20), [3, 8], value)
    with refused(
        "sample_weight must be finite and not negative", f"got {value} in row 3", "2 such"
    ):
        LinearRankSVM().fit(X, Y, QID, sample_weight=weight)


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_query_weights_that_are_no_weights(value: float) -> None:
    with refused("query_weight must be finite and not negative", f"got {value} in query 1"):
        LinearRankSVM().fit(X, Y, QID, query_weight=[1.0, value, 1.0, 1.0])


@pytest.mark.parametrize("name", ["sample_weight", "query_weight"])
def test_weights_that_are_all_zero(name: str) -> None:
    weight = np.zeros(20 if name == "sample_weight" else 4)
    with refused(f"{name} is zero everywhere", "nothing to learn from"):
        LinearRankSVM().fit(X, Y, QID, **{name: weight})


def test_weights_that_leave_no_pair() -> None:
    weight = (Y == 1.0).astype(float)  # one level of every query
    with refused("no comparable pair", "comparable pairs have weight zero"):
        LinearRankSVM().fit(X, Y, QID, sample_weight=weight)


def test_weights_of_another_length() -> None:
    with refused("sample_weight has 19 values for 20 items", "one weight per item"):
        LinearRankSVM().fit(X, Y, QID, sample_weight=np.ones(19))
    with refused(
        "query_weight has 5 values for 4 queries", "order in which the queries first appear"
    ):
        LinearRankSVM().fit(X, Y, QID, query_weight=np.ones(5))


def test_query_weights_by_id_with_ids_missing() -> None:
    with refused("no entry for 2 of 4 queries", "for example 1"):
        LinearRankSVM().fit(X, Y, QID, query_weight={0: 1.0, 2: 3.0})


@pytest.mark.parametrize("reduction", ["sum", "mean", "query_mean"])
def test_weights_so_large_that_pairs_overflow(reduction: str) -> None:
    """A pair weighs the product of both items' weights."""
    with pytest.raises((ValueError, OverflowError), match="weight"):
        LinearRankSVM(reduction=reduction).fit(X, Y, QID, sample_weight=np.full(20, 1e200))


def test_item_weights_at_score() -> None:
    model = LinearRankSVM().fit(X, Y, QID)
    with refused("sample_weight must be finite and not negative", "row 0"):
        model.score(X, Y, QID, sample_weight=changed(np.ones(20), 0, -1.0))
    with refused("sample_weight has 3 values for 20 items"):
        model.score(X, Y, QID, sample_weight=np.ones(3))


# --- Parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["C", "tol"])
@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf, "1", None, True, 1j, [1.0]])
def test_strength_and_tolerance_must_be_positive(name: str, value: Any) -> None:
    with refused(f"{name} must be a positive finite number", f"got {value!r}"):
        LinearRankSVM(**{name: value}).fit(X, Y, QID)


@pytest.mark.parametrize("value", [0, -1, 2.5, "10", None, True])
def test_max_iter_must_be_a_positive_integer(value: Any) -> None:
    with refused("max_iter must be a positive integer", f"got {value!r}"):
        LinearRankSVM(max_iter=value).fit(X, Y, QID)


@pytest.mark.parametrize("value", [0, 1.5, "all", True])
def test_n_jobs_must_be_an_integer_or_none(value: Any) -> None:
    with refused("n_jobs must be None or an integer other than 0", f"got {value!r}"):
        LinearRankSVM(n_jobs=value).fit(X, Y, QID)


OPTIONS = {
    "loss": ["squared_hinge", "hinge"],
    "reduction": ["sum", "mean", "query_mean"],
    "solver": ["auto", "newton", "smoothed_newton", "bundle"],
    "counting": ["auto", "tree", "direct", "joachims", "pairs"],
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("value", ["no such thing", None, 1, ["auto"]])
def test_unknown_options_list_the_valid_ones(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} must be one of") as caught:
        LinearRankSVM(**{name: value}).fit(X, Y, QID)
    message = str(caught.value)
    assert f"got {value!r}" in message
    for valid in OPTIONS[name]:
        assert repr(valid) in message


def test_newton_on_the_hinge_says_what_to_use() -> None:
    with refused(
        "solver='newton' does not work with loss='hinge'", "a loss with second derivatives",
        "solver='bundle' or 'smoothed_newton'", "loss='squared_hinge'",
    ):  # fmt: skip
        LinearRankSVM(loss="hinge", solver="newton").fit(X, Y, QID)


def test_smoothing_of_the_squared_hinge_says_what_to_use() -> None:
    with refused(
        "solver='smoothed_newton' does not work with loss='squared_hinge'",
        "solver='newton' or 'bundle'",
    ):  # fmt: skip
        LinearRankSVM(solver="smoothed_newton").fit(X, Y, QID)


# --- Overflow ------------------------------------------------------------------------------------

every_loss = pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])


@every_loss
@pytest.mark.parametrize("scale", [1e160, 1e200, 1e300])
def test_features_so_large_that_the_loss_overflows(loss: str, scale: float) -> None:
    with refused("too large", "Scale the features down", error=OverflowError):
        LinearRankSVM(loss=loss, scaling=None).fit(X * scale, Y, QID)


@every_loss
@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1e6, 1e100])
def test_features_of_any_other_size_are_fine(loss: str, scale: float) -> None:
    """Scaling X by a and C by 1 / a^2 scales the model by 1 / a: the same ranking."""
    expected = LinearRankSVM(50.0, loss=loss, tol=1e-9, scaling=None).fit(X, Y, QID)
    model = LinearRankSVM(50.0 / scale**2, loss=loss, tol=1e-9, scaling=None).fit(X * scale, Y, QID)
    np.testing.assert_allclose(model.coef_ * scale, expected.coef_, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(model.rank(X * scale, QID), expected.rank(X, QID))


@every_loss
def test_features_too_small_to_matter_are_fine(loss: str) -> None:
    model = LinearRankSVM(50.0, loss=loss, scaling=None).fit(X * 1e-200, Y, QID)
    np.testing.assert_allclose(model.coef_, 0.0, atol=1e-190)
    assert model.objective_ == pytest.approx(50.0)
    assert model.gap_ <= 1e-4 * model.objective_


@every_loss
def test_scores_at_the_start_so_large_that_the_loss_overflows(loss: str) -> None:
    model = LinearRankSVM(loss=loss, warm_start=True).fit(X, Y, QID)
    model.coef_ = np.full(4, 1e300)
    with refused("too large", "the scores reach", "Scale the features down", error=OverflowError):
        model.fit(X, Y, QID)


OVERFLOW = """
import numpy as np
from ranksvm import LinearRankSVM

rng = np.random.default_rng(0)
X, y = rng.normal(size=(10_000, 4)), rng.permutation(10_000)
model = LinearRankSVM(loss={loss!r}, warm_start=True, tol=0.5).fit(X, y)
model.coef_ = np.full(4, 1e300)
try:
    model.fit(X * 1e10, y)
except OverflowError as error:
    print(error)
"""


@every_loss
def test_scores_at_the_start_that_are_infinite(loss: str) -> None:
    """In a process of its own: infinite scores have no business in a sort."""
    code = OVERFLOW.format(loss=loss)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, f"ended with {run.returncode}: {run.stderr}"
    assert "too large" in run.stdout
    assert "Scale the features down" in run.stdout


@every_loss
def test_strength_so_large_that_the_objective_overflows(loss: str) -> None:
    with refused("too large", "smaller C", error=OverflowError):
        LinearRankSVM(C=1e308, loss=loss, reduction="sum").fit(X, Y, QID)


@pytest.mark.parametrize("method", ["rank", "score"])
def test_scores_that_overflow_have_no_order(method: str) -> None:
    """Infinite scores cannot be told apart: better no ranking than a wrong one."""
    model = LinearRankSVM().fit(X, Y, QID)
    model.coef_ = np.full(4, 1e200)
    items = np.array([[1.0], [3.0], [2.0]]) * np.full((3, 4), 1e200)
    with pytest.raises((ValueError, OverflowError), match=r"overflow|infinit|too large"):
        model.rank(items) if method == "rank" else model.score(items, [0, 2, 1], [0] * 3)


# --- Size ----------------------------------------------------------------------------------------


def test_64_bit_indices_of_a_sparse_matrix() -> None:
    """As SciPy makes them beyond 2^31 - 1 entries."""
    for make in (sp.csr_array, sp.csc_array):
        narrow, wide = make(X), make(X)
        wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
        expected = LinearRankSVM().fit(narrow, Y, QID)
        model = LinearRankSVM().fit(wide, Y, QID)
        np.testing.assert_array_equal(model.coef_, expected.coef_)
        np.testing.assert_array_equal(model.predict(wide), expected.predict(narrow))


def test_pair_counts_beyond_2_to_the_53_stay_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """134 million items would do; here the backend only says that there are so many."""
    from ranksvm.backends.native import NativeBackend

    counts = [2**53 + 1, 2**62, 2**62, 2**62]
    monkeypatch.setattr(NativeBackend, "pairs", property(lambda self: counts))
    model = LinearRankSVM().fit(X, Y, QID)
    assert model.n_pairs_ == sum(counts) > 2**63


def test_integer_utilities_beyond_float64_keep_their_order() -> None:
    """Nanosecond timestamps, say: float64 would make neighbours equal."""
    y = 2**60 + np.argsort(np.argsort(X[:, 0]))
    model = LinearRankSVM().fit(X, y)
    assert model.n_pairs_ == len(y) * (len(y) - 1) // 2
    np.testing.assert_array_equal(model.coef_, LinearRankSVM().fit(X, y - 2**60).coef_)


def test_absurd_number_of_threads() -> None:
    expected = LinearRankSVM(n_jobs=1).fit(X, Y, QID)
    np.testing.assert_array_equal(LinearRankSVM(n_jobs=2**40).fit(X, Y, QID).coef_, expected.coef_)


@pytest.mark.parametrize("name", ["sample_weight", "query_weight"])
@pytest.mark.parametrize(
    ("value", "says"), [(np.ones((3, 2)), "one-dimensional"), (["heavy"], "must be numbers")]
)
def test_weights_of_the_wrong_kind_are_named(name: str, value: object, says: str) -> None:
    with pytest.raises(ValueError, match=f"{name} .*{says}|{name} {says}"):
        LinearRankSVM().fit(X, Y, QID, **{name: value})


def test_strings_in_an_object_array_are_not_utilities() -> None:
    with pytest.raises(ValueError, match="y must hold real numbers"):
        LinearRankSVM().fit(X, np.array([str(v) for v in Y], dtype=object))


def test_weights_that_overflow_have_no_score() -> None:
    model = LinearRankSVM().fit(X, Y, QID)
    with pytest.raises(OverflowError, match="weights"):
        model.score(X, Y, QID, sample_weight=np.full(len(Y), 1e200))


def test_a_warning_that_is_an_error_leaves_a_whole_model() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 3)), columns=list("abc"))
    y = rng.normal(size=40)
    model = LinearRankSVM().fit(frame, y)
    model.set_params(max_iter=1, tol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ConvergenceWarning):
            model.fit(frame[["c", "b"]], y)
    assert model.feature_names_in_.tolist() == ["c", "b"]
    assert model.coef_.shape == (2,)
    np.testing.assert_allclose(model.predict(frame[["c", "b"]]), frame[["c", "b"]] @ model.coef_)


@pytest.mark.parametrize("weight", [np.array(["1"] * 4, dtype=object), ["1"] * 4])
def test_weights_that_are_text(weight: Any) -> None:
    with pytest.raises(ValueError, match="sample_weight must be numbers; got strings"):
        LinearRankSVM().fit(np.eye(4), np.arange(4), sample_weight=weight)
