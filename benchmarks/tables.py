"""Tables: peak memory of ``ranksvm train`` on Parquet files, and the time of categories.

The memory is that of a command on a file of float32 columns, in a process of its own, beyond what a
tiny run of the same command has left there; see :mod:`benchmarks.memory`.  It is compared with the
size of the columns that the model uses.

The time is that of learning and applying an encoding of a table with categories and missing values,
compared with scikit-learn's ``ColumnTransformer`` that makes the same columns.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import SEED, Config
from benchmarks.memory import peak, reset_peak
from benchmarks.report import Report, Row

TITLE = "tables: memory of ranksvm train, time of categories"
ALLOWED = 1.3  # times the columns that are used, on top of O(items)
# Type, number of columns of the file, and of those that are used.
CASES = (
    ("float32", 300, 300),
    ("float32", 300, 75),
    ("float32", 60, 60),
    ("float64", 300, 300),
)
BYTES = 240_000_000  # of float32 columns


def run(config: Config, report: Report) -> None:
    rows = []
    for dtype, n_columns, used in CASES:
        m = config.size(BYTES // (4 * n_columns), 2_000)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "data.parquet"
            _write(path, m, n_columns, dtype)
            _write(path.with_name("tiny.parquet"), 200, n_columns, dtype)
            rows.append(_memory_row(path, m, n_columns, used, dtype))
    report.table(f"goal: float32 at most {ALLOWED} x the columns used + O(items)", rows)
    report.note("peak: X, labels, query ids and all that the command adds")
    report.table("one-hot and imputation, 1 thread", _time_rows(config))


def _write(path: Path, m: int, n_columns: int, dtype: str) -> None:
    import pyarrow
    from pyarrow import parquet

    rng = np.random.default_rng(SEED)
    columns = {f"x{j}": rng.standard_normal(m).astype(dtype) for j in range(n_columns)}
    label = np.digitize(columns["x0"] + rng.standard_normal(m), (0.0, 1.0)).astype(np.int8)
    table = {"label": label, "qid": np.arange(m, dtype=np.int32) // 40, **columns}
    parquet.write_table(pyarrow.table(table), path, use_dictionary=False)


def _memory_row(path: Path, m: int, n_columns: int, used: int, dtype: str) -> Row:
    case = json.dumps({"path": str(path), "used": used})
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.tables", case],
        env=os.environ | one,
        cwd=Path(__file__).resolve().parents[1],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    size = m * used * np.dtype(dtype).itemsize
    return {
        "type": dtype,
        "items": m,
        "columns used": f"{used} of {n_columns}",
        "columns used, MB": size / 1e6,
        "file, MB": path.stat().st_size / 1e6,
        "peak, MB": found["added"] / 1e6,
        "peak / columns used": found["added"] / size,
        f"(peak - {ALLOWED} columns) / items, B": max(0.0, found["added"] - ALLOWED * size) / m,
        "seconds": found["seconds"],
        "exact": found["exact"],
    }


def _measure(case: dict[str, Any]) -> dict[str, Any]:
    """In the child: run the command, and see how far the memory rose."""
    path = Path(case["path"])
    names = ",".join(f"x{j}" for j in range(case["used"]))
    _command("train", path.with_name("tiny.parquet"), "--features", names)
    exact = reset_peak()
    before, began = peak(), time.perf_counter()
    _command("train", path, "--features", names, "--tol", "0.1", "--jobs", "1")
    return {"added": peak() - before, "seconds": time.perf_counter() - began, "exact": exact}


def _command(*arguments: object) -> None:
    from ranksvm.cli import main

    try:
        main([str(one) for one in arguments])
    except SystemExit as ended:
        if ended.code:
            raise


def _time_rows(config: Config) -> list[Row]:
    import pandas
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder

    from ranksvm.data.table_features import encode
    from ranksvm.estimators.encodings import learn_encoding

    rng = np.random.default_rng(SEED)
    rows: list[Row] = []
    for n_values in (10, 1_000):
        m = config.size(200_000, 2_000)
        numbers, texts = [f"x{j}" for j in range(10)], [f"c{j}" for j in range(5)]
        frame = pandas.DataFrame({name: rng.standard_normal(m) for name in numbers})
        for name in numbers:
            frame.loc[rng.random(m) < 0.1, name] = np.nan
        for name in texts:
            words = np.array([f"value {k}" for k in range(n_values)], dtype=object)
            frame[name] = pandas.Categorical(words[rng.integers(0, n_values, m)])
        theirs = ColumnTransformer(
            [
                ("numbers", SimpleImputer(strategy="median", add_indicator=True), numbers),
                ("texts", OneHotEncoder(handle_unknown="ignore"), texts),
            ]
        )
        learned, encoding = _timed(lambda frame=frame: learn_encoding(frame, missing="impute"))
        applied, X = _timed(lambda one=encoding, frame=frame: encode(one, frame))
        fitted, _ = _timed(lambda theirs=theirs, frame=frame: theirs.fit(frame))
        transformed, Z = _timed(lambda theirs=theirs, frame=frame: theirs.transform(frame))
        rows.append(
            {
                "items": m,
                "categories": f"5 of {n_values} values",
                "learn, s": learned,
                "apply, s": applied,
                "ColumnTransformer fit, s": fitted,
                "transform, s": transformed,
                "apply / transform": applied / transformed,
                "features": X.shape[1],
                "same sum": bool(np.isclose(float(X.sum()), float(Z.sum()))),
            }
        )
    return rows


def _timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Return the shorter of two times, and the result."""
    times = []
    for _ in range(2):
        began = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - began)
    return min(times), result


if __name__ == "__main__":
    print("\n" + json.dumps(_measure(json.loads(sys.argv[1]))))
