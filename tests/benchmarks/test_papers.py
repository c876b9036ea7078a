"""The papers' tables: choices on validation, numbers against brute force and published ones."""

# ruff: noqa: E402 (the folder of the benchmarks has to be found first)

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("benchmarks come with the sources", allow_module_level=True)
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks import folds, sets
from benchmarks.papers import columns, kernel, newton, published, tree_series, tuning, zeros
from benchmarks.papers.jobs import Job, Runner
from benchmarks.papers.measure import grids, tree
from benchmarks.papers.measure import newton as newton_jobs
from benchmarks.papers.report import Bars, Curve, Panel, Report

from ranksvm import LinearRankSVM
from ranksvm.data import RankingData
from ranksvm.metrics import evaluate, pairwise_accuracy

SECTIONS = (
    "columns", "tree", "newton", "kernel", "approximation", "factorized", "lambdarank", "quality",
)  # fmt: skip
COMMAND = [sys.executable, "-m", "benchmarks.papers"]


def result(candidates: list[list[float]], valid: list[float], seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "candidates": candidates,
        "valid": {"map": valid},
        "test": rng.normal(size=(len(candidates), 12)),
        "stopped": [False] * len(candidates),
    }


@pytest.fixture
def test_part(monkeypatch: pytest.MonkeyPatch) -> RankingData:
    """A small test part that all folds have."""
    rng = np.random.default_rng(5)
    y = rng.integers(0, 3, size=12).astype(float)
    y[:3] = (0.0, 1.0, 2.0)
    y[6:8] = (0.0, 1.0)
    part = RankingData(np.zeros((12, 1)), y, np.repeat([0, 1], 6))
    monkeypatch.setattr(tuning, "letor_fold", lambda name, fold: folds.Fold(part, part, part))
    return part


def tuned(label: str, scores: list[Any]) -> tuning.Tuned:
    n = len(scores)
    return tuning.Tuned(
        "s", label, "map", range(n), scores, [0.0] * n, [(0.0,)] * n, [False] * n
    )  # fmt: skip


# --- Choices --------------------------------------------------------------------------------------


def test_every_fold_takes_its_best_on_validation() -> None:
    results = [
        result([[-1, 0], [1, 0]], [0.3, 0.5], 1),
        result([[-1, 2], [1, 2]], [0.4, 0.2], 2),
        result([[-1, 0], [1, 0]], [0.1, 0.1], 3),
        result([[-1, 2], [1, 2]], [0.0, 0.7], 4),
    ]
    found = tuning.choose("set", "family", [0, 1], results, "map")
    assert found.chosen == [(1, 0), (1, 2)]
    assert found.valid == [0.5, 0.7]
    np.testing.assert_array_equal(found.scores[0], results[0]["test"][1])
    np.testing.assert_array_equal(found.scores[1], results[3]["test"][1])


def test_of_equals_the_smallest_C_and_then_the_smallest_gamma_is_taken() -> None:
    results = [
        result([[1, 0], [-1, 0]], [0.5, 0.5], 1),
        result([[-1, -3], [1, -3]], [0.5, 0.5], 2),
    ]
    found = tuning.choose("set", "family", [0], results, "map")
    assert found.chosen == [(-1, -3)]


def test_test_parts_have_no_say_in_a_choice() -> None:
    results = [result([[-1], [1]], [0.3, 0.5], 1), result([[-1], [1]], [0.6, 0.5], 2)]
    before = tuning.choose("set", "family", [0, 1], results, "map").chosen
    for one in results:
        one["test"] = -one["test"][::-1]
    assert tuning.choose("set", "family", [0, 1], results, "map").chosen == before


def test_means_and_deviations_are_over_folds(test_part: RankingData) -> None:
    results = [result([[0]], [0.5], seed) for seed in (1, 2)]
    found = tuning.choose("set", "family", [0, 1], results, "map")
    by_hand = [
        evaluate(test_part.y, one["test"][0], test_part.qid, ["map"], conventions="letor")["map"]
        for one in results
    ]
    assert by_hand[0] != by_hand[1]
    assert found.by_fold("map") == by_hand
    assert found.mean("map") == pytest.approx(sum(by_hand) / 2)
    assert found.deviation("map") == pytest.approx(abs(by_hand[0] - by_hand[1]) / np.sqrt(2))
    assert found.mean_text("map") == f"{found.mean('map'):.4f} ± {found.deviation('map'):.4f}"


