"""Every number of threads gives the same bits, also more threads than there are cores."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from ranksvm import KernelRankSVM, LinearRankSVM, LinearRankSVMCV
from ranksvm.datasets import make_ranking

THREADS = (1, 2, 3, 7, 16)

# Shapes that take different ways through the native code: many small queries, queries of more than
# 128 items, a few large ones beside small ones, one ranking.
SHAPES = {
    "small queries": np.repeat(np.arange(3_500), 20),
    "medium queries": np.repeat(np.arange(100), 700),
    "large queries": np.concatenate([np.repeat([0, 1], 36_000), np.repeat(np.arange(2, 52), 80)]),
    "one ranking": None,
}


@cache
def items(shape: str):
    qid = SHAPES[shape]
    n = 140_000 if qid is None else len(qid)
    X, y, _, _ = make_ranking(None, n, 8, n_levels=None, noise=1.0, random_state=3)
    if shape in ("small queries", "medium queries"):
        y = np.round(y)
    rng = np.random.default_rng(0)
    if qid is not None:
        qid = rng.permutation(qid)
    return X, y, qid, rng.uniform(0.0, 2.0, n)


def fitted(X, y, qid, n_jobs: int, weight=None, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LinearRankSVM(n_jobs=n_jobs, **params).fit(X, y, qid, sample_weight=weight)
    trace = [row._replace(seconds=0.0) for row in model.history_]
    return model.coef_.tobytes(), model.objective_, model.gap_, model.n_products_, trace


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"loss": "hinge", "max_iter": 8},
        {"loss": "hinge", "solver": "smoothed_newton", "max_iter": 8},
        {"reduction": "query_mean"},
    ],
    ids=["squared hinge", "hinge", "smoothed hinge", "query mean"],
)
def test_fits(shape: str, params) -> None:
    X, y, qid, _ = items(shape)
    results = [fitted(X, y, qid, n, **params) for n in THREADS]
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize("shape", SHAPES)
def test_weighted_fits(shape: str) -> None:
    X, y, qid, weight = items(shape)
    results = [fitted(X, y, qid, n, weight) for n in THREADS]
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize(
    "layout",
    [np.asfortranarray, np.float32, sp.csr_array, sp.csc_array],
    ids=["Fortran", "float32", "CSR", "CSC"],
)
@pytest.mark.parametrize("shape", ["small queries", "one ranking"])
def test_layouts(shape: str, layout) -> None:
    X, y, qid, _ = items(shape)
    matrix = layout(np.where(np.abs(X) > 0.5, X, 0.0))
    results = [fitted(matrix, y, qid, n) for n in THREADS]
    assert all(result == results[0] for result in results)


def test_fits_in_many_threads_at_once() -> None:
    """Six fits with up to 16 threads each: far more threads than cores."""
    tasks = [(shape, n) for shape in ("small queries", "one ranking") for n in (1, 5, 16)]
    expected = {shape: fitted(*items(shape)[:3], 1) for shape, _ in tasks}
    with ThreadPoolExecutor(len(tasks)) as pool:
        found = list(pool.map(lambda task: fitted(*items(task[0])[:3], task[1]), tasks))
    for (shape, _), result in zip(tasks, found, strict=True):
        assert result == expected[shape]


def test_fits_beside_busy_threads() -> None:
    """Other work on the cores: the fit goes on, with the same bits."""
    X, y, qid, _ = items("small queries")
    expected = fitted(X, y, qid, 1)
    stop = threading.Event()
    large = np.random.default_rng(0).standard_normal(1_000_000)

    def load() -> None:
        while not stop.is_set():
            np.sort(large)  # without the lock of the interpreter

    neighbors = [threading.Thread(target=load) for _ in range(4)]
    for one in neighbors:
        one.start()
    try:
        assert all(fitted(X, y, qid, n) == expected for n in (2, 16))
    finally:
        stop.set()
        for one in neighbors:
            one.join()


def test_a_forked_child_has_threads_of_its_own() -> None:
    code = textwrap.dedent("""
        import os, threading
        import numpy as np
        from ranksvm import _core
        u = np.ones(1_000_000)
        def threads():
            return len(os.listdir("/proc/self/task"))
        _core.dot(u, u, 4)
        before = threads()
        child = os.fork()
        if child == 0:
            alone = threads()
            _core.dot(u, u, 4)
            os._exit(0 if alone == 1 and threads() > 1 else 1)
        print(before > 1, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """)
    if not sys.platform.startswith("linux"):
        pytest.skip("threads are counted in /proc")
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=60
    )
    assert run.stdout.split() == ["True", "0"], run.stderr


BUSY = """
    import os, threading, time
    import numpy as np
    from ranksvm import KernelRankSVM, LinearRankSVM, LinearRankSVMCV
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100_000, 5))
    y = X[:, 0] + rng.standard_normal(100_000)
    def fit():
        return LinearRankSVM(C=1e-7, n_jobs=4).fit(X, y)
    def repeat():
        while True:
            fit()
    expected = fit().coef_
    for _ in range(2):
        threading.Thread(target=repeat, daemon=True).start()
