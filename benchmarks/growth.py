"""Time of a fit against the number of items, for every counting; growth exponents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.common import LOSSES, TOL, Call, Config, growth_exponent, interleave
from benchmarks.fits import floor_seconds
from benchmarks.report import Report, Row
from benchmarks.sets import Task, cadata_like, reuters_like, too_slow
from ranksvm.backends.native import COUNTINGS

TITLE = "time of a fit against the number of items, 1 thread"

# Least size from which growth is judged: below it the fixed costs of a fit show.
JUDGED_FROM = 10_000


@dataclass(frozen=True)
class Family:
    name: str
    make: Callable[[int], Task]
    sizes: tuple[int, ...]


def run(config: Config, report: Report) -> None:
    families = (
        Family(
            "cadata-like",
            cadata_like,
            config.size(
                (1_000, 3_162, 10_000, 31_623, 100_000, 316_228, 1_000_000), (300, 1_000, 3_000)
            ),
        ),
        Family(
            "reuters-like",
            reuters_like,
            config.size((1_000, 4_000, 16_000, 64_000, 512_000), (300, 1_000)),
        ),
    )
    for family in families:
        rows = _family_rows(family, config, report)
        report.table(f"{family.name}: fits to a relative gap of {TOL:g}, 1 thread", rows)
        exponents = _exponents(rows, config)
        report.table(f"{family.name}: growth exponent of the time of a fit", exponents)
        for row in exponents:
            points = [
                (found["m"], found["seconds"])
                for found in rows
                if (found["loss"], found["counting"]) == (row["loss"], row["counting"])
            ]
            report.curve(f"{family.name}, {row['loss']}", str(row["counting"]), points)
        if family.name == "cadata-like":
            _judge(exponents, report)


def _family_rows(family: Family, config: Config, report: Report) -> list[Row]:
    longest = config.size(30.0, 1.0)
    last: dict[str, tuple[int, float]] = {}
    rows: list[Row] = []
    for m in family.sizes:
        task = family.make(m)
        for loss in LOSSES:
            calls = {}
            for counting in COUNTINGS:
                key = f"{loss} {counting}"
                expected = _extrapolate(last.get(key), m)
                reason = too_slow(task, counting)
                if reason is None and expected > longest:
                    reason = f"counting={counting!r} on {task.name}: about {expected:.0f} s"
                if reason is not None:
                    report.note(f"skipped, {loss}: {reason}")
                    continue
                calls[counting] = Call(partial(task.fit, loss, counting=counting))
            timings = interleave(calls, rounds=5, seconds=config.size(15.0, 0.3))
            for counting, timing in timings.items():
                last[f"{loss} {counting}"] = (m, timing.seconds)
                fit = timing.result
                rows.append(
                    {
                        "m": m,
                        "loss": loss,
                        "counting": counting,
                        "seconds": timing.seconds,
                        "products": fit.model.n_products_,
                        "rel gap": fit.relative_gap,
                        "status": fit.model.status_,
                    }
                )
            best = timings["auto"].result
            floor = floor_seconds(task, best.profile, best.model.coef_, 1, config)
            rows.append({"m": m, "loss": loss, "counting": "floor", "seconds": floor})
    return rows


def _extrapolate(last: tuple[int, float] | None, m: int) -> float:
    """Seconds to expect at ``m``; growth is at least linear."""
    return 0.0 if last is None else last[1] * m / last[0]


def _exponents(rows: list[Row], config: Config) -> list[Row]:
    table: list[Row] = []
    least = config.size(JUDGED_FROM, 0)
    for loss in LOSSES:
        mine = [row for row in rows if row["loss"] == loss]
        for counting in dict.fromkeys(row["counting"] for row in mine):
            all_sizes = [row for row in mine if row["counting"] == counting]
            large = [row for row in all_sizes if row["m"] >= least]
            table.append(
                {
                    "loss": loss,
                    "counting": counting,
                    "largest m": max(row["m"] for row in all_sizes),
                    "all sizes": _slope(all_sizes),
                    f"from {least:,}": _slope(large),
                }
            )
    return table


def _slope(rows: list[Row]) -> float | None:
    return growth_exponent([row["m"] for row in rows], [row["seconds"] for row in rows])


def _judge(exponents: list[Row], report: Report) -> None:
    """The goal holds for both losses: the steeper one counts."""
    found = {row["loss"]: list(row.values())[-1] for row in exponents if row["counting"] == "auto"}
    detail = ", ".join(f"{loss} {slope:.2f}" for loss, slope in found.items())
    report.reach("growth", max(found.values()), detail)
