"""Figures 1-4 of "Training linear ranking SVMs in linearithmic time using red-black trees".

One iteration, training, memory and test error by the number of items m: the paper's algorithm with
every counting, and ours.  :mod:`benchmarks.papers.measure.tree` says how they are measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks import sets
from benchmarks.papers.jobs import Runner
from benchmarks.papers.measure.tree import EPS, pair_bytes, plane_bytes
from benchmarks.papers.report import Curve, Panel, Report
from benchmarks.papers.tree_series import (
    COUNTINGS,
    EXPLICIT,
    FITTED_FROM,
    LARGEST,
    OURS,
    Series,
    exponent,
    extrapolated,
    measured_memory,
    measured_series,
    most_items,
)
from benchmarks.report import Row
from ranksvm.learners.settings import solvers_for

NAME = "tree"
TITLE = "Linear ranking SVMs in linearithmic time: one iteration, training, memory, test error"
SOURCE = (
    "Airola, Pahikkala & Salakoski, Training linear ranking SVMs in linearithmic time using "
    "red-black trees, 2011"
)

# Section 5.2 of the paper, all for Reuters with 512,000 items; seconds.
PUBLISHED_ITERATION = {"tree": 7.0, "pairs": 2_760.0}
PUBLISHED_TRAINING = {"tree": 18 * 60.0, "joachims": 83 * 3600.0, "pairs": 122 * 3600.0}
PUBLISHED_NAME = {"tree": "TreeRSVM", "joachims": "SVM^rank", "pairs": "PairRSVM"}
# Section 5.1.
THEIR_COMPUTER = "a 2.4 GHz Core 2 Duo E6600 with Ubuntu 10.10"

# The real sets, if they are there.
SETS = {
    "cadata": f"cadata (standardised by the training rows, lambda = {sets.CADATA_LAMBDA:g})",
    "reuters21578": "Reuters-21578 (tf-idf over all its documents, utility = product with one "
    f"held-out document, lambda = {sets.REUTERS_LAMBDA:g})",
}

# Fits that are shown in more detail.
SHOWN = {
    "bmrm tree": "BMRM, tree",
    "ours hinge": "ours, hinge",
    "ours squared_hinge": "ours, squared hinge",
}
# Peaks of memory are nearly equal when they differ by no more than this part.
NEARLY_EQUAL = 0.05
# Exponents that are called almost linear and quadratic.
ALMOST_LINEAR, QUADRATIC = 1.3, 1.6
ITEMS = "items m"
# This set has a figure of training times of its own, so that the picture has two panels.
OWN_FIGURE = "reuters21578"


def run(runner: Runner, report: Report) -> None:
    all_series = measured_series(runner, report)
    _introduction(runner, report, all_series)
    _iterations(report, all_series)
    _growth(report, all_series)
    _training(runner, report, all_series)
    _at_largest(report, all_series[-1])
    _memory(runner, report)
    _errors(report, all_series)


def _introduction(runner: Runner, report: Report, all_series: Sequence[Series]) -> None:
    generated = all_series[-1]
    tests = {series.name: series.fits[series.largest]["test items"] for series in all_series}
    real = "; ".join(SETS[series.name] for series in all_series if series.real)
    published = {"cadata": sets.CADATA_TEST, "Reuters": sets.REUTERS_LIKE_TEST}
    features = generated.fits[generated.largest]["features"]
    report.say(
        (f"Real sets: {real}. " if real else "")
        + f"In place of the paper's Reuters collection (RCV1) there is {generated.name}: generated "
        f"documents of Zipf-distributed words, {features:,} features, lambda = "
        f"{sets.REUTERS_LAMBDA:g}, up to {generated.largest:,} documents. Test items: "
        f"{_listed(tests)}; in the paper {_listed(published)}. Every set is one global ranking."
    )
    report.say(
        "BMRM is the paper's Algorithm 1 (cutting planes, no line search, all planes kept) inside "
        "this library, with the counting exchanged; its products with X and its small quadratic "
        f"program are ours. It stops by the paper's rule, a gap in J below {EPS:g} with "
        "J = mean hinge + lambda |w|^2. Ours are the library's fits with default solvers "
        f"({solvers_for('hinge')[0]} for the hinge, {solvers_for('squared_hinge')[0]} for the "
        f"squared hinge) and counting, to a certified relative gap of {EPS:g}; J is at most 1 at "
        "the optimum, so this is never looser. One thread unless stated otherwise. Published times "
        f"are those of the authors' programs on {THEIR_COMPUTER}."
    )
    iterations = [
        {end["iterations"] for name, end in found["methods"].items() if name.startswith("bmrm")}
        for series in all_series
        for found in series.fits.values()
    ]
    if all(len(numbers) == 1 for numbers in iterations):
        report.say("With every counting BMRM makes the same number of iterations.")
    slow = ", ".join(
        f"{c} above {most_items(runner, c, trained=False):,} items "
        f"({most_items(runner, c, trained=True):,} in training)"
        for c in COUNTINGS
        if most_items(runner, c, trained=False) < generated.largest
    )
    if slow:
        report.say(f"Quadratic countings are not measured at the larger sizes: {slow}.")


def _iterations(report: Report, all_series: Sequence[Series]) -> None:
    panels = []
    for series in all_series:
        curves = [Curve(_name(c), _points(series.iteration(c))) for c in (*COUNTINGS, OURS)]
        if not series.real:
            curves += _published(PUBLISHED_ITERATION)
        panels.append(Panel(series.title, curves, ITEMS, "seconds"))
    how = "At the coefficients of a finished fit; one thread; medians."
    report.figure("Figure 1: loss and subgradient once, products with X included", panels, how)
    for title, times in (
        ("Figure 1: seconds of loss and subgradient, products with X included", Series.iteration),
        ("The same without the products: counting only", Series.counting),
    ):
        rows = []
        for series in all_series:
            by_counting = {c: times(series, c) for c in (*COUNTINGS, OURS)}
            for m in series.sizes:
                row: Row = {"set": series.name, "m": m}
                row |= {_name(c): found.get(m) for c, found in by_counting.items()}
                row["tree / ours"] = by_counting["tree"][m] / by_counting[OURS][m]
                rows.append(row)
        report.table(title, rows, how)


def _growth(report: Report, all_series: Sequence[Series]) -> None:
    rows = []
    for series in all_series:
        for counting in (*COUNTINGS, OURS):
            method = "ours hinge" if counting == OURS else f"bmrm {counting}"
            alone = series.counting(counting)
            rows.append(
                {
                    "set": series.name,
                    "counting": _name(counting),
                    "largest m": max(alone),
                    "in training": max(series.of_fits(method), default=None),
                    "counting only": exponent(alone),
                    "with the products": exponent(series.iteration(counting)),
                    "training": exponent(series.of_fits(method)),
                }
            )
    report.table(
        "Growth exponents: seconds grow like m to this power",
        rows,
        f"Least squares over the sizes from {FITTED_FROM:,} on (all, if fewer than two are that "
        'large). Training is by BMRM, for "ours" by our hinge fit.',
    )
    generated = all_series[-1]
    found = {c: exponent(generated.of_fits(f"bmrm {c}")) or np.nan for c in ("tree", "pairs")}
    report.find(
        "Airola et al., section 5.2: training with tree counting takes almost linear time, with "
        f"pairwise counting quadratic time. Growth exponents with generated documents: "
        f"{found['tree']:.2f} and {found['pairs']:.2f}.",
        agrees=bool(found["tree"] <= ALMOST_LINEAR and found["pairs"] >= QUADRATIC),
    )
    if any(series.name == "cadata" for series in all_series):
        distinct = len(np.unique(sets.cadata_split(sets.LARGEST_REAL)[0].y))
        report.say(
            f"cadata has ties: {distinct:,} different utilities among {sets.LARGEST_REAL:,} items. "
            "Direct and Joachims' counting are O(m k) for k different ones, less than quadratic."
        )


def _training(runner: Runner, report: Report, all_series: Sequence[Series]) -> None:
    labels = _methods(runner)
    panels = {}
    for series in all_series:
        # Direct counting, which the paper does not have, is only in the table.
        shown = {method: label for method, label in labels.items() if method != "bmrm direct"}
        curves = [Curve(label, _points(series.of_fits(method))) for method, label in shown.items()]
        if not series.real:
            curves += _published(PUBLISHED_TRAINING)
        panels[series.name] = Panel(series.title, curves, ITEMS, "seconds of training")
    own = panels.pop(OWN_FIGURE, None)
    report.figure(
        "Figure 2: seconds of training",
        list(panels.values()),
        f"Seconds of training: BMRM to a gap of {EPS:g} in J, ours to a relative gap of {EPS:g}; "
        f"one thread unless stated otherwise. Published: {LARGEST:,} items of RCV1, "
        f"{THEIR_COMPUTER}.",
        picture="papers_time",
    )
    if own is not None:
        report.figure(f"Figure 2 for {OWN_FIGURE}", [own])
    rows, ends = [], []
    what = ("iterations", "products", "J", "gap in J", "status", "rounds")
    for series in all_series:
        for m in series.sizes:
            where: Row = {"set": series.name, "m": m}
            found = series.fits[m]["methods"]
            seconds = {name: end["seconds"] for name, end in found.items()}
            row = where | {label: seconds.get(name) for name, label in labels.items()}
            row["BMRM, tree / ours, hinge"] = seconds["bmrm tree"] / seconds["ours hinge"]
            rows.append(row)
            for name, label in SHOWN.items():
                ends.append(where | {"method": label} | {key: found[name][key] for key in what})
    report.table("Figure 2: seconds of training", rows)
    report.table(
        "How the fits ended",
        ends,
        'J and its gap are certified; "stopped": by the paper\'s rule. J of the squared hinge has '
        "the mean of the squares. Seconds are medians over the rounds.",
    )


def _at_largest(report: Report, series: Series) -> None:
    """Everything at the largest size, measured or extrapolated, beside the published times."""
    m = series.largest
    is_published_size = m == LARGEST
    iterations = series.of_fits("bmrm tree", "iterations")[m]
    products = series.iterations[m]["products"]
    trained = series.of_fits("bmrm tree")[m]
    rows: list[Row] = []
    for counting in COUNTINGS:
        alone = series.counting(counting)
        measured = m in alone and m in series.of_fits(f"bmrm {counting}")
        once = alone[m] if m in alone else extrapolated(alone, m)
        more = iterations * (once - series.counting("tree")[m])
        fit = series.of_fits(f"bmrm {counting}")[m] if measured else trained + more
        row: Row = {"method": f"BMRM, {counting}", "one iteration, s": once + products}
        if is_published_size:
            row["published iteration, s"] = PUBLISHED_ITERATION.get(counting)
        row["training"] = _clock(fit)
        if is_published_size and counting in PUBLISHED_TRAINING:
            published = _clock(PUBLISHED_TRAINING[counting])
            row["published training"] = f"{published} ({PUBLISHED_NAME[counting]})"
        row["how"] = "measured" if measured else f"extrapolated from m = {max(alone):,}"
        rows.append(row)
    rows.append(
        {
            "method": SHOWN["ours hinge"],
            "one iteration, s": series.iteration(OURS)[m],
            "training": _clock(series.of_fits("ours hinge")[m]),
            "how": "measured",
        }
    )
    squared = series.of_fits("ours squared_hinge")[m]
    rows.append(
        {"method": SHOWN["ours squared_hinge"], "training": _clock(squared), "how": "measured"}
    )
    report.table(
        f"{series.name}, {m:,} items",
        rows,
        "Extrapolated: the last measured evaluation, grown with the exponent of counting only; "
        f"training: as many of them as BMRM with the tree made ({iterations}). SVM^rank counts as "
        "joachims does.",
    )
    _compare_times(report, series)


def _compare_times(report: Report, series: Series) -> None:
    m = series.largest
    ours = series.of_fits("ours hinge")[m]
    bmrm = series.of_fits("bmrm tree")[m]
    text = (
        f"With {m:,} generated documents our hinge fit takes {_clock(ours)} with one thread, "
        f"{_faster(ours, bmrm)} than the paper's algorithm with tree counting inside this library "
        f"({_clock(bmrm)}); our squared hinge takes "
        f"{_clock(series.of_fits('ours squared_hinge')[m])}."
    )
    if m != LARGEST:
        report.say(f"{text} The published times are for {LARGEST:,} items.")
        return
    published, published_once = PUBLISHED_TRAINING["tree"], PUBLISHED_ITERATION["tree"]
    once = series.iteration("tree")[m]
    iterations = series.of_fits("bmrm tree", "iterations")[m]
    report.find(
        f"{text} The authors' TreeRSVM took {_clock(published)} on {THEIR_COMPUTER}, for other "
        f"documents of the same number: our hinge fit is {_faster(ours, published)}.",
        agrees=None,
    )
    report.say(
        "That factor contains the computer and the data: one iteration with the tree takes "
        f"{published_once:g} s there and {once:.2g} s here, and {_clock(published)} are about "
        f"{published / published_once:.0f} such iterations, where BMRM here makes {iterations}. "
        "The ratio of the times of one iteration, times what our fit gains over BMRM here, is "
        f"{published_once / once * bmrm / ours:.3g}."
    )


def _memory(runner: Runner, report: Report) -> None:
    memory = measured_memory(runner)
    sizes, data = memory.sizes, memory.data
    labels = {**_methods(runner), EXPLICIT: EXPLICIT}
    peaks = {label: memory.peak(method) for method, label in labels.items()}
    peaks = {label: by_size for label, by_size in peaks.items() if by_size}
    curves = [Curve(label, _points(by_size)) for label, by_size in peaks.items()]
    curves.append(Curve("only the data", _points(data)))
    report.figure(
        "Figure 3: peak memory of training",
        [Panel("reuters-like (generated)", curves, ITEMS, "MB")],
        "X, y and what the fit adds to them at its peak, in a process of its own, without the "
        "interpreter and its libraries.",
    )
    rows = []
    for m in sizes:
        row: Row = {"m": m, "data, MB": data[m]}
        row |= {f"{label}, MB": by_size.get(m) for label, by_size in peaks.items()}
        row["pairs by formula, MB"] = memory.by_formula(m)
        row["ours, hinge / data"] = memory.peak("ours hinge")[m] / data[m]
        rows.append(row)
    report.table(
        "Figure 3: peak memory of training, reuters-like",
        rows,
        "Explicit pairs: a sparse matrix with two entries for each pair, as in PRSVM, and one "
        f"gradient with it; measured up to {max(memory.peak(EXPLICIT)):,} items. By formula, not "
        f"measured: the data and that matrix, {pair_bytes(1)} bytes a pair. Published (section "
        "5.2): PRSVM takes several GB at 8,000 items, TreeRSVM keeps two copies of X.",
    )
    first, last = sizes[0], sizes[-1]
    tree = memory.peak("bmrm tree")
    ours, bundle = (by[last] / data[last] for by in (memory.peak("ours hinge"), tree))
    small = memory.found["bmrm tree", first]
    planes = plane_bytes(small["iterations"], small["features"]) / 1e6
    report.say(
        f"At {last:,} items the peak of our hinge fit is {ours:.2f} times the data, that of BMRM "
        f"with tree counting {bundle:.2f} times. A matrix of all pairs would take, with the data, "
        f"{memory.by_formula(last) / 1e3:,.4g} GB. At {first:,} items BMRM with tree counting "
        f"keeps {small['iterations']} cutting planes, vectors of {small['features']:,} numbers: "
        f"{planes:.3g} MB of its peak of {tree[first]:.3g} MB."
    )
    others = [counting for counting in COUNTINGS if counting != "tree"]
    apart, where = max(
        (abs(peak / tree[m] - 1.0), f"{counting}, {m:,} items")
        for counting in others
        for m, peak in memory.peak(f"bmrm {counting}").items()
    )
    report.find(
        "Airola et al., section 5.2: PairRSVM has almost identical memory consumption as TreeRSVM. "
        f"Here the peaks of BMRM with other countings ({', '.join(others)}) differ from that with "
        f"the tree by up to {100 * apart:.1f}% ({where}).",
        agrees=apart <= NEARLY_EQUAL,
    )
    if not all(result["exact"] for result in memory.found.values()):
        report.say("The peak could not be reset before a fit: what fits add is a lower bound.")


def _errors(report: Report, all_series: Sequence[Series]) -> None:
    panels, rows = [], []
    for series in all_series:
        errors = {label: series.of_fits(method, "test error") for method, label in SHOWN.items()}
        curves = [Curve(label, _points(found)) for label, found in errors.items()]
        panels.append(Panel(series.title, curves, ITEMS, "pairwise test error", log="x"))
        for m in series.sizes:
            row: Row = {"set": series.name, "m": m, "test items": series.fits[m]["test items"]}
            rows.append(row | {label: found[m] for label, found in errors.items()})
    report.figure(
        "Figure 4: pairwise error on test items",
        panels,
        "Share of the test pairs in the wrong order; equal scores count half.",
    )
    report.table("Figure 4: pairwise error on test items", rows)
    tree, hinge, squared = SHOWN.values()
    hinges = max(rows, key=lambda row: abs(row[hinge] - row[tree]))
    losses = max(rows, key=lambda row: abs(row[squared] - row[hinge]))
    better = sum(row[squared] < row[hinge] for row in rows)
    report.say(
        f"The test errors of the two hinge fits, which stop at different gaps, differ by up to "
        f"{abs(hinges[hinge] - hinges[tree]):.2g} ({hinges['set']}, m = {hinges['m']:,}). The "
        f"squared hinge differs from our hinge by up to {abs(losses[squared] - losses[hinge]):.2g} "
        f"({losses['set']}, m = {losses['m']:,}) and is better in {better} of {len(rows)} cases; "
        "lambda is the same for both, but weighs the two losses differently."
    )


# --- Words and numbers ----------------------------------------------------------------------------


def _methods(runner: Runner) -> dict[str, str]:
    labels = {f"bmrm {counting}": f"BMRM, {counting}" for counting in COUNTINGS} | SHOWN
    if runner.threads > 1:
        labels["ours hinge threaded"] = f"ours, hinge, {runner.threads} threads"
    return labels


def _listed(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in numbers.items())


def _name(counting: str) -> str:
    return "ours" if counting == OURS else counting


def _points(by_size: Mapping[int, float]) -> list[tuple[float, float]]:
    return [(float(m), value) for m, value in by_size.items()]


def _published(seconds: Mapping[str, float]) -> list[Curve]:
    return [
        Curve(f"{PUBLISHED_NAME[counting]}, published", [(LARGEST, found)], "published")
        for counting, found in seconds.items()
    ]


def _clock(seconds: float) -> str:
    for unit, length in (("h", 3600.0), ("min", 60.0), ("s", 1.0)):
        if seconds >= (2.0 * length if length > 1.0 else 1.0):
            return f"{seconds / length:.3g} {unit}"
    return f"{1e3 * seconds:.3g} ms"


def _faster(ours: float, other: float) -> str:
    """Say how much faster or slower ours is."""
    factor = other / ours
    return f"{factor:.3g} times faster" if factor >= 1.0 else f"{1.0 / factor:.3g} times slower"