def test_the_family_is_chosen_on_validation_too() -> None:
    one = tuning.choose("s", "a", [0, 1], [result([[0]], [v], 1) for v in (0.9, 0.1)], "map")
    two = tuning.choose("s", "b", [0, 1], [result([[7]], [v], 2) for v in (0.2, 0.3)], "map")
    best = tuning.best_of([one, two])
    assert best.chosen == [(0,), (7,)]
    assert best.valid == [0.9, 0.3]
    assert "a; b" in best.label


def test_significance_finds_a_difference_and_none(test_part: RankingData) -> None:
    rng = np.random.default_rng(0)
    right = [test_part.truth + 1e-3 * rng.normal(size=12) for _ in range(6)]
    wrong = [-scores for scores in right]
    rows = tuning.significance([tuned("wrong", wrong), tuned("right", right)], ["map"], "wrong")
    assert rows[0]["significant"] == "yes"
    assert tuning.count_significant(rows).startswith("1 of 1 differences")
    rows = tuning.significance([tuned("right", right), tuned("again", right)], ["map"], "right")
    assert rows[0]["difference"] == "+0.0000"
    assert tuning.count_significant(rows).startswith("0 of 1 differences")


# --- Published numbers ----------------------------------------------------------------------------


def test_published_rows_name_known_metrics_and_families() -> None:
    from benchmarks.papers.models import RANKSVMS

    for rows in published.PUBLISHED.values():
        for row in rows:
            assert set(row.values) <= set(published.NAMES)
            assert row.ours is None or row.ours in RANKSVMS
            assert all(0.2 < value < 0.8 for value in row.values.values())


def test_verdicts_are_about_four_digits() -> None:
    assert tuning.verdict(0.44731, 0.4473) == "equal"
    assert tuning.verdict(0.4475, 0.4473) == "better by 0.0002"
    assert tuning.verdict(0.4463, 0.4473) == "worse by 0.0010"


def test_agreement_counts_what_is_within_a_standard_error(test_part: RankingData) -> None:
    rng = np.random.default_rng(1)
    model = tuned("ours", [rng.normal(size=12) for _ in range(4)])
    error = model.deviation("map") / 2.0
    mean = model.mean("map")
    assert error > 1e-3
    rows = [
        published.Published("paper", "theirs", {"map": mean + shift * error})
        for shift in (0.0, 0.9, -0.9, -2.0, 2.0, 3.0)
    ]
    text, none_better = tuning.agreement([(model, row) for row in rows])
    assert text.startswith("3 of 6 published numbers are within a standard error")
    assert text.endswith("; the rest: 1 worse than ours, 2 better")
    assert not none_better
    assert tuning.agreement([(model, row) for row in rows[:4]])[1]


