"""Choices on the validation parts, and the quality of what was chosen on the test parts.

For a family of models and a criterion, every fold takes the C and gamma whose criterion is best on
its validation part (of equals the smallest C, then the smallest gamma).  Means and standard
deviations are over the folds, each fold a mean over its test queries, by LETOR's definitions.
Differences between models are tested query by query over all test parts, which together contain
every query of the set once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from benchmarks.common import SEED
from benchmarks.folds import letor_fold
from benchmarks.papers.jobs import Result
from benchmarks.papers.published import NAMES, Published
from benchmarks.report import Row
from ranksvm.metrics import compare, evaluate

PERMUTATIONS = 10_000


@dataclass(frozen=True, eq=False)
class Tuned:
    """A tuned family of models.

    Attributes
    ----------
    name : str
        Name of the set.
    label : str
        Name of the family.
    criterion : str
        The metric to be maximised on validation.
    folds : sequence of int
        Counted from 0.
    scores : sequence of ndarray
        Scores of the test items, by fold.
    valid : sequence of float
        The criterion on the validation part, by fold.
    chosen : sequence of tuple
        The candidate, by fold: (log2 C, log2 gamma), (log2 C,) or the like.
    stopped : sequence of bool
        Whether the chosen fit was stopped before its tolerance, by fold.
    n_candidates, n_stopped : int
        Number of candidates on all folds, and how many of them were stopped early.
    largest_gap : float
        The largest relative gap of all candidates; 0 where gaps are not known.
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
        """Return a metric on the test parts."""
        return [found[metric] for found in self._metrics]

    def mean(self, metric: str) -> float:
        return float(np.mean(self.by_fold(metric)))

    def deviation(self, metric: str) -> float:
        """Standard deviation over the folds; 0 if there is one."""
        values = self.by_fold(metric)
        return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0

    def mean_text(self, metric: str) -> str:
        """Return mean ± standard deviation; the value alone if there is one fold."""
        mean = f"{self.mean(metric):.4f}"
        return mean if len(self.folds) == 1 else f"{mean} ± {self.deviation(metric):.4f}"

    @property
    def choices(self) -> str:
        """The choices of all folds as a text."""
        return " ".join(
            f"({', '.join(f'{number:g}' for number in one)})" if len(one) > 1 else f"{one[0]:g}"
            for one in self.chosen
        )

    @cached_property
    def _metrics(self) -> list[Mapping[str, float]]:
        found = []
        for fold, scores in zip(self.folds, self.scores, strict=True):
            test = letor_fold(self.name, fold).test
            found.append(evaluate(test.truth, scores, test.qid, list(NAMES), conventions="letor"))
        return found


def choose(
    name: str, label: str, folds: Sequence[int], results: Sequence[Result], criterion: str
) -> Tuned:
    """Take the best candidate on validation, fold by fold.

    Parameters
    ----------
    results : sequence of mappings
        Results of jobs: those of the first fold, then equally many of the second, and so on.  Each
        has some ``candidates`` (lists of numbers), their criteria on the validation part,
        ``valid[criterion]``, their scores of the test part, ``test``, and whether they were
        ``stopped`` early.
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


def spread(model: Tuned, metrics: Sequence[str]) -> dict[str, str]:
    """Return means with standard deviations, as cells of a table."""
    return {NAMES[metric]: model.mean_text(metric) for metric in metrics}


def verdict(ours: float, theirs: float) -> str:
    """Say whether a number is better or worse than a published one, to four digits."""
    difference = round(ours, 4) - theirs
    if abs(difference) < 5e-5:
        return "equal"
    return f"{'better' if difference > 0 else 'worse'} by {abs(difference):.4f}"


def within_error(model: Tuned, metric: str, theirs: float) -> bool:
    """Return whether a published number is within a standard error of our mean over the folds."""
    error = model.deviation(metric) / np.sqrt(len(model.folds))
    return abs(round(model.mean(metric), 4) - theirs) <= max(error, 5e-5)


def compare_with(model: Tuned, published: Published) -> str:
    """Say how a model compares with a published row, metric by metric."""
    words = []
    for metric, theirs in published.values.items():
        word = verdict(model.mean(metric), theirs)
        if word != "equal" and within_error(model, metric, theirs):
            word += " (within a standard error)"
        words.append(f"{NAMES[metric]} {word}")
    return (
        f"{model.label} compared with the published {published.method} ({published.source}): "
        f"{', '.join(words)}."
    )


def agreement(pairs: Sequence[tuple[Tuned, Published]]) -> tuple[str, bool]:
    """Say how many published numbers our models reproduce, and whether none is better than ours."""
    within = better = worse = 0
    for model, published in pairs:
        for metric, theirs in published.values.items():
            if within_error(model, metric, theirs):
                within += 1
            elif model.mean(metric) > theirs:
                better += 1
            else:
                worse += 1
    text = (
        f"{within} of {within + better + worse} published numbers are within a standard error of "
        "our mean over the folds"
    )
    if better or worse:
        text += f"; the rest: {better} worse than ours, {worse} better"
    return text, worse == 0


def significance(models: Sequence[Tuned], metrics: Sequence[str], baseline: str) -> list[Row]:
    """Compare all models with one of them, query by query; one row for each model and metric."""
    first = models[0]
    tests = [letor_fold(first.name, fold).test for fold in first.folds]
    y = np.concatenate([part.truth for part in tests])
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


def count_significant(rows: Sequence[Row]) -> str:
    """Say how many of the differences are significant, and which way."""
    found = [row for row in rows if row["significant"] == "yes"]
    better = sum(row["difference"].startswith("+") for row in found)
    which = f" ({better} better, {len(found) - better} worse)" if found else ""
    return f"{len(found)} of {len(rows)} differences are significant at 5%{which}"


def _p_value(p: float) -> str:
    return "< 0.001" if p < 0.0005 else f"{p:.3f}"
