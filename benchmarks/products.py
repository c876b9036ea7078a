"""Products with X in both directions, against SciPy's and NumPy's."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from benchmarks import product_counts
from benchmarks.common import SEED, Array, Call, Config, Timing, interleave, thread_counts
from benchmarks.report import Report, Row
from benchmarks.sets import reuters_like
from ranksvm.maps.matrix import MatrixMap

TITLE = "products with X: their time, compared with SciPy and NumPy, and how many fits need"


class Matrix(NamedTuple):
    name: str
    X: Any


def _matrices(config: Config) -> Iterator[Matrix]:
    m = config.size(512_000, 4_000)
    X = reuters_like(m).X
    name = f"reuters-like {m:,}"
    yield Matrix(f"{name} CSR", X)
    yield Matrix(f"{name} CSR float32", X.astype(np.float32))
    yield Matrix(f"{name} CSC", X.tocsc())
    m = config.size(1_000_000, 10_000)
    dense = np.random.default_rng(SEED).standard_normal((m, 46))
    name = f"dense {m:,} x 46"
    yield Matrix(f"{name} C order", dense)
    yield Matrix(f"{name} Fortran order", np.asfortranarray(dense))


def run(config: Config, report: Report) -> None:
    rows: list[Row] = []
    for matrix in _matrices(config):
        new = _compare(matrix, config)
        rows += new
        if matrix.name.endswith("CSR"):
            forward, backward, both = list(new[-1].values())[-3:]
            detail = (
                f"{matrix.name}, {config.threads} thread(s), sum of both directions; "
                f"X w {forward:.2f}, X' g {backward:.2f}"
            )
            report.reach("csr_products", both, detail)
    report.table("products; 'peer' is the first line of each matrix", rows)
    report.note("SciPy's sparse products know one thread only; NumPy's use BLAS with those stated")
    product_counts.run(config, report)


def _compare(matrix: Matrix, config: Config) -> list[Row]:
    """One row for the peer with each thread count that matters to it, then ours."""
    X = matrix.X
    rng = np.random.default_rng(SEED + 1)
    w, g = rng.standard_normal(X.shape[1]), rng.standard_normal(X.shape[0])
    peer = "SciPy" if sp.issparse(X) else "NumPy"
    counts = thread_counts(config)
    calls: dict[tuple[str, int, str], Call] = {}
    for threads in (1,) if sp.issparse(X) else counts:
        calls[peer, threads, "X w"] = Call(partial(_forward, X, w), threads)
        calls[peer, threads, "X' g"] = Call(partial(_backward, X, g), threads)
    for threads in counts:
        ours = MatrixMap(X, n_threads=threads)
        _check(ours, X, w, g, matrix.name)
        calls["ranksvm", threads, "X w"] = Call(partial(ours.scores, w), threads)
        calls["ranksvm", threads, "X' g"] = Call(partial(ours.pullback, g), threads)
    named = interleave({str(key): call for key, call in calls.items()}, rounds=config.size(9, 3))
    timings = {key: named[str(key)] for key in calls}
    who = dict.fromkeys((name, threads) for name, threads, _ in calls)
    first = next(iter(who))
    return [_row(matrix.name, key, timings, first) for key in who]


def _row(
    name: str,
    key: tuple[str, int],
    timings: dict[tuple[str, int, str], Timing],
    first: tuple[str, int],
) -> Row:
    def rounds(who: tuple[str, int], what: str) -> Array:
        return np.array(timings[(*who, what)].rounds)

    row: dict[str, Any] = {"matrix": name, "by": key[0], "threads": key[1]}
    whats = ("X w", "X' g")
    row |= {f"{what}, ms": 1e3 * float(np.median(rounds(key, what))) for what in whats}
    row |= {
        f"{what} / peer": float(np.median(rounds(key, what) / rounds(first, what)))
        for what in whats
    }
    total, base = (sum(rounds(who, what) for what in whats) for who in (key, first))
    row["sum / peer"] = float(np.median(total / base))
    return row


def _forward(X: Any, w: Array) -> Any:
    return X @ w


def _backward(X: Any, g: Array) -> Any:
    return X.T @ g


def _check(ours: MatrixMap, X: Any, w: Array, g: Array, name: str) -> None:
    tolerance = 1e-10 if X.dtype == np.float64 else 1e-3
    for mine, theirs in ((ours.scores(w), _forward(X, w)), (ours.pullback(g), _backward(X, g))):
        if not np.allclose(mine, theirs, rtol=tolerance, atol=tolerance * np.abs(theirs).max()):
            raise RuntimeError(f"products of {name} differ from those of SciPy or NumPy")