"""


def run_busy(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process whose other threads fit all the time."""
    code = textwrap.dedent(BUSY) + textwrap.dedent(code)
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize("wait", [0.0, 0.3])
def test_a_program_may_end_during_fits_in_daemon_threads(wait: float) -> None:
    """Python stops these threads when they ask for its lock; that must not end in an abort."""
    run = run_busy(f"time.sleep({wait}); print('end')")
    assert (run.returncode, run.stdout, run.stderr) == (0, "end\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_process_may_fork_during_fits_in_other_threads() -> None:
    """The child has none of these threads; no lock that they held may stop it."""
    run = run_busy("""
        for _ in range(20):
            time.sleep(0.005)
            child = os.fork()
            if child == 0:
                os._exit(0 if np.array_equal(fit().coef_, expected) else 1)
            deadline = time.monotonic() + 60.0
            done = (0, 0)
            while done[0] == 0 and time.monotonic() < deadline:
                done = os.waitpid(child, os.WNOHANG)
                time.sleep(0.005)
            if done[0] == 0:
                os.kill(child, 9)
            if done != (child, 0):
                print("child", done)
                break
        os._exit(0)
    """)
    assert (run.returncode, run.stdout) == (0, ""), run.stderr


# --- Threads of the BLAS -------------------------------------------------------------------------


def _blas_models():
    """Models whose fits use factorizations large enough for several BLAS threads."""
    yield "linear", LinearRankSVM(n_jobs=1)
    yield "search", LinearRankSVMCV([1.0, 10.0, 100.0], cv=2, metric="pairwise_accuracy")
    fourier = {"approximation": "fourier", "n_components": 450, "random_state": 0}
    yield "Fourier", KernelRankSVM(tol=0.01, **fourier)
    # Every item twice: the kernel matrix of the landmarks is singular.
    nystroem = {"approximation": "nystroem", "n_components": 1_100, "random_state": 0}
    yield "Nystroem", KernelRankSVM(tol=0.05, gamma=1e-3, **nystroem)


@pytest.mark.filterwarnings("ignore:.*of the grid:UserWarning")
@pytest.mark.parametrize("which", [name for name, _ in _blas_models()])
def test_threads_of_the_blas_do_not_change_bits(which: str) -> None:
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((600, 200)), 2, axis=0)
    y, qid = np.round(X[:, 0] + X[:, 1]) + np.arange(len(X)) % 2, np.repeat(np.arange(60), 20)
    model = dict(_blas_models())[which]
    found = []
    for n_threads in (1, 2, 4):
        with threadpool_limits(n_threads, user_api="blas"):
            found.append(model.fit(X, y, qid).coef_.tobytes())
    assert len(set(found)) == 1


def test_kernel_fits_beside_it_do_not_change_a_linear_fit() -> None:
    """Kernel fits limit the BLAS of the whole process, for as long as they run."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4_000, 200))
    y, qid = np.round(X[:, 0]), np.repeat(np.arange(200), 20)
    alone = LinearRankSVM(n_jobs=1, tol=1e-6).fit(X, y, qid).coef_.tobytes()
    stop = threading.Event()

    def others() -> None:
        while not stop.is_set():
            KernelRankSVM(n_jobs=1, tol=0.1).fit(X[:200], y[:200], qid[:200])

    other = threading.Thread(target=others)
    other.start()
    try:
        for _ in range(5):
            assert LinearRankSVM(n_jobs=1, tol=1e-6).fit(X, y, qid).coef_.tobytes() == alone
    finally:
        stop.set()
        other.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_in_a_block_does_not_keep_the_limit_of_the_blas() -> None:
    program = """
        import os
        import numpy as np
        from threadpoolctl import threadpool_info
        from ranksvm._threads import _BlasLimit, one_blas_thread

        def threads():
            return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]

        with one_blas_thread():
            pass
        before = threads()
        with one_blas_thread():
            child = os.fork()
        if child == 0:
            with one_blas_thread():
                inside = threads()
            is_right = threads() == before and set(inside) == {1} and _BlasLimit.n_blocks == 0
            os._exit(0 if is_right else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert threads() == before
    """
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env=environment, check=True)


def test_a_small_budget_is_for_fewer_threads() -> None:
    X, y, qid, _ = make_ranking(75, 20, 8, random_state=0)
    found = [
        KernelRankSVM(memory_budget="4MB", tol=0.01, n_jobs=n_jobs).fit(X, y, qid)
        for n_jobs in (1, 2, 16)
    ]
    assert len({model.dual_coef_.tobytes() for model in found}) == 1
