"""Choices by validation alone, and what they are worth on the test parts.

For a family of models and a criterion, every fold takes the C and gamma whose criterion is best on
its validation part (of equals the smallest C, then the smallest gamma).  Means and standard
deviations are over the folds, each fold a mean over its test queries, by LETOR's definitions.
Differences between models are tested query by query over all test parts, which together are the
whole set, each query once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from benchmarks.common import SEED
from benchmarks.folds import letor_fold
from benchmarks.papers.cells import Result
from benchmarks.papers.published import NAMES, Published
from benchmarks.report import Row
from ranksvm.metrics import compare, evaluate

__all__ = [
    "Tuned",
    "best_of",
    "choose",
    "n_significant",
    "plain_verdict",
    "significance",
    "spread",
    "verdict",
]

PERMUTATIONS = 10_000


@dataclass(frozen=True, eq=False)
class Tuned:
    """A family of models, tuned.

    Attributes
    ----------
    name : str
        Of the set.
    label : str
        Of the family.
    criterion : str
        The metric that was best on validation.
    folds : sequence of int
        From 0.
    scores : sequence of ndarray
        Of the test items, by fold.
    valid : sequence of float
        The criterion on the validation part, by fold.
    chosen : sequence of tuple
        The candidate, by fold: (log2 C, log2 gamma), (log2 C,) or the like.
    stopped : sequence of bool
        Whether the fit that was chosen had been ended before its tolerance, by fold.
    n_candidates, n_stopped : int
        How many there were on all folds, and how many of them had been ended early.
    largest_gap : float
        Relative, of all candidates; 0 where gaps are not known.
    """

    name: str
    label: str
    criterion: str
    folds: Sequence[int]
    scores: Sequence[Any]
    valid: Sequence[float]
    chosen: Sequence[tuple[float, ...]]
    stopped: Sequence[bool]
    n_candidates: int = 0
    n_stopped: int = 0
    largest_gap: float = 0.0

    def by_fold(self, metric: str) -> list[float]:
        """Of the test parts."""
        return [found[metric] for found in self._metrics]

    def mean(self, metric: str) -> float:
        return float(np.mean(self.by_fold(metric)))

    def deviation(self, metric: str) -> float:
        """Standard deviation over the folds; 0 if there is one."""
        values = self.by_fold(metric)
        return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0

    def told_mean(self, metric: str) -> str:
        """Mean ± standard deviation; the value alone if there is one fold."""
        mean = f"{self.mean(metric):.4f}"
        return mean if len(self.folds) == 1 else f"{mean} ± {self.deviation(metric):.4f}"

    @property
    def told(self) -> str:
        """The choices in short."""
        return " ".join(
            f"({', '.join(f'{number:g}' for number in one)})" if len(one) > 1 else f"{one[0]:g}"
            for one in self.chosen
        )

    @cached_property
    def _metrics(self) -> list[Mapping[str, float]]:
        found = []
        for fold, scores in zip(self.folds, self.scores, strict=True):
            _, y, groups = letor_fold(self.name, fold).test
            found.append(evaluate(y, scores, groups.index, list(NAMES), conventions="letor"))
        return found


def choose(
    name: str, label: str, folds: Sequence[int], results: Sequence[Result], criterion: str
) -> Tuned:
    """Take the best on validation, fold by fold.

    Parameters
    ----------
    results : sequence of mappings
        Cells, as many for each fold, fold after fold.  Each has some ``candidates`` (lists of
        numbers), what they reach on the validation part, ``valid[criterion]``, and their scores of
        the test part, ``test``; those that were ended early are ``stopped``.
    """
    best = []
    for places in np.array_split(np.arange(len(results)), len(folds)):
        entries = (
            (result["valid"][criterion][k], tuple(candidate), result, k)
            for result in (results[place] for place in places)
            for k, candidate in enumerate(result["candidates"])
        )
        best.append(max(entries, key=lambda one: (one[0], [-number for number in one[1]])))
    return Tuned(
        name,
        label,
        criterion,
        list(folds),
        scores=[result["test"][k] for *_, result, k in best],
        valid=[value for value, *_ in best],
        chosen=[candidate for _, candidate, *_ in best],
        stopped=[bool(result["stopped"][k]) for *_, result, k in best],
        n_candidates=sum(len(result["candidates"]) for result in results),
        n_stopped=sum(sum(result["stopped"]) for result in results),
        largest_gap=max(max(result.get("gaps", [0.0])) for result in results),
    )


def best_of(models: Sequence[Tuned]) -> Tuned:
    """Let every fold choose among models, tuned by the same criterion, on its validation part."""
    first = models[0]
    picks = [max(models, key=lambda model: model.valid[place]) for place in range(len(first.folds))]

    def each(attribute: str) -> list[Any]:
        return [getattr(model, attribute)[place] for place, model in enumerate(picks)]

    return Tuned(
        first.name,
        "chosen on validation: " + "; ".join(model.label for model in picks),
        first.criterion,
        first.folds,
        each("scores"),
        each("valid"),
        each("chosen"),
        each("stopped"),
    )


def spread(tuned: Tuned, metrics: Sequence[str]) -> dict[str, str]:
    """Means with standard deviations, as cells of a table."""
    return {NAMES[metric]: tuned.told_mean(metric) for metric in metrics}


def verdict(ours: float, theirs: float) -> str:
    """Better or worse, to four digits."""
    difference = round(ours, 4) - theirs
    if abs(difference) < 5e-5:
        return "equal"
    return f"{'better' if difference > 0 else 'worse'} by {abs(difference):.4f}"


def plain_verdict(model: Tuned, published: Published) -> str:
    """Say in words how a model of ours compares with a published row."""
    words = []
    for metric, theirs in published.values.items():
        difference = round(model.mean(metric), 4) - theirs
        noise = model.deviation(metric) / np.sqrt(len(model.folds))
        word = f"{'better' if difference > 0 else 'worse'} by {abs(difference):.4f}"
        if abs(difference) < 5e-5:
            word = "equal"
        elif abs(difference) <= noise:
            word += " (*)"
        words.append(f"{NAMES[metric]} {word}")
    starred = any("(*)" in word for word in words)
    return (
        f"{model.label} against the published {published.method} ({published.source}): "
        f"{', '.join(words)}."
        + (" (*): less than a standard error of our mean over the folds." if starred else "")
    )


def significance(models: Sequence[Tuned], metrics: Sequence[str], baseline: str) -> list[Row]:
    """Compare all models with one of them, query by query; a row by model and metric."""
    first = models[0]
    tests = [letor_fold(first.name, fold).test for fold in first.folds]
    y = np.concatenate([part.y for part in tests])
    qid = np.concatenate([10**6 * k + part.groups.index for k, part in enumerate(tests)])
    tested = compare(
        y, {model.label: np.concatenate(model.scores) for model in models}, qid, metrics=metrics,
        conventions="letor", baseline=baseline, n_permutations=PERMUTATIONS, random_state=SEED,
    )  # fmt: skip
    return [
        {
            "model": row.ranking,
            "against": row.baseline,
            "metric": NAMES[row.metric],
            "difference": f"{row.difference:+.4f}",
            "95% interval": f"{row.low:+.4f} to {row.high:+.4f}",
            "better / worse / same": f"{row.wins} / {row.losses} / {row.ties}",
            "p": _p_value(row.randomization),
            "p, Holm": _p_value(row.randomization_holm),
            "significant": "yes" if row.randomization_holm < 0.05 else "no",
        }
        for row in tested.rows
    ]


def n_significant(rows: Sequence[Row]) -> str:
    """Say how many of the differences are significant, and which way."""
    found = [row for row in rows if row["significant"] == "yes"]
    better = sum(row["difference"].startswith("+") for row in found)
    which = f" ({better} better, {len(found) - better} worse)" if found else ""
    return (
        f"{len(found)} of {len(rows)} differences are significant at 5%{which}, by a randomization "
        "test over all test queries with Holm's correction"
    )


def _p_value(p: float) -> str:
    return "< 0.001" if p < 0.0005 else f"{p:.3f}"
