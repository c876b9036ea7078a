"""Train and evaluate models on two small data sets: ``python -m ranksvm.demo``.

The data sets are diabetes, real measurements included in scikit-learn (real-valued labels, one
global ranking), and a LETOR-like set from :func:`ranksvm.datasets.make_letor_like` (queries, graded
labels, half of the signal linear).  Linear and kernel models are trained on both.  All rankings are
evaluated on held-out data, next to a random ranking and the best single feature.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_diabetes

from ranksvm import KernelRankSVM, LinearRankSVM
from ranksvm._text import format_table
from ranksvm._vectors import Array
from ranksvm.data import RankingData
from ranksvm.datasets import make_letor_like
from ranksvm.metrics import ndcg, pairwise_accuracy

_N_RANDOM = 20
_N_SPLITS = 10
_LINEAR = {
    "linear, squared hinge": LinearRankSVM(),
    "linear, hinge": LinearRankSVM(loss="hinge"),
}


class Problem(NamedTuple):
    """A data set with one or more train-test splits, the gain of NDCG, and the models to train."""

    title: str
    notes: tuple[str, ...]
    splits: Sequence[tuple[RankingData, RankingData]]  # train, test
    gain: Literal["exp2", "linear"]
    models: Mapping[str, Any]


# Cells of a table row after the name of the ranking; NaN if a column does not apply.
Numbers = tuple[float, ...]
_COLUMNS = {
    "ranking": "{}",
    "pair accuracy": "{:.4f}",
    "NDCG@10": "{:.4f}",
    "objective": "{:.6g}",
    "rel gap": "{:.1e}",
    "iter": "{:.0f}",
    "products": "{:.0f}",
    "seconds": "{:.3f}",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo with command-line arguments.

    Parameters
    ----------
    argv : sequence of str or None, default=None
        Command-line arguments; None means those of the process.

    Returns
    -------
    int
        Exit status, 0.
    """
    parser = argparse.ArgumentParser(
        prog="python -m ranksvm.demo",
        description="Train ranking SVMs on two small data sets and evaluate them.",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the random splits and data (default: 0)"
    )
    parser.add_argument(
        "--queries",
        type=int,
        default=600,
        help="number of queries in the LETOR-like data (default: 600)",
    )
    arguments = parser.parse_args(argv)
    if arguments.queries < 30:
        parser.error(f"--queries must be at least 30; got {arguments.queries}")
    run(arguments.seed, arguments.queries)
    return 0


def run(seed: int = 0, n_queries: int = 600) -> None:
    """Train and evaluate all models, and print the tables.

    Parameters
    ----------
    seed : int, default=0
        Seed of the random splits and data.
    n_queries : int, default=600
        Number of queries in the LETOR-like data, at least 30.
    """
    print("ranksvm: ranking SVMs on two small data sets, with default settings unless noted")
    for problem in (diabetes(seed), letor_like(n_queries, seed)):
        table = table_of(compare(problem, _stream(seed, 0)))
        print(f"\n{problem.title}\n{'-' * len(problem.title)}")
        print("\n".join(problem.notes))
        print(f"\n{table}")
    print(
        f"""
Pair accuracy and NDCG@10 are means over held-out queries; for the random ranking they are also
means of {_N_RANDOM} draws. Objectives of different losses and kernels are not comparable. The gap
is certified: relative to the objective, the optimum is at most that much lower. Products counts
products with X and its transpose, with the kernel matrix, or with the Nystrom features, which take
most of the time on large data."""
    )


