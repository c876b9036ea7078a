"""The sets: imitations from :mod:`ranksvm.datasets`, and real ones where they are at hand.

A :class:`Task` is a set together with the strength of the loss.  The strengths are those of
Airola, Pahikkala & Salakoski, J(w) = (1/N) sum loss + lambda |w|^2 with lambda = 0.1 for cadata and
1e-5 for reuters; in our terms C = 1 / (2 lambda) over the mean of the N pairs, or
C = 1 / (2 lambda N) over their sum, which for reuters-like 512,000 is 3.8e-7.  Sets with queries
take C = 2^-10 over the sum.

The sets of the kernel machines take C over the sum as well, and the rbf kernel
exp(-gamma |x - z|^2): 2^-2 and gamma = 2^-5 for LETOR's shape, 2^-10 and 0.125 for cadata's, 2^-7
and 0.1 for MQ2008.
"""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import StandardScaler

from benchmarks.common import SEED, TOL, Array, FitResult, timed_fit
from ranksvm import LinearRankSVM
from ranksvm.backends.native import NativeBackend
from ranksvm.data.queries import QueryGroups
from ranksvm.datasets import make_cadata_like, make_letor_like, make_reuters_like
from ranksvm.pairs.oracle import LOSSES
from ranksvm.pairs.order import PairOrder

CADATA_LAMBDA = 0.1
REUTERS_LAMBDA = 1e-5
LETOR_C = 2.0**-10
LETOR_RBF = {"C": 2.0**-2, "gamma": 2.0**-5}
CADATA_RBF = {"C": 2.0**-10, "gamma": 0.125}
MQ2008_RBF = {"C": 2.0**-7, "gamma": 0.1}

# With this seed 1,017 queries have 41,829 items, nearest to MQ2007's 41,500 from above.
MQ2007_SEED = 1
# MSLR-WEB has 136 features and about 120 items a query.
MSLR_FEATURES, MSLR_ITEMS = 136, 120
MSLR_FACTORS = 12  # what the features have in common
# Held-out queries for each one to learn from.
HELD_OUT = 0.25

# Real sets of one file each, below the folder of the data.
FILES = {"cadata": "cadata/cadata.txt.gz", "reuters21578": "reuters21578/reuters.tsv.gz"}

# The real sets of the scaling experiments: most items to learn from, and others to test on.
LARGEST_REAL = 16_000
CADATA_TEST = 4_000
REUTERS_LIKE_TEST = 20_000

# Countings with a quadratic term are left out where one evaluation takes more elementary steps.
MOST_STEPS = 3e8


