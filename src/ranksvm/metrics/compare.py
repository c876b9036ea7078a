"""Comparison of rankings of the same items.

Two rankings are compared by the differences of a metric, query by query: their mean with its
confidence interval, wins and losses, and two tests, corrected for the number of comparisons (see
``significance``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranksvm._checks import check_choice, check_integer
from ranksvm._text import format_table, printable
from ranksvm._vectors import Array
from ranksvm.metrics.evaluate import frame
from ranksvm.metrics.ranked import Truth
from ranksvm.metrics.registry import Metric, parse_metrics
from ranksvm.metrics.significance import holm, randomization_test, t_test

# Smaller differences are rounding errors and count as zero; metrics are of the order of 1.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class ComparisonRow:
    """Comparison of one ranking with a baseline by one metric.

    Attributes
    ----------
    metric, ranking, baseline : str
    mean, baseline_mean : float
        Mean of the metric over the queries that count.
    difference : float
        ``mean - baseline_mean``, computed as the mean of the differences by query.
    low, high : float
        95% confidence interval of the difference, from the t distribution; NaN for a single query.
    wins, losses, ties : int
        Number of queries in which the ranking is better than the baseline, worse, or equal (up to
        1e-12).
    t_test, randomization : float
        p-values; NaN for the t-test of a single query.
    t_test_holm, randomization_holm : float
        The same, corrected for all rows of the comparison.
    note : str
        Remark on special cases.
    """

    metric: str
    ranking: str
    baseline: str
    mean: float
    baseline_mean: float
    difference: float
    low: float
    high: float
    wins: int
    losses: int
    ties: int
    t_test: float
    t_test_holm: float
    randomization: float
    randomization_holm: float
    note: str = ""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Result of :func:`compare`; ``print`` shows it as a table.

    Attributes
    ----------
    rows : tuple of ComparisonRow
    ids : ndarray of shape (n_queries,)
        Query ids in order of first appearance.
    by_query : mapping of (metric, ranking) to ndarray of shape (n_queries,)
        Values by query; NaN for queries that are left out of the mean.
    n_permutations : int
    """

    rows: tuple[ComparisonRow, ...]
    ids: NDArray[Any]
    by_query: Mapping[tuple[str, str], Array]
    n_permutations: int

    def differences(self, row: ComparisonRow) -> Array:
        """Return ranking minus baseline by query; NaN for queries that are left out."""
        found = self.by_query
        return found[row.metric, row.ranking] - found[row.metric, row.baseline]

    @property
    def n_counted(self) -> dict[str, int]:
        """Number of queries that count, by metric."""
        return {row.metric: row.wins + row.losses + row.ties for row in self.rows}

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] = "pandas") -> Any:
        """Convert to a data frame or an Arrow table; the columns are the fields of the rows."""
        names = [field.name for field in fields(ComparisonRow)]
        columns = {name: [getattr(row, name) for row in self.rows] for name in names}
        return frame(columns, backend, "to_dict")

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain data that can be written as JSON."""
        return {
            "rows": [asdict(row) for row in self.rows],
            "n_queries": len(self.ids),
            "n_counted": self.n_counted,
            "n_permutations": self.n_permutations,
        }

    def __str__(self) -> str:
        table = format_table(_HEADER, [_cells(row) for row in self.rows], _RIGHT)
        legend = _LEGEND.format(queries=self._queries(), permutations=self.n_permutations)
        notes = [
            f"{row.metric}, {printable(row.ranking)} - {printable(row.baseline)}: {row.note}"
            for row in self.rows
            if row.note
        ]
        return "\n".join([table, "", legend, *notes])

    def _queries(self) -> str:
        """Describe how many queries there are, and how many of them count for each metric."""
        total = len(self.ids)
        by_count: dict[int, list[str]] = {}
        for metric, counted in self.n_counted.items():
            by_count.setdefault(counted, []).append(metric)
        if set(by_count) == {total}:
            return f"{total} queries"
        parts = [f"{counted} count for {', '.join(names)}" for counted, names in by_count.items()]
        return f"{total} queries, of which {'; '.join(parts)}"


_HEADER = (
    "metric", "ranking", "baseline", "mean", "base mean", "difference", "95% interval",
    "win/loss/tie", "t-test", "Holm", "random", "Holm",
)  # fmt: skip
_RIGHT = [name not in ("metric", "ranking", "baseline") for name in _HEADER]
_LEGEND = (
    "{queries}.\ndifference: ranking minus baseline. t-test, random: p-values of the paired t-test "
    "and of the\nrandomization test (up to {permutations} permutations). Holm: the same, corrected "
    "for all rows."
)


def _cells(row: ComparisonRow) -> tuple[str, ...]:
    return (
        row.metric,
        printable(row.ranking),
        printable(row.baseline),
        f"{row.mean:.4f}",
        f"{row.baseline_mean:.4f}",
        f"{row.difference:+.4f}",
        "-" if np.isnan(row.low) else f"[{row.low:+.4f}, {row.high:+.4f}]",
        f"{row.wins}/{row.losses}/{row.ties}",
        *(
            "-" if np.isnan(p) else f"{p:.4f}" if p >= 1e-4 else "<0.0001"
            for p in (row.t_test, row.t_test_holm, row.randomization, row.randomization_holm)
        ),
    )


def compare(
    y: ArrayLike,
    scores: Mapping[str, ArrayLike] | Sequence[ArrayLike],
    qid: ArrayLike | None = None,
    *,
    metrics: str | Metric | Iterable[str | Metric] = "ndcg@10",
    baseline: str | None = None,
    n_permutations: int = 10_000,
    random_state: int = 0,
    conventions: str = "standard",
) -> Comparison:
    """Compare two or more rankings of the same items, query by query.

    Parameters
    ----------
    y : array-like of shape (n_items,)
        Labels; larger is better.
    scores : mapping of str to array-like of shape (n_items,), or sequence of array-likes
        Scores of at least two rankings; -inf marks items that were not retrieved.  Rankings in a
        sequence are called "ranking 1", "ranking 2", ...
    qid : array-like of shape (n_items,) or None, default=None
        Query id of each item, in any row order.  None ranks all items together, as a single query,
        about which the tests can say little.
    metrics : str or sequence of str, default="ndcg@10"
        Names of metrics.
    baseline : str or None, default=None
        Ranking to compare all others with.  None compares all pairs, with the earlier one as the
        baseline.
    n_permutations : int, default=10000
        Number of random choices of signs in the randomization test, if there are too many for all.
    random_state : int, default=0
        Seed of the randomization test, the same for every row.
    conventions : {"standard", "letor"}, default="standard"
        As in :func:`ranksvm.metrics.evaluate`.

    Returns
    -------
    Comparison
        One row per metric and pair.

    Raises
    ------
    ValueError
        If there are fewer than two rankings, a metric is undefined for all queries, or an argument
        is invalid.

    Examples
    --------
    >>> from ranksvm.metrics import compare
    >>> y, qid = [1, 0, 1, 0, 0, 1], ["a", "a", "b", "b", "c", "c"]
    >>> scores = {"old": [0, 1, 0, 1, 0, 1], "new": [1, 0, 1, 0, 1, 0]}
    >>> found = compare(y, scores, qid, metrics="map")
    >>> row = found.rows[0]
    >>> row.ranking, row.baseline, round(row.difference, 4), row.wins, row.losses
    ('new', 'old', 0.1667, 2, 1)
    """
    parsed = parse_metrics(metrics)
    named = _named(scores)
    pairs = _pairs(list(named), baseline)
    n_permutations = check_integer("n_permutations", n_permutations)
    random_state = check_integer("random_state", random_state, 0, math.inf)

    truth = Truth(y, qid)
    rankings = {name: truth.ranked(values, f"scores of {name!r}") for name, values in named.items()}
    by_query = {
        (metric.name, name): metric.by_query(ranked, conventions)
        for metric in parsed
        for name, ranked in rankings.items()
    }
    rows = [
        _row(metric, by_query, pair, n_permutations, random_state)
        for metric in parsed
        for pair in pairs
    ]
    t_holm = holm([row.t_test for row in rows])
    r_holm = holm([row.randomization for row in rows])
    corrected = tuple(
        replace(row, t_test_holm=float(t), randomization_holm=float(r))
        for row, t, r in zip(rows, t_holm, r_holm, strict=True)
    )
    return Comparison(corrected, truth.groups.ids, by_query, n_permutations)


def _row(
    metric: Metric,
    by_query: Mapping[tuple[str, str], Array],
    pair: tuple[str, str],
    n_permutations: int,
    seed: int,
) -> ComparisonRow:
    """Compare the second ranking of a pair with the first; p-values are not yet corrected."""
    first, second = pair
    values, baseline = by_query[metric.name, second], by_query[metric.name, first]
    mean, baseline_mean = metric.mean(values), metric.mean(baseline)
    difference = values - baseline
    difference = difference[~np.isnan(difference)]
    difference[np.abs(difference) < _ROUNDING] = 0.0
    tested = t_test(difference)
    return ComparisonRow(
        metric=metric.name,
        ranking=second,
        baseline=first,
        mean=mean,
        baseline_mean=baseline_mean,
        difference=float(difference.mean()),
        low=tested.low,
        high=tested.high,
        wins=int((difference > 0.0).sum()),
        losses=int((difference < 0.0).sum()),
        ties=int((difference == 0.0).sum()),
        t_test=tested.p,
        t_test_holm=np.nan,
        randomization=randomization_test(difference, n_permutations, seed),
        randomization_holm=np.nan,
        note=tested.note,
    )


def _named(scores: Mapping[str, ArrayLike] | Sequence[ArrayLike]) -> dict[str, ArrayLike]:
    if isinstance(scores, Mapping):
        named = {str(name): values for name, values in scores.items()}
        if len(named) < len(scores):
            raise ValueError(f"two rankings have the same name; got {list(scores)}.")
    else:
        named = {f"ranking {i}": values for i, values in enumerate(scores, start=1)}
    if len(named) < 2:
        raise ValueError(
            f"compare needs at least two rankings; got {len(named)}. Give a dict from names to "
            "scores, or a list of scores."
        )
    return named


def _pairs(names: list[str], baseline: str | None) -> list[tuple[str, str]]:
    """List the pairs of a baseline and another ranking."""
    if baseline is None:
        return list(combinations(names, 2))
    check_choice("baseline", baseline, names)
    return [(baseline, name) for name in names if name != baseline]