def diabetes(seed: int) -> Problem:
    """Return the diabetes data (442 patients, 10 features), with a third held out, ten times."""
    X, y = load_diabetes(return_X_y=True, scaled=False)
    rng = _stream(seed, 1)

    def split() -> tuple[RankingData, RankingData]:
        test, train = np.split(rng.permutation(y.shape[0]), [y.shape[0] // 3])
        scaled = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
        return RankingData(scaled[train], y[train]), RankingData(scaled[test], y[test] - y.min())

    splits = [split() for _ in range(_N_SPLITS)]
    train, test = splits[0]
    return Problem(
        "diabetes (ships with scikit-learn)",
        (
            f"One global ranking of {train.n_items} patients by disease progression; "
            f"{test.n_items} held out; {X.shape[1]} features,",
            f"standardized on the training part. Means over {_N_SPLITS} random splits, since the "
            "top ten of a",
            "single ranking say little. The gain of NDCG is the progression minus its minimum.",
        ),
        splits,
        "linear",
        {**_LINEAR, "kernel rbf, C = 5": KernelRankSVM(5.0)},
    )


def letor_like(n_queries: int, seed: int) -> Problem:
    """Return synthetic queries with graded items, with a third held out."""
    X, y, qid, _ = make_letor_like(n_queries, random_state=seed)
    qid = np.asarray(qid)
    held_out = _stream(seed, 2).permutation(n_queries)[: n_queries // 3]
    is_test = np.isin(qid, held_out)
    data = RankingData(X, y, qid)
    train, test = (data.take(np.flatnonzero(rows)) for rows in (~is_test, is_test))
    return Problem(
        "LETOR-like (ranksvm.datasets.make_letor_like)",
        (
            f"{n_queries - held_out.shape[0]} queries with {train.n_items} items to train on, "
            f"{held_out.shape[0]} queries with {test.n_items} items held out;",
            f"{X.shape[1]} features, grades 0 to 2; half of the signal is linear, plus noise.",
            "The gain of NDCG is 2^grade - 1; queries without a relevant item are left out.",
        ),
        [(train, test)],
        "exp2",
        {
            **_LINEAR,
            "kernel rbf, C = 5,000": KernelRankSVM(5000.0),
            "Nystrom rbf, 500, C = 5,000": KernelRankSVM(
                5000.0, approximation="nystroem", random_state=0
            ),
        },
    )


def compare(problem: Problem, rng: np.random.Generator) -> dict[str, Numbers]:
    """Evaluate all rankings on the held-out items; return means over the splits."""
    results = [compare_once(*split, problem, rng) for split in problem.splits]
    return {
        ranking: tuple(np.mean([result[ranking] for result in results], axis=0))
        for ranking in results[0]
    }


def compare_once(
    train: RankingData, test: RankingData, problem: Problem, rng: np.random.Generator
) -> dict[str, Numbers]:
    """Train on one part and evaluate all rankings on the other."""

    def evaluate(scores: Array) -> Numbers:
        return (
            pairwise_accuracy(test.truth, scores, test.qid),
            ndcg(test.truth, scores, test.qid, k=10, gain=problem.gain),
        )

    untrained = (np.nan,) * 5
    random = [evaluate(rng.standard_normal(test.n_items)) for _ in range(_N_RANDOM)]
    column, sign = best_feature(train)
    results = {
        "random": (*np.mean(random, axis=0), *untrained),
        "best single feature": (*evaluate(sign * test.X[:, column]), *untrained),
    }
    for label, settings in problem.models.items():
        start = time.perf_counter()
        model = clone(settings).fit(*train)
        seconds = time.perf_counter() - start
        results[label] = (
            *evaluate(model.predict(test.X)),
            model.objective_,
            model.gap_ / model.objective_,
            model.n_iter_,
            model.n_products_,
            seconds,
        )
    return results


def best_feature(data: RankingData) -> tuple[int, float]:
    """Return the feature and the sign (1 or -1) with the highest pairwise accuracy."""
    accuracies = np.array([pairwise_accuracy(data.truth, x, data.qid) for x in data.X.T])
    best = int(np.argmax(np.abs(accuracies - 0.5)))  # a negated feature has 1 - accuracy
    return best, 1.0 if accuracies[best] >= 0.5 else -1.0


def table_of(results: Mapping[str, Numbers]) -> str:
    """Return a plain-text table with one line per ranking."""
    formats = list(_COLUMNS.values())[1:]
    rows = [[ranking, *map(_cell, formats, numbers)] for ranking, numbers in results.items()]
    return format_table(list(_COLUMNS), rows, [column != "ranking" for column in _COLUMNS])


def _cell(form: str, value: float) -> str:
    return "-" if np.isnan(value) else form.format(value)


def _stream(seed: int, purpose: int) -> np.random.Generator:
    """Return a random number generator for one purpose, independent of the others."""
    return np.random.default_rng([seed, purpose])


if __name__ == "__main__":
    sys.exit(main())
