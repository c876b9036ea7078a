"""Figures 1-4 of "Training linear ranking SVMs in linearithmic time using red-black trees".

One iteration, training, memory and test error against the number of items: the paper's algorithm
with every counting, and ours.  :mod:`benchmarks.papers.tree_cells` says how they are measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks import sets
from benchmarks.papers import tree_cells
from benchmarks.papers.cells import Lab
from benchmarks.papers.document import Curve, Document, Panel
from benchmarks.papers.tree_cells import EPS
from benchmarks.papers.tree_families import (
    COUNTINGS,
    EXPLICIT,
    JUDGED_FROM,
    LARGEST,
    OURS,
    Family,
    Memory,
    exponent,
    extrapolated,
    measured_families,
    measured_memory,
    most_items,
)
from benchmarks.report import Row
from ranksvm.learners import AUTO_SOLVER

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
THEIR_MACHINE = "a 2.4 GHz Core 2 Duo E6600 with Ubuntu 10.10"

# The real sets, where they are there.
SETS = {
    "cadata": f"cadata (standardised by the rows to learn from, lambda = {sets.CADATA_LAMBDA:g})",
    "reuters21578": "Reuters-21578 (tf-idf over all its documents, utility = product with one "
    f"held-out document, lambda = {sets.REUTERS_LAMBDA:g})",
}

# Fits that are looked at more closely.
SHOWN = {
    "bmrm tree": "BMRM, tree",
    "ours hinge": "ours, hinge",
    "ours squared_hinge": "ours, squared hinge",
}
# Peaks of memory are alike when they differ by no more than this part.
ALIKE = 0.05
ITEMS = "items m"
# The picture of the training times has two panels; this set has one of its own.
LEFT_OUT = "reuters21578"


def run(lab: Lab, document: Document) -> None:
    families = measured_families(lab, document)
    _introduce(lab, document, families)
    _iterations(document, families)
    _growth(document, families)
    _training(lab, document, families)
    _at_largest(document, families[-1])
    _memory(lab, document)
    _errors(document, families)


# --- Telling --------------------------------------------------------------------------------------


def _introduce(lab: Lab, document: Document, families: Sequence[Family]) -> None:
    generated = families[-1]
    tests = {family.name: family.fits[family.largest]["test items"] for family in families}
    told = [SETS[family.name] for family in families if family.real]
    are = "Real sets: " + "; ".join(told) + ".  " if told else ""
    published = {"cadata": sets.CADATA_TEST, "Reuters": sets.REUTERS_LIKE_TEST}
    features = generated.fits[generated.largest]["features"]
    document.say(
        f"{are}The paper's Reuters collection (RCV1) is stood in for by {generated.name}: "
        f"generated documents of Zipf-distributed words, {features:,} features, lambda = "
        f"{sets.REUTERS_LAMBDA:g}, up to {generated.largest:,} of them.  Items to test on: "
        f"{_listed(tests)}; the paper has {_listed(published)}.  Every set is one global ranking."
    )
    document.say(
        "BMRM is the paper's Algorithm 1 (cutting planes, no line search, all planes kept) inside "
        "this library: its counting is exchanged, its products with X and its small quadratic "
        f"program are ours.  It stops at the paper's own rule, a gap in J below {EPS:g} with "
        "J = mean hinge + lambda |w|^2.  Ours are the library's fits with default solvers "
        f"({AUTO_SOLVER['hinge']} for the hinge, {AUTO_SOLVER['squared_hinge']} for the squared "
        f"hinge) and counting, to a certified relative gap of {EPS:g}; J is at most 1 at the "
        "optimum, so that is never looser.  One thread unless said otherwise.  Published times are "
        f"those of the authors' programs on {THEIR_MACHINE}."
    )
    paths = [
        {end["iterations"] for name, end in found["methods"].items() if name.startswith("bmrm")}
        for family in families
        for found in family.fits.values()
    ]
    if all(len(path) == 1 for path in paths):
        same = "All countings count the same pairs, and lead BMRM through the same iterations."
        document.say(same, detail=True)
    slow = ", ".join(
        f"{c} beyond {most_items(lab, c, trained=False):,} items "
        f"({most_items(lab, c, trained=True):,} in training)"
        for c in COUNTINGS
        if most_items(lab, c, trained=False) < families[-1].largest
    )
    if slow:
        document.say(f"Quadratic countings are left out of the larger sizes: {slow}.")


def _iterations(document: Document, families: Sequence[Family]) -> None:
    panels = []
    for family in families:
        curves = [Curve(_name(c), _points(family.iteration(c))) for c in (*COUNTINGS, OURS)]
        if not family.real:
            curves += _published(PUBLISHED_ITERATION)
        panels.append(Panel(family.title, curves, ITEMS, "seconds"))
    where = "Evaluated at the coefficients of a finished fit; one thread; medians."
    document.figure("Figure 1: loss and subgradient once, products with X included", panels, where)
    for title, times in (
        ("Figure 1: seconds of loss and subgradient, products with X included", Family.iteration),
        ("The same without the products: counting alone", Family.counting),
    ):
        rows = []
        for family in families:
            by_counting = {c: times(family, c) for c in (*COUNTINGS, OURS)}
            for m in family.sizes:
                row: Row = {"set": family.name, "m": m}
                row |= {_name(c): found.get(m) for c, found in by_counting.items()}
                row["tree / ours"] = by_counting["tree"][m] / by_counting[OURS][m]
                rows.append(row)
        document.table(title, rows, where, detail=True)


def _growth(document: Document, families: Sequence[Family]) -> None:
    rows = []
    for family in families:
        for counting in (*COUNTINGS, OURS):
            method = "ours hinge" if counting == OURS else f"bmrm {counting}"
            alone = family.counting(counting)
            rows.append(
                {
                    "set": family.name,
                    "counting": _name(counting),
                    "largest m": max(alone),
                    "in training": max(family.of_fits(method), default=None),
                    "counting alone": exponent(alone),
                    "with the products": exponent(family.iteration(counting)),
                    "training": exponent(family.of_fits(method)),
                }
            )
    document.table(
        "Growth exponents: seconds grow like m to this power",
        rows,
        f"Least squares over the sizes from {JUDGED_FROM:,} on (all, where there are fewer than "
        'two).  Training is by BMRM, for "ours" by our hinge fit.',
    )
    if any(family.name == "cadata" for family in families):
        distinct = len(np.unique(sets.cadata_split(sets.LARGEST_REAL)[0].y))
        document.say(
            f"cadata has ties: {distinct:,} different utilities among {sets.LARGEST_REAL:,} items. "
            "Direct and Joachims' counting are O(m k) for k of them, which is less than quadratic.",
            detail=True,
        )


def _training(lab: Lab, document: Document, families: Sequence[Family]) -> None:
    labels = _methods(lab)
    panels = {}
    for family in families:
        # Direct counting, which the paper does not have, is in the table.
        shown = {method: label for method, label in labels.items() if method != "bmrm direct"}
        curves = [Curve(label, _points(family.of_fits(method))) for method, label in shown.items()]
        if not family.real:
            curves += _published(PUBLISHED_TRAINING)
        panels[family.name] = Panel(family.title, curves, ITEMS, "seconds of training")
    alone = panels.pop(LEFT_OUT, None)
    document.figure(
        "Figure 2: seconds of training",
        list(panels.values()),
        f"BMRM to a gap of {EPS:g} in J, ours to a relative gap of {EPS:g}; one thread unless "
        f"said otherwise.  Published: {LARGEST:,} items of RCV1, {THEIR_MACHINE}.",
        picture="papers_time",
    )
    if alone is not None:
        document.figure(f"Figure 2 on {LEFT_OUT}", [alone], detail=True)
    rows, ends = [], []
    what = ("iterations", "products", "J", "gap in J", "status", "rounds")
    for family in families:
        for m in family.sizes:
            where: Row = {"set": family.name, "m": m}
            found = family.fits[m]["methods"]
            seconds = {name: end["seconds"] for name, end in found.items()}
            row = where | {label: seconds.get(name) for name, label in labels.items()}
            row["BMRM, tree / ours, hinge"] = seconds["bmrm tree"] / seconds["ours hinge"]
            rows.append(row)
            for name, label in SHOWN.items():
                ends.append(where | {"method": label} | {key: found[name][key] for key in what})
    document.table("Figure 2: seconds of training", rows)
    document.table(
        "How the fits ended",
        ends,
        'J and its gap are certified; "stopped": by the paper\'s rule.  J of the squared hinge has '
        "the mean of the squares.  Rounds: repetitions that the median is over.",
        detail=True,
    )


def _at_largest(document: Document, family: Family) -> None:
    """Everything at the largest size, measured or extrapolated, beside the published."""
    m = family.largest
    compare = m == LARGEST
    iterations = family.of_fits("bmrm tree", "iterations")[m]
    products = family.iterations[m]["products"]
    trained = family.of_fits("bmrm tree")[m]
    rows: list[Row] = []
    for counting in COUNTINGS:
        alone = family.counting(counting)
        measured = m in alone and m in family.of_fits(f"bmrm {counting}")
        once = alone[m] if m in alone else extrapolated(alone, m)
        more = iterations * (once - family.counting("tree")[m])
        fit = family.of_fits(f"bmrm {counting}")[m] if measured else trained + more
        rows.append(
            {
                "method": f"BMRM, {counting}",
                "one iteration, s": once + products,
                "published iteration, s": PUBLISHED_ITERATION.get(counting) if compare else None,
                "training": _clock(fit),
                "published training": _published_clock(counting) if compare else None,
                "how": "measured" if measured else f"extrapolated from m = {max(alone):,}",
            }
        )
    for method, label in SHOWN.items():
        if method.startswith("ours"):
            row: Row = {"method": label, "training": _clock(family.of_fits(method)[m])}
            rows.append(row | {"how": "measured"})
    rows[len(COUNTINGS)]["one iteration, s"] = family.iteration(OURS)[m]
    how = (
        "Extrapolated: the last measured evaluation, grown with the exponent of counting alone in "
        "the table of growth; training: as many of them as BMRM with the tree made "
        f"({iterations}).  "
    )
    guessed = any(row["how"] != "measured" for row in rows)
    document.table(
        f"{family.name}, {m:,} items",
        rows,
        (how if guessed else "") + "SVM^rank counts as joachims does.",
    )
    _verdict(document, family)


def _verdict(document: Document, family: Family) -> None:
    m = family.largest
    ours = family.of_fits("ours hinge")[m]
    squared = family.of_fits("ours squared_hinge")[m]
    same = family.of_fits("bmrm tree")[m]
    inside = (
        f"On {family.name} with {m:,} items our hinge fit takes {_clock(ours)} with one thread, "
        f"{_faster(ours, same)} than the paper's algorithm with tree counting here "
        f"({_clock(same)}); our squared hinge takes {_clock(squared)}."
    )
    if m != LARGEST:
        document.say(
            f"{inside}  The published times are for {LARGEST:,} items, which this run did not "
            "make: nothing to compare."
        )
        return
    published, published_once = PUBLISHED_TRAINING["tree"], PUBLISHED_ITERATION["tree"]
    once = family.iteration("tree")[m]
    made = family.of_fits("bmrm tree", "iterations")[m]
    equal = (published_once / once) * (same / ours)
    document.say(
        f"{inside}  The authors' TreeRSVM took {_clock(published)} on {THEIR_MACHINE}, for other "
        f"documents of the same number: our hinge fit is {_faster(ours, published)} than that, "
        f"BMRM with tree counting here {_faster(same, published)}.  These factors contain the "
        f"machine and the set: one iteration with the tree is {published_once:g} s there and "
        f"{once:.2g} s here, and {_clock(published)} are about {published / published_once:.0f} "
        f"such iterations where BMRM here makes {made}.  By one iteration there and here, times "
        f"what our fit gains over BMRM here, the factor would be {equal:.3g}."
    )


def _memory(lab: Lab, document: Document) -> None:
    memory = measured_memory(lab)
    sizes, data = memory.sizes, memory.data
    labels = {**_methods(lab), EXPLICIT: EXPLICIT}
    peaks = {label: memory.peak(method) for method, label in labels.items()}
    peaks = {label: by_size for label, by_size in peaks.items() if by_size}
    curves = [Curve(label, _points(by_size)) for label, by_size in peaks.items()]
    curves.append(Curve("the data alone", _points(data)))
    document.figure(
        "Figure 3: peak memory of training",
        [Panel("reuters-like (generated)", curves, ITEMS, "MB")],
        "X, y and what the fit adds to them at its peak, in a process of its own; the interpreter "
        "and its libraries do not count.",
    )
    rows = []
    for m in sizes:
        row: Row = {"m": m, "data, MB": data[m]}
        row |= {f"{label}, MB": by_size.get(m) for label, by_size in peaks.items()}
        row["pairs by formula, MB"] = memory.by_formula(m)
        row["ours, hinge / data"] = memory.peak("ours hinge")[m] / data[m]
        rows.append(row)
    document.table(
        "Figure 3: peak memory of training, reuters-like",
        rows,
        "Quadratic countings are measured as far as training with them is.  Explicit pairs: a "
        "sparse matrix with two entries for each pair, as PRSVM has it, and one gradient by it; "
        f"measured up to {max(memory.peak(EXPLICIT)):,} items.  By formula, not measured: the data "
        f"and that matrix alone, {tree_cells.pair_bytes(1)} bytes a pair.  Published (section "
        "5.2): PRSVM takes several GB at 8,000 items, TreeRSVM keeps two copies of X.",
    )
    _memory_told(document, memory)


def _memory_told(document: Document, memory: Memory) -> None:
    first, last = memory.sizes[0], memory.sizes[-1]
    tree = memory.peak("bmrm tree")
    ours, bundle = (by[last] / memory.data[last] for by in (memory.peak("ours hinge"), tree))
    small = memory.found["bmrm tree", first]
    planes = tree_cells.plane_bytes(small["iterations"], small["features"]) / 1e6
    document.say(
        f"At {last:,} items our hinge fit has a peak of {ours:.2f} times the data, BMRM with tree "
        f"counting {bundle:.2f} times.  All pairs in a matrix would take, with the data, "
        f"{memory.by_formula(last) / 1e3:,.4g} GB.  At {first:,} items BMRM with tree counting "
        f"makes {small['iterations']} cutting planes, vectors of {small['features']:,} numbers "
        f"each, and keeps them all: {planes:.3g} MB of its peak of {tree[first]:.3g} MB."
    )
    others = [counting for counting in COUNTINGS if counting != "tree"]
    apart, where = max(
        (abs(peak / tree[m] - 1.0), f"{counting}, {m:,} items")
        for counting in others
        for m, peak in memory.peak(f"bmrm {counting}").items()
    )
    alike = f"within {100 * ALIKE:g}%: the counting does not decide the memory of BMRM"
    document.say(
        f"The peaks of BMRM with other countings ({', '.join(others)}) differ from that with the "
        f"tree by up to {100 * apart:.1f}% ({where}), "
        + (f"{alike}." if apart <= ALIKE else f"more than {100 * ALIKE:g}%.")
        + " Published (section 5.2): PairRSVM has almost identical memory consumption as TreeRSVM."
    )
    if not all(result["exact"] for result in memory.found.values()):
        document.say("The high-water mark could not be reset: what fits add is a lower bound.")


def _errors(document: Document, families: Sequence[Family]) -> None:
    panels, rows = [], []
    for family in families:
        errors = {label: family.of_fits(method, "test error") for method, label in SHOWN.items()}
        curves = [Curve(label, _points(found)) for label, found in errors.items()]
        panels.append(Panel(family.title, curves, ITEMS, "pairwise test error", log="x"))
        for m in family.sizes:
            row: Row = {"set": family.name, "m": m, "test items": family.fits[m]["test items"]}
            rows.append(row | {label: found[m] for label, found in errors.items()})
    document.figure(
        "Figure 4: pairwise error on test items",
        panels,
        "Share of the test pairs in the wrong order; equal scores count half.",
    )
    document.table("Figure 4: pairwise error on test items", rows, detail=True)
    tree, hinge, squared = SHOWN.values()
    apart = max(rows, key=lambda row: abs(row[hinge] - row[tree]))
    losses = max(rows, key=lambda row: abs(row[squared] - row[hinge]))
    better = sum(row[squared] < row[hinge] for row in rows)
    most, other = (abs(row[hinge] - row[name]) for row, name in ((apart, tree), (losses, squared)))
    document.say(
        f"The two hinge fits have test errors that differ by up to {most:.2g} ({apart['set']}, "
        f"m = {apart['m']:,}); they stop at different gaps.  The squared hinge differs from our "
        f"hinge by up to {other:.2g} ({losses['set']}, m = {losses['m']:,}) and is the better "
        f"one in {better} of {len(rows)} cases; lambda is the same for both, which weighs the two "
        "losses differently."
    )


# --- Words and numbers ----------------------------------------------------------------------------


def _methods(lab: Lab) -> dict[str, str]:
    labels = {f"bmrm {counting}": f"BMRM, {counting}" for counting in COUNTINGS} | SHOWN
    if lab.threads > 1:
        labels["ours hinge threaded"] = f"ours, hinge, {lab.threads} threads"
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


def _published_clock(counting: str) -> str | None:
    seconds = PUBLISHED_TRAINING.get(counting)
    return None if seconds is None else f"{_clock(seconds)} ({PUBLISHED_NAME[counting]})"


def _faster(ours: float, other: float) -> str:
    """How much faster or slower, in words."""
    factor = other / ours
    return f"{factor:.3g} times faster" if factor >= 1.0 else f"{1.0 / factor:.3g} times slower"