def test_columns_reached_and_missed(
    test_part: RankingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tuned("ours", [test_part.truth, -test_part.truth])
    means = {metric: round(model.mean(metric), 4) for metric in ("map", "ndcg@1")}
    rows = (
        published.Published("p", "a", {"map": means["map"], "ndcg@1": means["ndcg@1"] + 0.01}, "x"),
        published.Published("p", "b", {"map": 1.0}),  # no RankSVM
    )
    monkeypatch.setattr(columns, "PUBLISHED", {"s": rows})
    missed = columns._missed("s", list(means), lambda metric: model)
    assert missed == ["NDCG@1 by 0.0100"]
    assert columns._reached(list(means), missed) == "1 of 2"
    assert columns._missed("s", ["map"], lambda metric: model) == []


def test_zero_dual_variables_of_lee_and_lin(data_directory: Path) -> None:
    """Table (I) of the supplement; the function itself checks every pair with NumPy."""
    found = newton_jobs.dual_zeros("MQ2008", 0, zeros.ZEROS_C, "newton", 1e-3)
    assert f"{zeros.zero_share(found):.2f}" == f"{zeros.PUBLISHED_ZEROS['MQ2008']:.2f}" == "22.44"
    assert found["right"] / found["pairs"] > 0.5


def test_nystrom_with_the_published_parameters(data_directory: Path) -> None:
    """The web page of the program of Chen et al., fold 1; the landmarks are other ones."""
    log2_C, log2_gamma = published.NYSTROM_PAIR
    fit = grids.fit_once("OHSUMED", "Nystrom rbf", 0, log2_C, log2_gamma, threads=1)
    assert fit["converged"]
    test = folds.letor_fold("OHSUMED", 0).test
    for metric, values in published.NYSTROM_BY_FOLD.items():
        ours = evaluate(test.truth, fit["test"], test.qid, [metric], conventions="letor")[metric]
        assert ours == pytest.approx(values[0], abs=5e-3)


def test_table_VIII_of_kuo_et_al_can_only_be_of_the_first_fold(data_directory: Path) -> None:
    assert kernel.folds_with(list(published.ONE_FOLD["p@5"].values())) == [0]


# --- Measurements against brute force -------------------------------------------------------------


def test_a_path_has_the_metrics_of_single_fits(data_directory: Path) -> None:
    found = grids.path("MQ2008", "linear L2", 0, None, [-8, 0], threads=1)
    train, valid, test = folds.letor_fold("MQ2008", 0)
    assert found["candidates"] == [[-8], [0]]
    for place, log2_C in enumerate((-8, 0)):
        model = LinearRankSVM(2.0**log2_C, reduction="sum", tol=1e-8, scaling=None).fit(*train)
        for metric in ("map", "ndcg@5"):
            by_hand = evaluate(
                valid.truth, model.predict(valid.X), valid.qid, [metric], conventions="letor"
            )
            assert found["valid"][metric][place] == pytest.approx(by_hand[metric], abs=2e-3)
        np.testing.assert_allclose(found["test"][place], model.predict(test.X), atol=1e-2)


def test_C_of_lee_and_lin_is_chosen_by_accuracy_on_validation(data_directory: Path) -> None:
    Cs = [2.0**-10, 1.0]
    found = newton_jobs.choose_C("MQ2008", 0, "squared_hinge", Cs)
    train, valid, _ = folds.letor_fold("MQ2008", 0)
    by_hand = [
        pairwise_accuracy(
            valid.truth,
            LinearRankSVM(C, reduction="sum", scaling=None).fit(*train).predict(valid.X),
            valid.qid,
            average="pairs",
        )
        for C in Cs
    ]
    np.testing.assert_allclose(found["accuracies"], by_hand, atol=2e-3)
    assert found["C"] == Cs[int(np.argmax(by_hand))]
    y, qid = train.truth, train.qid
    pairs = sum(np.sum((qid == q) & (y < label)) for label, q in zip(y, qid, strict=True))
    assert found["pairs"] == pairs


def test_a_trace_finds_the_first_point_below_each_goal(data_directory: Path) -> None:
    lower = newton_jobs.optimum("MQ2008", 0, "squared_hinge", 1.0)["lower"]
    found = newton_jobs.trace("MQ2008", 0, "squared_hinge", 1.0, "Newton", lower, 500)
    assert found["arrived"]
    assert found["value"].min() >= 0.0
    for goal, iterations, products in zip(
        newton_jobs.GOALS, found["goal_iterations"], found["goal_products"], strict=True
    ):
        first = int(np.argmax(found["value"] <= goal))
        assert (found["iteration"][first], found["products"][first]) == (iterations, products)


def test_margins_against_a_double_loop() -> None:
    rng = np.random.default_rng(2)
    y = rng.integers(0, 4, size=30).astype(float)
    qid = rng.integers(0, 3, size=30)
    scores = rng.normal(size=30)
    by_hand = [
        scores[i] - scores[j]
        for i in range(30)
        for j in range(30)
        if qid[i] == qid[j] and y[i] > y[j]
    ]
    found = newton_jobs.margins_of(RankingData(np.zeros((30, 1)), y, qid), scores)
    np.testing.assert_allclose(np.sort(found), np.sort(by_hand))


def test_the_matrix_of_pairs_against_a_double_loop() -> None:
    rng = np.random.default_rng(3)
    y = rng.integers(0, 5, size=20).astype(float)
    scores = rng.normal(size=20)
    by_hand = [
        scores[i] - scores[j] for i in range(20) for j in range(20) if y[i] > y[j]
    ]  # fmt: skip
    matrix = tree.pair_matrix(y)
    assert matrix.shape == (len(by_hand), 20)
    np.testing.assert_allclose(np.sort(matrix @ scores), np.sort(by_hand))


def test_all_countings_of_a_level_give_a_time() -> None:
    ks = {"auto": [2, 8], "tree": [2, 8], "direct": [2], "pairs": [2, 8]}
    found = newton_jobs.levels(64, ks, rounds=1)  # raises if they do not find the same loss
    assert {name: len(times) for name, times in found.items()} == {
        name: len(some) for name, some in ks.items()
    }
    assert all((times > 0.0).all() for times in found.values())


def test_growth_is_fitted_and_extrapolated() -> None:
    times = {m: 1e-9 * m**1.5 for m in (4_000, 8_000, 16_000)}
    assert tree_series.exponent(times) == pytest.approx(1.5)
    assert tree_series.extrapolated(times, 64_000) == pytest.approx(1e-9 * 64_000**1.5)
    # Small sizes, where fixed costs matter, do not count if there are large ones.
    assert tree_series.exponent(times | {1_000: 5.0}) == pytest.approx(1.5)
    assert tree_series.exponent({1_000: 1.0, 2_000: 4.0}) == pytest.approx(2.0)


def test_fewer_iterations_are_counted() -> None:
    ours, theirs = ("a", "hinge"), ("b", "hinge")
    goals = {ours: [1.0, 5.0, 7.0, np.nan], theirs: [2.0, 5.0, np.nan, np.nan]}
    traces = {run: {"goal_iterations": np.array(counts)} for run, counts in goals.items()}
    watched = {"set": newton.Watched({}, {}, traces, {})}
    found = newton.compare(watched, ours, theirs, "iterations")
    assert (found.won, found.of, found.never) == (2, 3, 1)
    assert found.lost == ["set to 0.01 (5 and 5)"]


# --- Sets -----------------------------------------------------------------------------------------


def test_cadata_is_standardised_by_its_training_rows(data_directory: Path) -> None:
    sets.cadata_split.cache_clear()
    train, test = sets.cadata_split(1_000)
    assert train.X.shape == (1_000, 8)
    assert len(test.y) == 4_000
    np.testing.assert_allclose(train.X.mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(train.X.std(axis=0), 1.0, rtol=1e-9)
    assert np.abs(test.X.mean(axis=0)).max() > 1e-3


def test_folds_rotate_over_the_parts(data_directory: Path) -> None:
    whole = [folds.letor_fold("MQ2008", k) for k in range(folds.N_FOLDS)]
    for k, fold in enumerate(whole):
        following = whole[(k + 1) % folds.N_FOLDS]
        np.testing.assert_array_equal(fold.test.y, following.valid.y)
    assert sum(fold.test.n_items for fold in whole) == 15_211
    assert all(sum(part.n_items for part in fold) == 15_211 for fold in whole)


# --- Jobs and report ------------------------------------------------------------------------------


def square(x: int) -> dict[str, Any]:
    if x < 0:
        raise KeyboardInterrupt
    return {"square": x * x, "powers": np.arange(3.0) ** x}


def test_an_interrupted_batch_continues(tmp_path: Path) -> None:
    def jobs(*numbers: int) -> list[Job]:
        return [Job(str(x), square, {"x": x}) for x in numbers]

    with pytest.raises(KeyboardInterrupt):
        Runner(tmp_path).run("squares", jobs(1, 2, -1))
    runner = Runner(tmp_path)
    found = runner.run("squares", jobs(2, 3, 1, 2))
    assert [one["square"] for one in found] == [4, 9, 1, 4]
    np.testing.assert_array_equal(found[1]["powers"], [0.0, 1.0, 8.0])
    assert (runner.computed, runner.reused) == (1, 2)


class Page(HTMLParser):
    """The texts of a page, and what it refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.links += [value for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_report_has_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    from benchmarks.papers import pages

    report = Report()
    report.section("tree", "Trees & <sorting>", "A. Author, 2014")
    report.say("One, 1 < 2.")
    report.find("It is so.", agrees=True)
    report.find("It is not so.", agrees=False)
    report.find("It is new.", agrees=None)
    report.table("Times of <fits>", [{"set": "a", "s": 0.1234}, {"m": 9630}], "One thread.")
    curves = [
        Curve("ours", [(1000, 0.0125), (16000, 0.25), (0, -1.0)]),
        Curve("theirs", [(16000, 18.75)], "published"),
        Curve("floor", [(0, 0.0078125)], "level"),
        Curve("nothing", []),
    ]
    panel = Panel("cadata", curves, "items", "seconds")
    bars = Bars("OHSUMED", ["MAP"], {"ours": [0.4625], "theirs": [0.4412]}, "mean", start=0.3)
    report.figure("Time", [panel, bars], "Published times.", picture="papers_time")

    about = {"date": "2001-02-03", "processor": "x", "time": "1 minutes for all", "versions": "v 1"}
    page = Page(
        pages.write_report(tmp_path / "r.html", report, about, quick=True).read_text("utf-8")
    )
    text = " ".join(page.texts)
    for part in (
        "A quick run", "Trees & <sorting>", "A. Author, 2014", "One, 1 < 2.", "It is not so.",
        "Times of <fits>", "0.123", "9,630", "One thread.", "(1000, 0.0125)", "0.4412",
        "Published times.", "2001-02-03",
    ):  # fmt: skip
        assert part in text, part
    assert all(link.startswith(("#", "data:")) for link in page.links)

    summary = pages.write_summary(tmp_path / "s.md", report, about, quick=False).read_text("utf-8")
    agrees, differs, beyond = (
        summary.index(line) for line in ("- It is so.", "- It is not so.", "- It is new.")
    )
    assert summary.index("## What agrees") < agrees < summary.index("## What does not") < differs
    assert differs < summary.index("## Beyond") < beyond
    assert "9,630" not in summary
    assert "quick" not in summary.partition("##")[2]
    assert pages.write_pictures(tmp_path, report) == [tmp_path / "papers_time.png"]
    assert (tmp_path / "papers_time.png").read_bytes().startswith(b"\x89PNG")

    printed = capsys.readouterr().out
    for part in ("=== tree", "It is so.", "9,630", "One thread."):
        assert part in printed


def test_the_short_page_is_what_the_template_writes_and_its_pictures_are_there() -> None:
    page = (ROOT / "docs" / "papers.md").read_text("utf-8")
    headings = re.findall(r"^## (.*)$", page, re.MULTILINE)
    assert headings == ["What agrees with the papers", "What does not agree", "Beyond the papers"]
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", page)
    assert 0 < len(pictures) <= 2
    assert all((ROOT / "docs" / picture).is_file() for picture in pictures)


# --- Runs -----------------------------------------------------------------------------------------


def test_absent_sets_are_left_out_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKSVM_DATA", str(tmp_path / "nothing"))
    report = Report()
    report.section("columns", columns.TITLE, columns.SOURCE)
    columns.run(Runner(tmp_path / "cache", quick=True), report)
    parts = report.sections[0].parts
    assert len(parts) == 2
    assert all("left out: its files are not there" in str(part) for part in parts)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "there is no section 'nonsense'"),
        (["tree", "--fresh"], "deletes the results of all sections"),
        (["--out", str(ROOT / "Makefile" / "papers")], "Not a directory"),
        (["--threads", "0"], "at least 1"),
        (["--data", "no/such/folder"], "there is no such folder"),
        (["--docs", "docs", "--quick"], "needs a whole run"),
        (["tree", "--docs", "docs"], "needs a whole run"),
    ],
)
def test_bad_arguments_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("jinja2")
    from benchmarks.papers.__main__ import main

    try:
        status = main(arguments)
    except SystemExit as error:  # of argparse
        status = error.code
    assert status == 2
    assert message in capsys.readouterr().err


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], cwd=ROOT, capture_output=True, text=True)


@pytest.mark.slow
def test_a_quick_run_writes_everything(tmp_path: Path) -> None:
    for package in ("jinja2", "matplotlib"):
        pytest.importorskip(package, reason="the benchmarks' requirements are not installed")
    done = run("--quick", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]

    page = Page((tmp_path / "report.html").read_text("utf-8"))
    for name in SECTIONS:
        assert f"=== {name}" in done.stdout
        assert f"#{name}" in page.links
    assert all(link.startswith(("#", "data:")) for link in page.links)
    summary = (tmp_path / "summary.md").read_text("utf-8")
    for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", summary):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")

    again = run("--quick", "--out", str(tmp_path))
    assert again.returncode == 0
    assert "jobs: 0 computed in this run" in again.stdout


@pytest.mark.slow
def test_an_interrupted_run_continues(tmp_path: Path) -> None:
    for package in ("jinja2", "matplotlib"):
        pytest.importorskip(package, reason="the benchmarks' requirements are not installed")
    arguments = ["tree", "--quick", "--out", str(tmp_path)]
    with subprocess.Popen(
        [*COMMAND, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None and len(list(tmp_path.rglob("output.pkl"))) < 3:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command continues" in errors
    kept = len(list(tmp_path.rglob("output.pkl")))
    assert kept >= 3
    done = run(*arguments)
    assert done.returncode == 0
    assert f"{kept} from an earlier run" in done.stdout
