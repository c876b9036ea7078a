"""A sparse matrix whose arrays do not fit together is refused at every door, and ends no process.

Every test runs its doors in a process of its own: what it is about used to be a segmentation fault.
"""

from __future__ import annotations

import io
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from ranksvm import KernelRankSVM, LinearRankSVM
from ranksvm._sparse import check_structure
from ranksvm.data import save_letor

# What is broken, and how; each starts from a new matrix X of shape (40, 6).
COMPRESSED = {
    "beyond the width": "X.indices[3] = 10**8",
    "negative": "X.indices[3] = -10**8",
    "indptr decreases": "X.indptr[2] = 10**7",
    "indptr beyond the data": "X.indptr[-1] = 10**9",
    "indptr begins late": "X.indptr[0] = 1",
    "indptr too short": "X.indptr = X.indptr[:-3]",
    "indices too short": "X.indices = X.indices[:5]",
    "data too short": "X.data = X.data[:5]",
    "indices are fractions": "X.indices = X.indices + 0.5",
}
COORDINATES = {
    "column beyond": "X.coords = (X.row, X.col + 10**8)",
    "row negative": "X.coords = (X.row - 10**8, X.col)",
    "rows too few": "X.coords = (X.row[:3], X.col)",
}
OTHERS = {
    "bsr": ["X.indices[0] = 10**8", "X.indptr[1] = 10**8", "X.data = X.data[:2]"],
    "lil": ["X.rows[3], X.data[3] = [10**8], [1.0]", "X.rows[3] = [0, 1, 2, 3, 4]"],
    "dia": ["X.offsets = np.append(X.offsets, 3)", "X.data = X.data[:1]"],
}
BREAKS = [
    *((form, line) for form in ("csr", "csc") for line in COMPRESSED.values()),
    *(("coo", line) for line in COORDINATES.values()),
    *((form, line) for form, lines in OTHERS.items() for line in lines),
]

SCRIPT = """
import io, sys
import numpy as np
import scipy.sparse as sp
from ranksvm import *
from ranksvm.data import save_letor
from ranksvm.kernel_approximation import Nystroem, RandomFourier
from ranksvm.model_selection import query_train_test_split

rng = np.random.default_rng(0)
D, y = rng.random((40, 6)), rng.integers(0, 3, 40)
D[D < 0.5] = 0.0
qid = np.repeat(np.arange(8), 5)
linear = LinearRankSVM().fit(D, y, qid)
kernel = KernelRankSVM().fit(D, y, qid)
nystroem = Nystroem(n_components=5).fit(D)
fourier = RandomFourier(n_components=5).fit(D)
doors = {
    "linear fit": lambda X: LinearRankSVM().fit(X, y, qid),
    "linear pairs": lambda X: LinearRankSVM().fit_pairs(X, [0, 5], [1, 6]),
    "linear predict": lambda X: linear.predict(X),
    "linear rank": lambda X: linear.rank(X, qid),
    "linear score": lambda X: linear.score(X, y, qid),
    "linear explain": lambda X: linear.explain(X, 0, 1),
    "linear score_pairs": lambda X: linear.score_pairs(X, [0], [1]),
    "kernel fit": lambda X: KernelRankSVM().fit(X, y, qid),
    "kernel pairs": lambda X: KernelRankSVM().fit_pairs(X, [0, 5], [1, 6]),
    "kernel predict": lambda X: kernel.predict(X),
    "kernel explain": lambda X: kernel.explain(X, 0, 1),
    "approximate fit": lambda X: KernelRankSVM(
        approximation="nystroem", n_components=5).fit(X, y, qid),
    "factorized fit": lambda X: FactorizedRankSVM(n_factors=2).fit(X, y, qid),
    "factorized eval_set": lambda X: FactorizedRankSVM(n_factors=2).fit(
        D, y, qid, eval_set=(X, y, qid)),
    "search": lambda X: LinearRankSVMCV(Cs=[1.0, 2.0], cv=2).fit(X, y, qid),
    "search validation": lambda X: LinearRankSVMCV(Cs=[1.0]).fit(D, y, qid, validation=(X, y, qid)),
    "kernel search": lambda X: KernelRankSVMCV(Cs=[1.0], gammas=[1.0], cv=2).fit(X, y, qid),
    "nystroem fit": lambda X: Nystroem(n_components=5).fit(X),
    "nystroem transform": lambda X: nystroem.transform(X),
    "fourier fit": lambda X: RandomFourier(n_components=5).fit(X),
    "fourier transform": lambda X: fourier.transform(X),
    "save": lambda X: save_letor(io.BytesIO(), X, y, qid),
    "split": lambda X: query_train_test_split(X, qid=qid),
}
for form, line in eval(sys.stdin.read()):
    for name, door in doors.items():
        X = sp.bsr_array(D, blocksize=(2, 3)) if form == "bsr" else sp.csr_array(D).asformat(form)
        exec(line)
        try:
            door(X)
        except ValueError as error:
            assert "broken sparse matrix" in str(error), (form, line, name, error)
            assert "Rebuild it" in str(error)
        else:
            raise AssertionError(f"{name} took {form} after {line}")
print("done")
"""


