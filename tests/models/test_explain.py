"""Explanations: exact parts of a difference of scores, and their picture."""

from __future__ import annotations

import dataclasses
import math
import unicodedata

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.exceptions import NotFittedError

import ranksvm
from ranksvm import FactorizedRankSVM, KernelRankSVM, LinearRankSVM
from ranksvm.datasets import make_ranking
from ranksvm.learners import LinearModel
from ranksvm.models.explain import Explanation

EPS = np.finfo(np.float64).eps
NAMES = ["bm25", "length", "age", "clicks", "links", "title"]


@pytest.fixture(scope="module")
def sample():
    X, y, qid, _ = make_ranking(12, (3, 7), 6, random_state=1)
    X = X.copy()
    X[np.abs(X) < 0.3] = 0.0  # so that sparse layouts have something to leave out
    return X, y, qid


@pytest.fixture(scope="module")
def linear(sample):
    return LinearRankSVM(scaling=None).fit(*sample)


def linear_model(coef):
    return LinearModel(coef=coef, params={}, facts={})


def check_exact(found: Explanation, scores, i, j, size):
    """Parts add up to the difference of scores that were computed elsewhere; ``size``: of terms."""
    error = 64 * EPS * (1.0 + size)
    assert found.scores == pytest.approx((scores[i], scores[j]), abs=error)
    assert found.difference == found.scores[0] - found.scores[1]
    assert math.fsum([*found.contributions, found.others]) == pytest.approx(
        found.difference, abs=error
    )


def check_order(found: Explanation):
    keys = [(-abs(c), k) for c, k in zip(found.contributions, found.index, strict=True)]
    assert keys == sorted(keys)
    assert len(set(found.index.tolist())) == len(found.index) == len(found.names)
    assert found.contributions.all()


LAYOUTS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "list": lambda X: X.tolist(),
    "csr_matrix": sp.csr_matrix,
    "csr_array": sp.csr_array,
    "csc_array": sp.csc_array,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_linear_contributions_are_those_of_the_definition(linear, sample, layout):
    X = sample[0]
    for i, j in [(0, 1), (5, 2), (len(X) - 1, 0)]:
        found = linear.explain(LAYOUTS[layout](X), i, j)
        expected = {k: w * (X[i, k] - X[j, k]) for k, w in enumerate(linear.coef_.tolist())}
        expected = {k: value for k, value in expected.items() if value != 0.0}
        assert (
            dict(zip(found.index.tolist(), found.contributions.tolist(), strict=True)) == expected
        )
        assert found.names == tuple(f"feature {k}" for k in found.index)
        assert found.part == "feature"
        assert found.items == (f"row {i}", f"row {j}")
        assert (found.others, found.n_others) == (0.0, 0)
        check_order(found)
        check_exact(found, linear.predict(X), i, j, np.abs(X * linear.coef_).sum(axis=1).max())


def test_the_other_way_round_all_signs_change(linear, sample):
    one, other = linear.explain(sample[0], 3, 4), linear.explain(sample[0], 4, 3)
    assert np.array_equal(one.contributions, -other.contributions)
    assert one.names == other.names
    assert one.difference == -other.difference


@given(
    X=hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=7),
        elements=st.sampled_from([0.0, -0.0, 1.0, -1.5, 1e-9, 3e8, 0.1]),
    ),
    data=st.data(),
)
def test_sparse_and_dense_say_the_same(X, data):
    numbers = st.floats(-1e3, 1e3, allow_subnormal=False)
    coef = data.draw(hnp.arrays(np.float64, X.shape[1], elements=numbers))
    i, j = data.draw(st.permutations(range(len(X))))[:2]
    dense = linear_model(coef).explain(X, i, j)
    check_order(dense)
    size = float(np.abs(coef * X[[i, j]]).sum())
    check_exact(dense, X @ coef, i, j, size)
    for layout in (sp.csr_array, sp.csc_matrix):
        sparse = linear_model(coef).explain(layout(X), i, j)
        assert sparse.names == dense.names
        assert np.array_equal(sparse.index, dense.index)
        assert np.array_equal(sparse.contributions, dense.contributions)


def test_sparse_rows_stay_sparse(monkeypatch):
    n_features = 200_000
    X = sp.random_array((50, n_features), density=1e-4, format="csr", rng=3)
    coef = np.random.default_rng(0).normal(size=n_features)
    expected = X.toarray() @ coef
    for kind in (sp.csr_array, sp.csr_matrix):
        monkeypatch.setattr(kind, "toarray", lambda *_, **__: pytest.fail("made dense"))
        monkeypatch.setattr(kind, "todense", lambda *_, **__: pytest.fail("made dense"))
    found = linear_model(coef).explain(X, 7, 30)
    assert len(found.names) < 100
    check_exact(found, expected, 7, 30, 100.0)


