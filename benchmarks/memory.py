"""Peak memory of a fit, beyond what is there before it starts.

Every fit runs in a process of its own, which makes the data first.  What making them has left
behind is given back to the system, the high-water mark of the resident memory is reset (Linux), and
the rise of that mark during the fit is the memory that the fit took.  Elsewhere the mark cannot be
reset, and the rise of ``ru_maxrss`` is a lower bound.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from benchmarks.common import LOSSES, SEED, Config
from benchmarks.report import Report, Row
from benchmarks.sets import Task, matrix_bytes, reuters_like
from ranksvm import KernelRankSVM
from ranksvm.datasets import make_ranking

TITLE = "peak memory of a fit, 1 thread"
# Allowed on top of O(m + n): so many times the input, the input itself included.
ALLOWED = 1.3


def _dense(m: int, dtype: str) -> Task:
    """One global ranking by 46 features, distinct utilities."""
    X, y, qid, _ = make_ranking(None, m, 46, n_levels=None, dtype=dtype, random_state=SEED)
    return Task(f"dense {m:,} x 46 {dtype}", X, y, qid, 5.0, "mean", "lambda = 0.1")


def _relaid(task: Task, X: Any) -> Task:
    return Task(task.name, X, task.y, task.qid, task.C, task.reduction, task.strength)


def _fortran(m: int, dtype: str) -> Task:
    task = _dense(m, dtype)
    return _relaid(task, np.asfortranarray(task.X))


def _csr(m: int, dtype: str) -> Task:
    task = reuters_like(m)
    reuters_like.cache_clear()
    return _relaid(task, task.X.astype(dtype, copy=False))


def _csc(m: int, dtype: str) -> Task:
    task = _csr(m, dtype)
    return _relaid(task, task.X.tocsc())


LAYOUTS: dict[str, Callable[[int, str], Task]] = {
    "dense, C order": _dense,
    "dense, Fortran order": _fortran,
    "CSR": _csr,
    "CSC": _csc,
}


# Kernel models of items with 136 features, and how many items.
KERNELS: dict[str, tuple[dict[str, Any], tuple[int, int]]] = {
    "exact": ({}, (8_000, 300)),
    "Nystrom, 500 landmarks": (
        {"approximation": "nystroem", "n_components": 500, "random_state": SEED},
        (40_000, 600),
    ),
}


def run(config: Config, report: Report) -> None:
    sizes = {
        "dense": config.size(500_000, 20_000),
        "CSR": config.size(128_000, 2_000),
        "CSC": config.size(128_000, 2_000),
    }
    cases = [(layout, loss, "float64") for layout in LAYOUTS for loss in LOSSES]
    cases += [("dense, C order", "squared_hinge", "float32"), ("CSR", "squared_hinge", "float32")]
    if config.quick:
        cases = [case for case in cases if case[1] == "squared_hinge"][:4]
    rows = []
    for layout, loss, dtype in cases:
        size = sizes[layout.split(",")[0]]
        rows.append(_row(_in_child({"layout": layout, "loss": loss, "dtype": dtype, "m": size})))
    report.table(f"goal: peak at most {ALLOWED} x input + O(m + n)", rows)
    report.note("peak: X, y and what the fit adds; bytes / (m + n): what is added, shared out")
    worst = max(row["(peak - input) / (m + n), B"] for row in rows)
    report.note(f"the most that a fit adds: {worst:.0f} bytes for each item and feature")
    report.table("rbf kernels, 136 features: what a scaling adds", _kernel_rows(config))


def _kernel_rows(config: Config) -> list[Row]:
    rows: list[Row] = []
    for kernel, (_, sizes) in KERNELS.items():
        case = {"kernel": kernel, "m": config.size(*sizes)}
        plain, scaled = (_in_child({**case, "scaling": name}) for name in (None, "standard"))
        rows.append(
            {
                "model": kernel,
                "items": case["m"],
                "input, MB": plain["input"] / 1e6,
                "fit adds, MB": plain["added"] / 1e6,
                "with scaling, MB": scaled["added"] / 1e6,
                "ratio": scaled["added"] / plain["added"],
            }
        )
    return rows


def _row(found: dict[str, Any]) -> Row:
    bytes_in, added = found["input"], found["added"]
    per_item = added / (found["m"] + found["n"])
    beyond = max(0.0, added - (ALLOWED - 1.0) * bytes_in) / (found["m"] + found["n"])
    return {
        "layout": found["layout"],
        "type": found["dtype"],
        "loss": found["loss"],
        "m": found["m"],
        "n": found["n"],
        "input, MB": bytes_in / 1e6,
        "fit adds, MB": added / 1e6,
        "peak / input": (bytes_in + added) / bytes_in,
        "(peak - input) / (m + n), B": per_item,
        f"(peak - {ALLOWED} input) / (m + n), B": beyond,
        "exact": found["exact"],
    }


def _in_child(case: dict[str, Any]) -> dict[str, Any]:
    """Run one case in a new process with one thread everywhere."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory", json.dumps(case)],
        env=os.environ | one,
        cwd=Path(__file__).resolve().parents[1],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return {**case, **json.loads(done.stdout)}


def _measure(case: dict[str, Any]) -> dict[str, Any]:
    """In the child: make the data, fit, and see how far the memory rose."""
    if "kernel" in case:
        return _measure_kernel(case)
    # A tiny fit first, so that loaded libraries and the like do not count.
    _dense(200, "float64").fit(case["loss"])
    task = LAYOUTS[case["layout"]](case["m"], case["dtype"])
    exact = reset_peak()
    before = peak()
    task.fit(case["loss"])
    return {
        "n": task.X.shape[1],
        "input": matrix_bytes(task.X) + task.y.nbytes,
        "added": peak() - before,
        "exact": exact,
    }


def _measure_kernel(case: dict[str, Any]) -> dict[str, Any]:
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((case["m"], 136))
    y = np.digitize(X[:, 0] + rng.standard_normal(len(X)), (0.0, 1.0)).astype(np.float64)
    qid = np.arange(len(X)) // 40
    model = KernelRankSVM(
        50.0, scaling=case["scaling"], tol=0.1, n_jobs=1, **KERNELS[case["kernel"]][0]
    )
    clone(model).fit(X[:600], y[:600], qid[:600])
    reset_peak()
    before = peak()
    model.fit(X, y, qid)
    return {"input": X.nbytes + y.nbytes + qid.nbytes, "added": peak() - before}


def reset_peak() -> bool:
    """Give freed memory back and lower the high-water mark; False where that does not work."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except (AttributeError, OSError):
        return False
    return True


def peak() -> int:
    """High-water mark of the resident memory, in bytes."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    print(json.dumps(_measure(json.loads(sys.argv[1]))))