def test_every_door_refuses_what_is_broken() -> None:
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=repr(BREAKS), capture_output=True, text=True
    )
    assert (process.returncode, process.stdout) == (0, "done\n"), process.stderr


def text_like() -> sp.csr_array:
    X = sp.random_array((40, 6), density=0.4, rng=np.random.default_rng(0), format="csr")
    return sp.csr_array(X)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "lil", "dok", "dia"])
def test_every_format_is_read(form: str) -> None:
    X = text_like()
    y = np.arange(40) % 3
    for model in (
        LinearRankSVM(tol=1e-10, scaling=None),
        KernelRankSVM(gamma=1.0, tol=1e-10, scaling=None),
    ):
        model.fit(X.toarray(), y)
        expected = model.predict(X.toarray())
        np.testing.assert_allclose(model.predict(X.asformat(form)), expected, atol=1e-12)
        again = type(model)(**model.get_params()).fit(X.asformat(form), y)
        np.testing.assert_allclose(again.predict(X), expected, atol=1e-4)


@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize("kind", ["int8", "int16", "uint16", "uint32", "int64", "uint64", ">i4"])
def test_indices_of_unusual_types_are_read(form: str, kind: str) -> None:
    X = text_like().asformat(form)
    y = np.arange(40) % 3
    model, kernel = (
        LinearRankSVM(scaling=None).fit(X, y),
        KernelRankSVM(gamma=1.0, scaling=None).fit(X, y),
    )
    expected, by_kernel = model.predict(X), kernel.predict(X)
    odd = X.copy()
    odd.indices = odd.indices.astype(kind)
    np.testing.assert_array_equal(model.predict(odd), expected)
    odd.indptr = odd.indptr.astype(kind)
    np.testing.assert_array_equal(model.predict(odd), expected)
    np.testing.assert_array_equal(kernel.predict(odd), by_kernel)


def test_what_is_legal_passes_as_it_is() -> None:
    """Unsorted and repeated entries, no entries at all."""
    unsorted = sp.csr_array((np.ones(4), np.array([2, 0, 1, 1]), np.array([0, 2, 4])), (2, 3))
    assert check_structure(unsorted) is unsorted
    for empty in (sp.csr_array((0, 3)), sp.csc_array((3, 0)), sp.coo_array((2, 2))):
        assert check_structure(empty) is empty
    dense = np.eye(3)
    assert check_structure(dense) is dense


@pytest.mark.parametrize("form", ["csr", "csc", "bsr"])
@pytest.mark.parametrize("rest", [9.0, np.nan])
def test_unused_space_behind_the_last_entry_is_ignored(form: str, rest: float) -> None:
    X = text_like().asformat(form)
    y = np.arange(40) % 3
    roomy = X.copy()
    roomy.data = np.append(X.data, np.full_like(X.data[:1], rest), axis=0)
    roomy.indices = np.append(X.indices, np.int32(10**6))
    checked = check_structure(roomy)
    assert len(checked.data) == len(checked.indices) == len(X.data)
    np.testing.assert_array_equal(checked.toarray(), X.toarray())
    assert len(roomy.data) == len(X.data) + 1  # the caller's matrix is left as it is
    for model in (LinearRankSVM(scaling=None), KernelRankSVM(gamma=1.0, scaling=None)):
        expected = model.fit(X, y).predict(X)
        np.testing.assert_array_equal(model.predict(roomy), expected)
        np.testing.assert_array_equal(model.fit(roomy, y).predict(X), expected)
    texts = io.BytesIO(), io.BytesIO()
    for text, matrix in zip(texts, (X, roomy), strict=True):
        save_letor(text, matrix, y)
    assert texts[0].getvalue() == texts[1].getvalue()


def test_a_dict_of_keys_with_a_row_too_many() -> None:
    X = text_like().todok()
    X._dict[10**8, 3] = 1.0
    with pytest.raises(ValueError, match=r"broken sparse matrix.*is outside"):
        LinearRankSVM(scaling=None).fit(X, np.arange(40))


def test_complex_entries_are_refused() -> None:
    with pytest.raises(ValueError, match="X must hold real numbers; got a sparse matrix of dtype"):
        LinearRankSVM(scaling=None).fit(text_like() * 1j, np.arange(40))