def test_entries_that_stand_twice_add_up():
    X = sp.csr_matrix(
        (np.array([1.0, 2.0, 4.0, 1.0]), np.array([2, 0, 2, 0]), np.array([0, 3, 4])), shape=(2, 3)
    )
    found = linear_model(np.array([10.0, 1.0, 1.0])).explain(X, 0, 1)
    assert found.index.tolist() == [0, 2]
    assert found.contributions.tolist() == [10.0, 5.0]
    assert found.scores == (25.0, 10.0)


def test_ties_are_sorted_by_index():
    X = np.array([[1.0, -2.0, 1.0, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
    found = linear_model(np.ones(5)).explain(X, 0, 1)
    assert found.index.tolist() == [1, 3, 0, 2]
    assert found.contributions.tolist() == [-2.0, 2.0, 1.0, 1.0]


def test_single_precision_is_explained_in_double(sample):
    X = sample[0].astype(np.float32)
    model = LinearRankSVM(scaling=None).fit(X, *sample[1:])
    found = model.explain(X, 2, 0)
    wide = X.astype(np.float64)
    expected = model.coef_ * (wide[2] - wide[0])
    assert np.array_equal(found.contributions, expected[found.index])


def test_names_of_frames(sample):
    X, y, qid = sample
    frame = pd.DataFrame(X, columns=NAMES).assign(query=qid)
    model = LinearRankSVM(scaling=None).fit(frame, y, qid="query")
    found = model.explain(frame, 0, 2)
    assert found.names == tuple(NAMES[k] for k in found.index)
    assert model.explain(pl.from_pandas(frame), 0, 2).names == found.names
    with pytest.raises(ValueError, match="feature names"):
        model.explain(frame[["query", *NAMES[::-1]]], 0, 2)


# --- Kernels -------------------------------------------------------------------------------------


def rbf(X, Z, gamma):
    return np.exp(-gamma * ((X[:, None, :] - Z[None, :, :]) ** 2).sum(axis=2))


VALUES = {
    "rbf": lambda X, Z, m: rbf(X, Z, m.gamma_),
    "laplacian": lambda X, Z, m: np.exp(
        -m.gamma_ * np.abs(X[:, None, :] - Z[None, :, :]).sum(axis=2)
    ),
    "poly": lambda X, Z, m: (m.gamma_ * (X @ Z.T) + m.coef0) ** m.degree,
    "linear": lambda X, Z, m: X @ Z.T,
}


@pytest.mark.parametrize("layout", ["C", "csr_array", "csc_array"])
@pytest.mark.parametrize("kernel", VALUES)
def test_support_items_explain_an_exact_kernel(sample, kernel, layout):
    X, y, qid = sample
    model = KernelRankSVM(kernel=kernel, degree=2, scaling=None).fit(X, y, qid)
    found = model.explain(LAYOUTS[layout](X), 1, 9)
    values = VALUES[kernel](X, X, model)
    beta = np.zeros(len(X))
    beta[model.support_] = model.dual_coef_
    expected = beta * (values[1] - values[9])
    assert found.part == "support item"
    assert set(found.index.tolist()) <= set(model.support_.tolist())
    assert found.names == tuple(f"training item {k}" for k in found.index)
    size = np.abs(beta * values).sum(axis=1).max()
    left_out = np.delete(np.arange(len(X)), found.index)
    assert np.allclose(found.contributions, expected[found.index], rtol=0, atol=1e-13 * size)
    assert np.allclose(expected[left_out], 0.0, rtol=0, atol=1e-13 * size)
    check_order(found)
    check_exact(found, model.predict(X), 1, 9, 10 * size)


@pytest.mark.parametrize("sparse", [False, True])
def test_landmarks_explain_nystroem_features(sample, sparse):
    X, y, qid = sample
    data = sp.csr_array(X) if sparse else X
    model = KernelRankSVM(approximation="nystroem", n_components=8, random_state=0, scaling=None)
    model.fit(data, y, qid)
    points = model.components_.toarray() if sparse else model.components_
    expected = model.coef_ * (rbf(X, points, model.gamma_)[4] - rbf(X, points, model.gamma_)[0])
    found = model.explain(data, 4, 0)
    assert found.part == "landmark"
    assert found.names == tuple(f"landmark {k}" for k in found.index)
    size = np.abs(model.coef_).sum()
    assert np.allclose(found.contributions, expected[found.index], rtol=0, atol=1e-12 * size)
    check_order(found)
    check_exact(found, model.predict(data), 4, 0, 10 * size)


def test_random_features_explain_themselves(sample):
    X, y, qid = sample
    model = KernelRankSVM(
        approximation="fourier", n_components=15, random_state=0, scaling=None
    ).fit(X, y, qid)
    angles = X @ model.components_.T + model.random_offset_
    expected = model.coef_ * np.sqrt(2 / 15) * (np.cos(angles[3]) - np.cos(angles[2]))
    found = model.explain(X, 3, 2)
    assert found.part == "random feature"
    assert found.names == tuple(f"random feature {k}" for k in found.index)
    assert np.allclose(found.contributions, expected[found.index], rtol=1e-10, atol=1e-12)
    check_order(found)
    check_exact(found, model.predict(X), 3, 2, 10 * np.abs(model.coef_).sum())


@pytest.mark.parametrize("layout", ["C", "csr_array"])
def test_precomputed_and_callable_kernels(sample, layout):
    X, y, qid = sample
    K = rbf(X, X, 0.2)
    exact = KernelRankSVM(gamma=0.2, tol=1e-8, scaling=None).fit(X, y, qid).explain(X, 6, 1)
    given_values = KernelRankSVM(kernel="precomputed", tol=1e-8, scaling=None).fit(K, y, qid)
    found = given_values.explain(LAYOUTS[layout](K), 6, 1)
    called = KernelRankSVM(kernel=lambda A, B: rbf(A, B, 0.2), tol=1e-8, scaling=None).fit(
        X, y, qid
    )
    for other in (found, called.explain(X, 6, 1)):
        assert other.part == "support item"
        check_order(other)
        beta = dict(zip(exact.index.tolist(), exact.contributions.tolist(), strict=True))
        ours = [beta.get(k, 0.0) for k in other.index.tolist()]
        assert np.allclose(other.contributions, ours, rtol=0, atol=1e-3)
    check_exact(found, given_values.predict(K), 6, 1, 10 * np.abs(given_values.dual_coef_).sum())


@pytest.mark.parametrize(
    "model",
    [
        LinearRankSVM(scaling=None),
        KernelRankSVM(scaling=None),
        KernelRankSVM(approximation="nystroem", n_components=9, random_state=0, scaling=None),
        FactorizedRankSVM(3, random_state=0, scaling=None),
    ],
)
def test_a_loaded_model_explains_as_the_saved_one(sample, tmp_path, model):
    model.fit(*sample)
    model.save(tmp_path / "m.safetensors")
    one = model.explain(sample[0], 0, 1)
    other = ranksvm.load(tmp_path / "m.safetensors").explain(sample[0], 0, 1)
    assert str(one) == str(other)
    assert np.array_equal(one.contributions, other.contributions)
    check_exact(one, model.predict(sample[0]), 0, 1, 100.0)


# --- What is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [LinearRankSVM, KernelRankSVM])
@pytest.mark.parametrize(
    ("i", "j", "message"),
    [
        (0.0, 1, r"^i must be a row number of X, an integer; got 0\.0$"),
        (0, "1", r"^j must be a row number of X, an integer; got '1'$"),
        (True, 0, r"^i must be a row number of X, an integer; got True$"),
        (0, None, r"^j must be a row number"),
        (-1, 0, r"^i must be a row number of X, from 0 to \d+; got -1$"),
        (0, 10**6, r"^j must be a row number of X, from 0 to \d+; got 1000000$"),
        (3, 3, r"^i and j are the same item, row 3: .* Pass two rows\.$"),
        (np.int64(3), 3, r"^i and j are the same item, row 3"),
    ],
)
def test_wrong_rows(sample, kind, i, j, message):
    with pytest.raises(ValueError, match=message):
        kind().fit(*sample).explain(sample[0], i, j)


def test_integers_of_numpy_are_row_numbers(linear, sample):
    found = linear.explain(sample[0], np.int32(1), np.uint8(0))
    assert np.array_equal(found.contributions, linear.explain(sample[0], 1, 0).contributions)


def test_before_fit_and_with_other_features(linear, sample):
    with pytest.raises(NotFittedError):
        LinearRankSVM(scaling=None).explain(sample[0], 0, 1)
    with pytest.raises(ValueError, match="5 features"):
        linear.explain(sample[0][:, :5], 0, 1)
    with pytest.raises(ValueError, match="NaN"):
        linear.explain(np.full((2, 6), np.nan), 0, 1)


def test_overflow_is_refused():
    X = np.array([[1e308, 1.0], [-1e308, 0.0]])
    with pytest.raises(OverflowError, match="Scale the features down"):
        linear_model(np.ones(2)).explain(X, 0, 1)


# --- top and the picture -------------------------------------------------------------------------


def made(values, names=None, items=("a", "b"), scores=None):
    names = tuple(names or (f"n{k}" for k in range(len(values))))
    total = math.fsum(values)
    return Explanation(
        part="feature",
        names=names,
        index=np.arange(len(values)),
        contributions=np.array(values, dtype=np.float64),
        difference=total,
        scores=scores or (total, 0.0),
        items=items,
    )


def test_top_keeps_the_sum():
    found = made([8.0, -4.0, 2.0, -1.0, 0.5])
    two = found.top(2)
    assert two.names == ("n0", "n1")
    assert two.index.tolist() == [0, 1]
    assert (two.others, two.n_others) == (1.5, 3)
    one = two.top(1)
    assert (one.others, one.n_others) == (-2.5, 4)
    assert (found.top(0).others, found.top(0).n_others) == (5.5, 5)
    assert found.top(5) is found
    assert found.top(99) is found
    assert (found.others, found.n_others) == (0.0, 0)
    for n in (-1, 1.0, True, "2"):
        with pytest.raises(ValueError, match="n must be a non-negative integer"):
            found.top(n)


def test_an_explanation_cannot_be_changed(linear, sample):
    found = linear.explain(sample[0], 0, 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.difference = 0.0
    assert repr(found) == (
        f"<Explanation: row 0 against row 1, difference {found.difference:.6g}, "
        f"{len(found.names)} parts (feature)>"
    )


def test_the_picture():
    found = made([4.0, -2.0, 1.0, 0.5], ["bm25", "length", "age", "x"], ("row 0", "row 3"))
    assert found.top(3).picture(45, encoding="utf-8").splitlines() == [
        "row 0 is above row 3:",
        "3.5 against 0, difference 3.5",
        "",
        "                    row 3 up │ row 0 up",
        "bm25       +4                │██████████████",
        "length     -2         ███████│",
        "age        +1                │███▌",
        "1 other  +0.5                │██",
        "sum      +3.5",
    ]
    assert found.picture(51).splitlines()[0] == (
        "row 0 is above row 3: 3.5 against 0, difference 3.5"
    )
    assert found.picture(45, encoding="ascii").splitlines()[3:] == [
        "                    row 3 up | row 0 up",
        "bm25      +4                 |###############",
        "length    -2         ########|",
        "age       +1                 |####",
        "x       +0.5                 |##",
        "sum     +3.5",
    ]


def columns(line: str) -> int:
    return len(line) + sum(unicodedata.east_asian_width(sign) == "W" for sign in line)


@pytest.mark.parametrize(
    ("items", "width", "title", "sides"),
    [
        (("row 0", "row 1"), 80, "row 0 is above row 1", "row 1 up │ row 0 up"),
        (("GX029-35-5894638", "GX029-35-5894639"), 50, "GX029-35-5894638 is above GX029-35-5894639",
         "…29-35-5894639 up │ …29-35-5894638 up"),
        (("GX029-35-5894638", "GX029-35-5894639"), 40, "…29-35-5894638 is above …29-35-5894639",
         "…-5894639 up │ …-5894638 up"),
        (("a" * 40 + "xb" + "c" * 40, "a" * 40 + "yb" + "c" * 40), 45,
         "…xbccccccccccccc… is above …ybccccccccccccc…", "…ybcccccccc… up │ …xbcccccccc… up"),
        (("a" * 40 + "b", "a" * 41 + "b"), 40, "…b is above …ab", "…ab up │ …b up"),
        (("long" * 20, "short"), 50, "longlonglonglonglonglonglonglongl… is above short",
         "short up │ longlonglongl… up"),
        (("same", "same"), 60, "same is above same", "j up │ i up"),
        (("漢" * 30 + "字", "漢" * 30 + "山"), 40, "…漢漢漢漢漢字 is above …漢漢漢漢漢山",
         "…漢漢漢山 up │ …漢漢漢字 up"),
    ],
)  # fmt: skip
def test_two_items_can_be_told_apart(items, width, title, sides):
    lines = made([1.5, -1.0], ["name", "n"], items).picture(width, encoding="utf-8").splitlines()
    assert all(columns(line) <= width for line in lines)
    assert lines[0].split(":")[0] == title
    assert lines[lines.index("") + 1].strip() == sides


def test_narrow_sides_have_short_names():
    found = made([1.234e300, -1.0], ["n" * 30, "b"], ("document 17", "document 18"))
    lines = found.picture(40, encoding="utf-8").splitlines()
    assert lines[:2] == ["document 17 is above document 18:", "1.234e+300 against 0, difference"]
    assert lines[4].strip() == "j up │ i up"
    assert all(len(line) <= 40 for line in lines)


@given(
    values=st.lists(
        st.floats(-1e6, 1e6, allow_subnormal=False).filter(bool), min_size=1, max_size=12
    ),
    name=st.text(max_size=70),
    items=st.tuples(*[st.text(st.sampled_from("ab-07é漢"), max_size=70)] * 2),
    width=st.integers(40, 130),
    encoding=st.sampled_from(["utf-8", "ascii", "latin-1", "cp1252", "no such encoding"]),
)
def test_pictures_fit_and_bars_are_in_proportion(values, name, items, width, encoding):
    values = sorted(values, key=lambda value: -abs(value))
    found = made(values, [name, *(f"n{k}" for k in range(1, len(values)))], items)
    lines = found.picture(width, encoding=encoding).splitlines()
    assert all(columns(line) <= width for line in lines)
    head = lines.index("")
    title, lines = " ".join(lines[:head]), lines[head - 1 :]
    assert title.endswith(f"{found.scores[0]:.6g} against 0, difference {found.scores[0]:.6g}")
    if encoding != "no such encoding":
        "\n".join(lines).encode(encoding)
    full, axis = ("█", "│") if encoding == "utf-8" else ("#", "|")
    assert len(lines) == len(values) + 4
    at = lines[2].rindex(axis, 0, len(lines[2]) - 4)
    sides = lines[2][:at].strip(), lines[2][at + 1 :].strip()
    assert sides[0] != sides[1]
    middle = columns(lines[2][:at])
    longest = max(line.count(full) for line in lines[3:-1])
    for value, line in zip(values[1:], lines[4:-1], strict=True):  # names of no strange width
        assert line[middle] == axis
        assert line.split()[1] == f"{value:+.4g}"
        left, right = line[:middle].count(full), line[middle + 1 :].count(full)
        assert (left if value > 0 else right) == 0
        exact = longest * abs(value / values[0])
        assert abs(left + right - exact) <= 1.5
    assert lines[-1].split() == ["sum", f"{math.fsum(values):+.4g}"]


def test_names_cannot_move_the_cursor_and_are_cut():
    names = ["\x1b[2Jgone", "a\nb", "\udc80", "x" * 300, "漢字" * 30, "é" * 3]
    lines = made([6.0, 5.0, 4.0, 3.0, 2.0, 1.0], names).picture(60, encoding="utf-8").splitlines()
    assert len(lines) == 10
    assert lines[3].startswith("\\x1b[2Jgone ")
    assert lines[4].startswith("a\\nb ")
    assert lines[5].startswith("\\udc80 ")
    assert lines[6].startswith("x" * 19 + "…  ")
    assert lines[7].startswith("漢字漢字漢字漢字漢…  ")  # two columns each
    assert lines[8].startswith("ééé ")
    plain = made([1.0], ["é漢"]).picture(60, encoding="latin-1").splitlines()
    assert plain[3].startswith("é\\u6f22 ")


def test_who_is_above_whom():
    for scores, word in (((2.0, 1.0), "above"), ((1.0, 2.0), "below"), ((1.0, 1.0), "level with")):
        title = made([1.0], scores=scores).picture().splitlines()[0]
        assert title.startswith(f"a is {word} b: ")


def test_equal_items_have_nothing_to_explain(linear):
    found = linear.explain(np.ones((2, 6)), 0, 1)
    assert found.names == ()
    assert found.difference == 0.0
    lines = str(found).splitlines()
    assert lines[0].startswith("row 0 is level with row 1")
    assert lines[-1].split() == ["sum", "+0"]


def test_str_shows_the_largest_parts():
    found = made([1.0 / (k + 1) for k in range(50)])
    lines = str(found).splitlines()
    assert len(lines) == 3 + 20 + 2
    assert lines[-2].startswith("30 others")
    with pytest.raises(ValueError, match="width must be a positive integer"):
        found.picture(0)


def test_str_follows_standard_output(monkeypatch):
    class Terminal:
        encoding = "ascii"

    found = made([2.0, -1.0])
    assert "█" in found.picture(encoding="utf-8")
    monkeypatch.setattr("sys.stdout", Terminal())
    text = str(found)
    monkeypatch.undo()
    assert text.isascii()
    assert "#" in text
