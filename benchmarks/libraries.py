"""What our own code does better than libraries that have the same; see CONTRIBUTING.md."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
import scipy.stats
import sklearn.metrics

from benchmarks.common import SEED, Call, Config, interleave, thread_counts
from benchmarks.report import Report, Row
from ranksvm.maps.gram_checks import LANCZOS_STEPS, smallest_eigenvalue
from ranksvm.maps.kernels import Kernel, kernel_matrix
from ranksvm.maps.whitening import whitening
from ranksvm.metrics import auc, average_precision, kendall_tau, ndcg
from ranksvm.metrics.significance import randomization_test

TITLE = "our own code against libraries that have the same"


def run(config: Config, report: Report) -> None:
    _eigenvalues(config, report)
    _whitening(config, report)
    _permutations(config, report)
    _metrics(config, report)


def _eigenvalues(config: Config, report: Report) -> None:
    """Count the products that a bound of the smallest eigenvalue of a kernel matrix takes."""
    n = config.size(2_000, 1_200)
    X = np.random.default_rng(SEED).standard_normal((n, 8))
    K = kernel_matrix(Kernel("rbf", gamma=0.05), X, X)
    products = 0

    def product(v: Any) -> Any:
        nonlocal products
        products += 1
        return K @ v

    operator = scipy.sparse.linalg.LinearOperator(K.shape, matvec=product, dtype=np.float64)
    try:
        scipy.sparse.linalg.eigsh(
            operator, k=1, which="SA", tol=1e-2, ncv=LANCZOS_STEPS, maxiter=config.size(50, 5),
            v0=np.ones(n), return_eigenvectors=False,
        )  # fmt: skip
        ended = "converged"
    except scipy.sparse.linalg.ArpackNoConvergence:
        ended = "did not converge"
    report.table(
        f"smallest eigenvalue of an rbf kernel matrix of {n:,} items",
        [
            {"what": "scipy's eigsh, tol = 0.01", "products": products, "end": ended},
            {
                "what": "ours: an upper bound",
                "products": LANCZOS_STEPS,
                "end": f"{smallest_eigenvalue(K)[0]:.1e}, exact {np.linalg.eigvalsh(K)[0]:.1e}",
            },
        ],
    )


def _whitening(config: Config, report: Report) -> None:
    """Time L and its inverse for a kernel matrix, for each number of threads."""
    n = config.size(2_000, 600)
    X = np.random.default_rng(SEED).standard_normal((n, 46))
    W = kernel_matrix(Kernel("rbf", gamma=2.0**-5), X, X)

    def theirs() -> Any:
        lower = scipy.linalg.cholesky(W, lower=True, check_finite=False)
        return scipy.linalg.solve_triangular(lower, np.eye(n), lower=True, check_finite=False).T

    for threads in thread_counts(config):
        calls = {
            "numpy.linalg.eigh": Call(partial(np.linalg.eigh, W), threads),
            "scipy.linalg's Cholesky and inverse": Call(theirs, threads),
            "ours": Call(partial(whitening, W, n_threads=threads), threads),
        }
        _table(f"whitening of {n:,} landmarks, {threads} thread(s)", calls, config, report)


def _permutations(config: Config, report: Report) -> None:
    n, permutations = config.size(700, 70), config.size(10_000, 100)
    difference = np.random.default_rng(SEED).normal(0.01, 0.1, n)

    def theirs() -> Any:
        return scipy.stats.permutation_test(
            (difference,), np.mean, permutation_type="samples", n_resamples=permutations,
            vectorized=True, rng=np.random.default_rng(SEED),
        )  # fmt: skip

    calls = {
        "scipy.stats.permutation_test": Call(theirs),
        "ours": Call(partial(randomization_test, difference, permutations, SEED)),
    }
    _table(f"permutation test, {n} queries, {permutations:,} permutations", calls, config, report)


def _metrics(config: Config, report: Report) -> None:
    """Score 100 items per query; libraries score one query per call."""
    n_queries = config.size(1_000, 20)
    rng = np.random.default_rng(SEED)
    y = rng.integers(0, 2, (n_queries, 100))
    scores = y + 2.0 * rng.standard_normal(y.shape)
    flat = y.ravel(), scores.ravel(), np.repeat(np.arange(n_queries), 100)
    pairs: dict[str, tuple[Callable[..., Any], Callable[[Any, Any], Any]]] = {
        "ndcg_score": (ndcg, lambda a, b: sklearn.metrics.ndcg_score([a], [b])),
        "average_precision_score": (average_precision, sklearn.metrics.average_precision_score),
        "roc_auc_score": (auc, sklearn.metrics.roc_auc_score),
        "kendalltau": (kendall_tau, scipy.stats.kendalltau),
    }
    for name, (ours, theirs) in pairs.items():

        def all_queries(theirs: Callable[[Any, Any], Any] = theirs) -> None:
            for a, b in zip(y, scores, strict=True):
                theirs(a, b)

        calls = {name: Call(all_queries), "ours": Call(partial(ours, *flat))}
        _table(f"{name}, {n_queries:,} queries of 100 items", calls, config, report)


def _table(title: str, calls: dict[str, Call], config: Config, report: Report) -> None:
    timings = interleave(calls, rounds=config.size(5, 1))
    ours = timings["ours"].seconds
    rows: list[Row] = [
        {"what": name, "ms": 1e3 * timing.seconds, "/ ours": timing.seconds / ours}
        for name, timing in timings.items()
    ]
    report.table(title, rows)
