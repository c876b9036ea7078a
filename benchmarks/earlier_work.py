"""``python earlier_work.py FOLDER SECONDS``: time one call of the library that is on the path.

FOLDER has the data, and ``work.json``: which call, its parameters, where the library has to lie and
what else is on the path.  Prints the seconds of the call by the clock and of the processor: medians
of the calls that fit into SECONDS, after a first one; the first one if there is no time for more.

It takes the public interface alone, and imports nothing else of these benchmarks, so that it runs
with the library of another revision.
"""

from __future__ import annotations

import inspect
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Calls of which one takes less than this are timed several at a time.
SHORT = 0.02


def main() -> None:
    folder, seconds = Path(sys.argv[1]), float(sys.argv[2])
    work = json.loads((folder / "work.json").read_text(encoding="utf-8"))
    sys.path[:0] = work["first"]
    sys.path += work["last"]
    warnings.simplefilter("ignore")

    import ranksvm

    if work["first"] and not Path(ranksvm.__file__).is_relative_to(work["first"][0]):
        raise SystemExit(f"another ranksvm was imported: {ranksvm.__file__}")
    call = WORK[work["kind"]](folder, work["parameters"])
    print(json.dumps(measure(call, seconds)))


def measure(call: Callable[[], Any], seconds: float) -> tuple[float, float]:
    """Return the median seconds of a call, by the clock and of the processor."""

    def once(n_calls: int) -> tuple[float, float]:
        clock, processor = time.perf_counter(), time.process_time()
        for _ in range(n_calls):
            call()
        found = time.perf_counter() - clock, time.process_time() - processor
        return found[0] / n_calls, found[1] / n_calls

    first = once(1)
    if 2.0 * first[0] > seconds:
        return first
    at_once = 1 if first[0] > SHORT else max(1, int(SHORT / max(once(1)[0], 1e-7)))
    end, found = time.perf_counter() + seconds, []
    while not found or time.perf_counter() < end:
        found.append(once(at_once))
    clocks, processors = zip(*found, strict=True)
    return statistics.median(clocks), statistics.median(processors)


def load(folder: Path) -> tuple[Any, Any, Any]:
    """Return X, y and qid, which is None for one ranking."""
    import numpy as np

    if (folder / "X.npz").is_file():
        import scipy.sparse as sp

        X = sp.load_npz(folder / "X.npz")
    else:
        X = np.load(folder / "X.npy")
    qid = np.load(folder / "qid.npy") if (folder / "qid.npy").is_file() else None
    return X, np.load(folder / "y.npy"), qid


def fit(folder: Path, parameters: dict[str, Any]) -> Callable[[], Any]:
    """Fit an estimator of the library."""
    import ranksvm

    data = load(folder)
    make = getattr(ranksvm, parameters.pop("estimator"))
    known = inspect.signature(make).parameters
    if "scaling" in known:  # earlier revisions had none
        parameters = {"scaling": None, **parameters}
    return lambda: make(n_jobs=1, **parameters).fit(*data)


def predict(folder: Path, parameters: dict[str, Any]) -> Callable[[], Any]:
    """Predict the scores of the first items, by a model of all of them."""
    n_items = parameters.pop("items")
    model = fit(folder, parameters)()
    some = load(folder)[0][:n_items]
    return lambda: model.predict(some)


def read(folder: Path, parameters: dict[str, Any]) -> Callable[[], Any]:
    """Read LETOR text."""
    from ranksvm.data import load_letor

    return lambda: load_letor(folder / "set.txt", n_jobs=1, **parameters)


def evaluate(folder: Path, parameters: dict[str, Any]) -> Callable[[], Any]:
    """Compute metrics of scores, which take the place of X."""
    from ranksvm.metrics import evaluate

    scores, y, qid = load(folder)
    return lambda: evaluate(y, scores, qid, **parameters)


WORK: dict[str, Callable[[Path, dict[str, Any]], Callable[[], Any]]] = {
    "fit": fit,
    "predict": predict,
    "read": read,
    "evaluate": evaluate,
}

if __name__ == "__main__":
    main()
