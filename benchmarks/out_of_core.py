"""Training on Parquet files of four times the memory budget.

Every fit runs in a process of its own.  Before and after it, and in the same process, all bytes of
the files are read once, which is the floor.  Pages of the files are dropped from the page cache all
the time, in the fit as in the floor, so that both read from the disk.  Speed is bytes read a
second, as the kernel counts them (``rchar`` of /proc/self/io).

The objective and the coefficients are compared with a fit in memory, on a smaller set.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import SEED, TOL, Config
from benchmarks.memory import peak
from benchmarks.report import Report, Row
from ranksvm import LinearRankSVM
from ranksvm.data.parquet.source import ParquetSource
from ranksvm.data.shard_memory import BLOCK_BYTES

TITLE = "fit_files: Parquet files of four times the memory budget"
N_FEATURES = 100
ITEMS_PER_QUERY = 40
FILE_ROWS = 1_000_000
GROUP_ROWS = 100_000
BLOCK = 4 << 20


def run(config: Config, report: Report) -> None:
    size = config.size(16e9, 800e6)
    small = config.size(1e9, 40e6)
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < 1.3 * (size + small):
        report.note(f"skipped: {size / 1e9:.0f} GB of free disk space are needed")
        return
    with tempfile.TemporaryDirectory(prefix="ranksvm-bench-") as folder:
        small_folder, folder = Path(folder, "small"), Path(folder, "large")
        write_set(small_folder, small)
        budget = config.size(300e6, 80e6)
        found = _in_child(small_folder, budget, config.threads, compare=True)
        report.table(
            "a set that fits into memory: fit_files against fit",
            [
                {
                    "set, GB": small / 1e9,
                    "budget, GB": budget / 1e9,
                    "products": found["products"],
                    "difference of objectives": found["objective_difference"],
                    "difference of coefficients": found["coef_difference"],
                    "fit_files, s": found["seconds"],
                    "fit, s": found["memory_seconds"],
                }
            ],
        )
        report.reach("out_of_core_coef", found["coef_difference"], f"{small / 1e9:g} GB")
        report.table("the same set in other files", _styles(config, small_folder.parent, small))
        write_set(folder, size)
        budget = size / 4
        found = _in_child(folder, budget, config.threads)
    over = found["peak"] - budget
    report.table(
        "a set of four times the budget",
        [
            {
                "set, GB": size / 1e9,
                "budget, GB": budget / 1e9,
                "rows": found["rows"],
                "products": found["products"],
                "read, GB": found["read"] / 1e9,
                "seconds": found["seconds"],
                "GB/s": found["speed"] / 1e9,
                "floor, GB/s": found["floor"] / 1e9,
                "peak beyond the budget, GB": over / 1e9,
                "process before it, GB": found["before"] / 1e9,
            }
        ],
    )
    report.note(
        "floor: plain reading of the files in the same process, from the disk; products: of X with "
        "a vector, two or three in each pass over the files"
    )
    speeds = f"{found['speed'] / 1e9:.2f} of {found['floor'] / 1e9:.2f} GB/s"
    report.reach("out_of_core_speed", found["floor"] / found["speed"], speeds)
    report.reach("out_of_core_memory", over / 1e9, f"{found['rows']:,} x {N_FEATURES} float32")


# How files are written.
PLAIN = {"compression": "none", "use_dictionary": False}
STYLES = {"plain": PLAIN, "pyarrow's defaults": {}, "zstd": {"compression": "zstd"}}


def _styles(config: Config, place: Path, size: float) -> list[Row]:
    """Fit the same rows from files that were written in different ways."""
    rows = []
    for number, (style, options) in enumerate(STYLES.items()):
        folder = place / f"style-{number}"
        write_set(folder, size, options)
        found = _in_child(folder, config.size(600e6, 500e6), config.threads)
        rows.append(
            {
                "files": style,
                "on disk, GB": sum(path.stat().st_size for path in folder.iterdir()) / 1e9,
                "fit_files, s": found["seconds"],
                "processor, s": found["processor"],
                "memory for decoding, GB": found["decoding"] / 1e9,
                "peak, GB": found["peak"] / 1e9,
            }
        )
        shutil.rmtree(folder)
    return rows


def write_set(folder: Path, size: float, options: dict[str, Any] = PLAIN) -> None:
    """Write Parquet files of about this size in all: float32 features, grades, queries."""
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir()
    rng = np.random.default_rng(SEED)
    weights = rng.normal(size=N_FEATURES)
    rows = int(size / (4 * N_FEATURES))
    for number, begin in enumerate(range(0, rows, FILE_ROWS)):
        writer = None
        end = min(rows, begin + FILE_ROWS)
        for first in range(begin, end, GROUP_ROWS):
            count = min(GROUP_ROWS, end - first)
            X = rng.standard_normal((count, N_FEATURES), dtype=np.float32)
            utility = X @ weights / 10.0 + rng.normal(size=count)
            columns = {
                "label": np.clip(np.floor(utility + 1.0), 0, 4).astype(np.int8),
                "query": np.arange(first, first + count) // ITEMS_PER_QUERY,
                **{f"f{j}": X[:, j] for j in range(N_FEATURES)},
            }
            table = pa.table(columns)
            if writer is None:
                writer = parquet.ParquetWriter(
                    folder / f"{number:04}.parquet",
                    table.schema,
                    **options,
                )
            writer.write_table(table)
        assert writer is not None
        writer.close()


def _in_child(folder: Path, budget: float, threads: int, *, compare: bool = False) -> Any:
    case = {"folder": str(folder), "budget": budget, "threads": threads, "compare": compare}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.out_of_core", json.dumps(case)],
        cwd=Path(__file__).resolve().parents[1],
        env=os.environ | {"OMP_NUM_THREADS": str(threads)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def measure(folder: str, budget: float, threads: int, compare: bool) -> dict[str, Any]:
    """Read the files, then fit a model to them; called in a process of its own."""
    files = sorted(Path(folder).glob("*.parquet"))
    os.sync()  # pages that are not written yet cannot be dropped
    floors = [_floor(files)]
    memory, processor = peak(), time.process_time()
    with _cold(files):
        before, clock = _bytes_read(), time.perf_counter()
        model = LinearRankSVM(tol=TOL, n_jobs=threads).fit_files(
            folder, y="label", qid="query", memory_budget=int(budget)
        )
        seconds, read = time.perf_counter() - clock, _bytes_read() - before
    processor = time.process_time() - processor
    floors.append(_floor(files))
    found = {
        "rows": _rows(files),
        "products": model.n_products_,
        "seconds": seconds,
        "read": read,
        "speed": read / seconds,
        "floor": float(np.mean(floors)),
        "peak": peak(),
        "before": memory,
        "processor": processor,
        "decoding": ParquetSource(list(map(str, files)), y="label", qid="query").reading_bytes(
            BLOCK_BYTES
        ),
    }
    if compare:
        found |= _compared(files, model, threads)
    return found


def _floor(files: list[Path]) -> float:
    """Return the speed of plain reading, in bytes a second."""
    with _cold(files):
        before, clock = _bytes_read(), time.perf_counter()
        for path in files:
            with path.open("rb", buffering=0) as file:
                while file.read(BLOCK):
                    pass
        return (_bytes_read() - before) / (time.perf_counter() - clock)


def _compared(files: list[Path], model: LinearRankSVM, threads: int) -> dict[str, float]:
    from pyarrow import parquet

    table = parquet.read_table(files)
    names = [f"f{j}" for j in range(N_FEATURES)]
    X = np.column_stack([table.column(name).to_numpy() for name in names])
    y, qid = table.column("label").to_numpy(), table.column("query").to_numpy()
    clock = time.perf_counter()
    known = LinearRankSVM(tol=TOL, n_jobs=threads).fit(X, y, qid)
    seconds = time.perf_counter() - clock
    scale = float(np.abs(known.coef_).max())
    return {
        "memory_seconds": seconds,
        "objective_difference": abs(model.objective_ / known.objective_ - 1.0),
        "coef_difference": float(np.abs(model.coef_ - known.coef_).max()) / scale,
    }


def _rows(files: list[Path]) -> int:
    from pyarrow import parquet

    return sum(parquet.read_metadata(path).num_rows for path in files)


def _bytes_read() -> int:
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("rchar:"):
            return int(line.split()[1])
    raise OSError("/proc/self/io has no line rchar")


@contextmanager
def _cold(files: list[Path]) -> Iterator[None]:
    """Keep dropping the pages of files from the page cache."""
    stop = threading.Event()
    handles = [os.open(path, os.O_RDONLY) for path in files]

    def drop() -> None:
        while not stop.wait(0.5):
            for handle in handles:
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)

    for handle in handles:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    thread = threading.Thread(target=drop, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        for handle in handles:
            os.close(handle)


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