@dataclass(frozen=True, eq=False)
class Task:
    """A set to learn and the objective to learn it with.

    Attributes
    ----------
    name : str
    X, y, qid
        As for ``LinearRankSVM.fit``.
    C, reduction
        As for ``LinearRankSVM``.
    strength : str
        C in words.
    optimum : float or None
        A published optimum of the squared hinge.
    gamma : float or None
        Of the rbf kernel, where a kernel machine learns the set.
    """

    name: str
    X: Any
    y: Array
    qid: Any
    C: float
    reduction: str
    strength: str
    optimum: float | None = None
    gamma: float | None = None

    @property
    def n_items(self) -> int:
        return len(self.y)

    @cached_property
    def groups(self) -> QueryGroups:
        return QueryGroups.from_qid(self.qid, self.n_items)

    @cached_property
    def n_pairs(self) -> int:
        return sum(self.backend().pairs)

    @property
    def sum_C(self) -> float:
        """C over the plain sum of the pairs."""
        return self.C if self.reduction == "sum" else self.C / self.n_pairs

    @property
    def has_ties(self) -> bool:
        """Whether two items of one query have the same utility."""
        sizes = self.groups.sizes
        return self.n_pairs < int((sizes * (sizes - 1) // 2).sum())

    def backend(self, counting: str = "auto", threads: int = 1) -> NativeBackend:
        return NativeBackend(PairOrder(self.y, self.groups), counting=counting, n_threads=threads)

    def loss(self, loss: str = "squared_hinge", counting: str = "auto", threads: int = 1) -> Any:
        return LOSSES[loss](self.backend(counting, threads))

    def value(self, loss: str, coef: Array) -> float:
        """The objective at any coefficients, those of another program for example."""
        pairs: float = self.loss(loss).at(self.X @ coef).value
        return 0.5 * float(coef @ coef) + self.sum_C * pairs

    def fit(
        self, loss: str, *, threads: int = 1, stop_after: float = np.inf, **settings: Any
    ) -> FitResult:
        settings = {"scaling": None, "tol": TOL, "n_jobs": threads, **settings}
        model = LinearRankSVM(C=self.C, reduction=self.reduction, loss=loss, **settings)
        return timed_fit(model, self.X, self.y, self.qid, stop_after=stop_after)

    def lower_bound(self, loss: str) -> float:
        """A certified lower bound of the optimum, from a much more exact fit."""
        model = self.fit(loss, tol=0.01 * TOL, stop_after=30.0).model
        return model.objective_ - model.gap_


def _steps(task: Task, counting: str) -> float:
    """Elementary steps of one evaluation, up to a factor; 0 for the linearithmic countings."""
    if counting in ("auto", "tree"):
        return 0.0
    groups = task.groups
    sizes = groups.sizes.astype(float)
    if counting == "pairs":
        return float((sizes * sizes).sum())
    codes = np.unique(task.y, return_inverse=True)[1].astype(np.int64)
    levels_of = np.unique(groups.index * (codes.max() + 1) + codes) // (codes.max() + 1)
    levels = np.bincount(levels_of, minlength=len(sizes))
    return float((sizes * levels).sum())


def too_slow(task: Task, counting: str) -> str | None:
    """Why a counting is left out on a set, or None."""
    steps = _steps(task, counting)
    if steps <= MOST_STEPS:
        return None
    return f"counting={counting!r} on {task.name}: {steps:.1g} steps an evaluation"


def matrix_bytes(X: Any) -> int:
    """Bytes of the arrays that a matrix consists of."""
    if sp.issparse(X):
        return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)
    return int(X.nbytes)


def _mean_C(strength: float) -> dict[str, Any]:
    return {"C": 0.5 / strength, "reduction": "mean", "strength": f"lambda = {strength:g}"}


def _sum_C(C: float, gamma: float | None = None) -> dict[str, Any]:
    strength = f"C = 2^{np.log2(C):.0f}, sum" + ("" if gamma is None else f", gamma = {gamma:g}")
    return {"C": C, "reduction": "sum", "strength": strength, "gamma": gamma}


@lru_cache(maxsize=2)
def cadata_like(m: int) -> Task:
    X, y, qid, _ = make_cadata_like(m, random_state=SEED)
    return Task(f"cadata-like {m:,}", X, y, qid, **_mean_C(CADATA_LAMBDA))


@lru_cache(maxsize=1)
def reuters_like(m: int) -> Task:
    X, y, qid, _ = make_reuters_like(m, random_state=SEED)
    return Task(f"reuters-like {m:,}", X, y, qid, **_mean_C(REUTERS_LAMBDA))


@lru_cache(maxsize=1)
def letor_like(n_queries: int) -> Task:
    X, y, qid, _ = make_letor_like(n_queries, random_state=SEED)
    return Task(f"LETOR-like {n_queries:,} queries", X, y, qid, **_sum_C(LETOR_C))


@lru_cache(maxsize=2)
def mslr_like(n_queries: int, *, raw: bool = False) -> Task:
    """136 correlated features in queries of 120 items: standardised, or of scales 1e-3 to 1e7."""
    rng = np.random.default_rng(SEED)
    qid = np.repeat(np.arange(n_queries), MSLR_ITEMS)
    factors = rng.standard_normal((len(qid), MSLR_FACTORS))
    X = factors @ rng.standard_normal((MSLR_FACTORS, MSLR_FEATURES))
    X += rng.standard_normal(X.shape)
    X += rng.standard_normal((n_queries, MSLR_FEATURES))[qid]
    utility = X @ rng.standard_normal(MSLR_FEATURES)
    utility = utility / utility.std() + rng.standard_normal(len(qid))
    y = np.digitize(utility, (0.3, 1.0, 1.8, 2.5)).astype(np.float64)
    if raw:
        X *= 10.0 ** rng.uniform(-3.0, 7.0, MSLR_FEATURES)
    else:
        X = StandardScaler().fit_transform(X)
    name = f"MSLR-like {n_queries:,} queries, {'raw' if raw else 'standardised'}"
    return Task(name, X, y, qid, **_sum_C(LETOR_C))


# --- Sets of the kernel machines ------------------------------------------------------------------


@lru_cache(maxsize=1)
def cadata_rbf(m: int) -> Task:
    return replace(cadata_like(m), **_sum_C(**CADATA_RBF))


@lru_cache(maxsize=1)
def letor_rbf(n_queries: int) -> Task:
    return replace(letor_like(n_queries), **_sum_C(**LETOR_RBF))


@lru_cache(maxsize=1)
def mq2007_like(n_queries: int) -> tuple[Task, Task]:
    """Queries to learn from, and held-out ones of the same making."""
    X, y, qid, _ = make_letor_like(n_queries + int(HELD_OUT * n_queries), random_state=MQ2007_SEED)
    assert qid is not None
    cut = int(np.searchsorted(qid, np.unique(qid)[n_queries]))
    parts = {"MQ2007-like": slice(None, cut), "held out": slice(cut, None)}
    made = (
        Task(f"{name} {len(y[part]):,}", X[part], y[part], qid[part], **_sum_C(**LETOR_RBF))
        for name, part in parts.items()
    )
    return next(made), next(made)


def mq2008_rbf(skipped: Callable[[str], None]) -> Task | None:
    """MQ2008's first fold, if it is there."""
    for task in real_tasks(skipped, only="MQ2008"):
        return replace(task, **_sum_C(**MQ2008_RBF), optimum=None)
    return None


# --- Real sets ------------------------------------------------------------------------------------


def data_folder() -> Path:
    """$RANKSVM_DATA, or shared/data beside the folder of the project."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("RANKSVM_DATA", beside))


def has_file(name: str) -> bool:
    """Whether the file of a set that has one is in the folder of the data."""
    return (data_folder() / FILES[name]).is_file()


def _letor_fold(folder: Path, n_features: int, optimum: float) -> Task:
    """The training part of fold 1 of a LETOR set."""
    parts = [
        load_svmlight_file(str(folder / f"S{k}.txt.gz"), n_features=n_features, query_id=True)
        for k in (1, 2, 3)
    ]
    X = sp.vstack([part[0] for part in parts]).toarray()
    y, qid = (np.concatenate([part[k] for part in parts]) for k in (1, 2))
    return Task(f"{folder.name} fold 1", X, y, qid, **_sum_C(LETOR_C), optimum=optimum)


def _mq2008(folder: Path) -> Task:
    return _letor_fold(folder / "MQ2008", 46, 29.896913)


def _ohsumed(folder: Path) -> Task:
    return _letor_fold(folder / "OHSUMED", 45, 322.177717)


def _cadata_rows(folder: Path) -> tuple[Any, Array, Any]:
    """All rows as they are in the file, and a random order of them."""
    X, y = load_svmlight_file(str(folder / FILES["cadata"]))
    return X.toarray(), y, np.random.default_rng(0).permutation(len(y))


def _cadata_part(folder: Path) -> tuple[Any, Array]:
    """Standardised over all rows; 16,000 of them in random order, as in the paper."""
    X, y, rows = _cadata_rows(folder)
    rows = rows[:LARGEST_REAL]
    return StandardScaler().fit_transform(X)[rows], y[rows]


def _cadata(folder: Path) -> Task:
    X, y = _cadata_part(folder)
    return Task("cadata 16,000", X, y, None, **_mean_C(CADATA_LAMBDA))


def _cadata_strong(folder: Path) -> Task:
    X, y = _cadata_part(folder)
    return Task("cadata 16,000, weak regulariser", X, y, None, **_sum_C(LETOR_C), optimum=63949.5)


def _reuters(folder: Path) -> Task:
    """tf-idf of the texts; the utility of a document is its product with a held-out one."""
    with gzip.open(
        folder / FILES["reuters21578"], "rt", encoding="utf-8", errors="replace", newline=""
    ) as file:
        texts = [row[3] for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
    X = TfidfVectorizer().fit_transform(texts).tocsr()
    X = X[np.diff(X.indptr) > 0]  # some documents have no text
    held_out = int(np.random.default_rng(SEED).integers(X.shape[0]))
    y = np.asarray((X @ X[held_out].T).todense()).ravel()
    rows = np.delete(np.arange(X.shape[0]), held_out)
    name = f"reuters21578 {len(rows):,}"
    return Task(name, X[rows], y[rows], None, **_mean_C(REUTERS_LAMBDA))


_REAL: dict[str, Callable[[Path], Task]] = {
    "cadata": _cadata,
    "cadata, weak regulariser": _cadata_strong,
    "reuters21578": _reuters,
    "MQ2008": _mq2008,
    "OHSUMED": _ohsumed,
}


def real_tasks(skipped: Callable[[str], None], *, only: str | None = None) -> Iterator[Task]:
    """The real sets that are there (or one of them); ``skipped`` is told of the others."""
    folder = data_folder()
    for name, load in _REAL.items():
        if only not in (None, name):
            continue
        try:
            task = _load_real(load, folder)
        except FileNotFoundError:
            skipped(f"{name} skipped: its files are not there; $RANKSVM_DATA names their folder")
            continue
        yield task


@lru_cache(maxsize=len(_REAL))
def _load_real(load: Callable[[Path], Task], folder: Path) -> Task:
    return load(folder)


# --- Sets to learn from, and others to test on ----------------------------------------------------


def _part(task: Task, rows: Any) -> Task:
    """Some rows of a set, with their number in the name."""
    y = task.y[rows]
    return replace(task, name=f"{task.name.rpartition(' ')[0]} {len(y):,}", X=task.X[rows], y=y)


@lru_cache(maxsize=1)
def cadata_split(m: int) -> tuple[Task, Task]:
    """The first ``m`` rows of cadata in random order, and 4,000 beyond the first 16,000.

    Both are standardised by the means and deviations of the first ``m`` rows.
    """
    X, y, rows = _cadata_rows(data_folder())
    rows = rows[: LARGEST_REAL + CADATA_TEST]
    X = StandardScaler().fit(X[rows[:m]]).transform(X[rows])
    whole = Task(f"cadata {len(rows):,}", X, y[rows], None, **_mean_C(CADATA_LAMBDA))
    return _part(whole, slice(None, m)), _part(whole, slice(LARGEST_REAL, None))


@lru_cache(maxsize=1)
def reuters_split(m: int) -> tuple[Task, Task]:
    """The first ``m`` documents in random order, and all beyond the first 16,000."""
    whole = _load_real(_reuters, data_folder())
    order = np.random.default_rng(SEED).permutation(whole.n_items)
    return _part(whole, order[:m]), _part(whole, order[LARGEST_REAL:])


@lru_cache(maxsize=1)
def reuters_like_split(m: int, n_test: int = REUTERS_LIKE_TEST) -> tuple[Task, Task]:
    """The first ``m`` of ``m + n_test`` generated documents, and the others."""
    X, y, qid, _ = make_reuters_like(m + n_test, random_state=SEED)
    whole = Task(f"reuters-like {len(y):,}", X, y, qid, **_mean_C(REUTERS_LAMBDA))
    return _part(whole, slice(None, m)), _part(whole, slice(m, None))
