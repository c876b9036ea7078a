"""The papers' tables: choices by validation, published figures, a whole quick run."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("benchmarks come with the sources", allow_module_level=True)
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks import folds, sets  # noqa: E402
from benchmarks.papers import columns, published, tuning  # noqa: E402
from benchmarks.papers.document import Document, Paragraph  # noqa: E402

from ranksvm.data.queries import QueryGroups  # noqa: E402
from ranksvm.metrics import evaluate  # noqa: E402

SECTIONS = ("columns", "tree", "newton", "kernel", "approximation", "factorized", "lambdarank")
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
def test_part(monkeypatch: pytest.MonkeyPatch) -> folds.Part:
    """Two folds with the same small test part."""
    rng = np.random.default_rng(5)
    y = rng.integers(0, 3, size=12).astype(float)
    y[:3] = (0.0, 1.0, 2.0)
    y[6:8] = (0.0, 1.0)
    groups = QueryGroups.from_qid(np.repeat([0, 1], 6), 12)
    part = folds.Part(None, y, groups)
    monkeypatch.setattr(tuning, "letor_fold", lambda name, fold: folds.Fold(part, part, part))
    return part


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


def test_means_and_deviations_are_over_folds(test_part: folds.Part) -> None:
    results = [result([[0]], [0.5], seed) for seed in (1, 2)]
    found = tuning.choose("set", "family", [0, 1], results, "map")
    by_hand = [
        evaluate(test_part.y, one["test"][0], test_part.groups.index, ["map"], conventions="letor")[
            "map"
        ]
        for one in results
    ]
    assert by_hand[0] != by_hand[1]
    assert found.by_fold("map") == by_hand
    assert found.mean("map") == pytest.approx(sum(by_hand) / 2)
    assert found.deviation("map") == pytest.approx(abs(by_hand[0] - by_hand[1]) / np.sqrt(2))
    assert found.told_mean("map") == f"{found.mean('map'):.4f} ± {found.deviation('map'):.4f}"


def test_the_family_is_chosen_on_validation_too() -> None:
    one = tuning.choose("s", "a", [0, 1], [result([[0]], [v], 1) for v in (0.9, 0.1)], "map")
    two = tuning.choose("s", "b", [0, 1], [result([[7]], [v], 2) for v in (0.2, 0.3)], "map")
    best = tuning.best_of([one, two])
    assert best.chosen == [(0,), (7,)]
    assert best.valid == [0.9, 0.3]
    assert "a; b" in best.label


def test_significance_finds_a_difference_and_none(test_part: folds.Part) -> None:
    rng = np.random.default_rng(0)
    folds_ = list(range(6))
    right = [test_part.y + 1e-3 * rng.normal(size=12) for _ in folds_]

    def model(label: str, scores: list[Any]) -> tuning.Tuned:
        zero = [0.0] * 6
        return tuning.Tuned("s", label, "map", folds_, scores, zero, [(0,)] * 6, [False] * 6)

    wrong = [-scores for scores in right]
    models = [model("wrong", wrong), model("right", right)]
    rows = tuning.significance(models, ["map"], "wrong")
    assert rows[0]["significant"] == "yes"
    assert tuning.n_significant(rows).startswith("1 of 1 differences")
    again = [model("right", right), model("again", right)]
    rows = tuning.significance(again, ["map"], "right")
    assert rows[0]["difference"] == "+0.0000"
    assert tuning.n_significant(rows).startswith("0 of 1 differences")


# --- Keys -----------------------------------------------------------------------------------------


def test_a_key_depends_on_what_the_module_imports(tmp_path: Path) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from benchmarks.papers.cells import Cell\n"
        "from benchmarks.papers.grids import path_cell\n"
        "print(Cell('x', path_cell, {}).key)\n"
    )

    def key(root: Path) -> str:
        done = subprocess.run(
            [sys.executable, "-c", program, str(root)], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    shutil.copytree(ROOT / "benchmarks", tmp_path / "benchmarks")
    before = key(tmp_path)
    assert key(tmp_path) == before
    with (tmp_path / "benchmarks" / "papers" / "columns.py").open("a") as file:
        file.write("# another word\n")  # tells, and is imported by no cell
    assert key(tmp_path) == before
    with (tmp_path / "benchmarks" / "sets.py").open("a") as file:
        file.write("# another word\n")  # grids imports folds, and that imports sets
    assert key(tmp_path) != before


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
    assert sum(len(fold.test.y) for fold in whole) == 15_211
    assert all(len(f.train.y) + len(f.valid.y) + len(f.test.y) == 15_211 for f in whole)


# --- Published figures ----------------------------------------------------------------------------


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


# --- Runs -----------------------------------------------------------------------------------------


def test_absent_sets_are_left_out_with_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks.papers.cells import Lab

    monkeypatch.setenv("RANKSVM_DATA", str(tmp_path / "nothing"))
    document = Document()
    document.section("columns", columns.TITLE)
    columns.run(Lab(tmp_path / "cells", quick=True), document)
    said = [part.text for part in document.sections[0].parts if isinstance(part, Paragraph)]
    assert len(said) == len(document.sections[0].parts) == 2
    assert all("left out: its files are not there" in text for text in said)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "there is no section 'nonsense'"),
        (["tree", "--fresh"], "name none with it"),
        (["--out", "Makefile/papers"], "Not a directory"),
        (["--threads", "0"], "at least 1"),
        (["--data", "no/such/folder"], "there is no such folder"),
        (["--docs", "docs", "--quick"], "wants a whole run"),
        (["tree", "--docs", "docs"], "wants a whole run"),
    ],
)
def test_bad_arguments_are_told(arguments: list[str], message: str) -> None:
    done = subprocess.run([*COMMAND, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert message in done.stderr


class Texts(HTMLParser):
    """The texts of table cells and paragraphs of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag in ("td", "p", "figcaption", "caption"):
            self.open.append(tag)
            self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts[-1] += data


def numbers(text: str) -> set[str]:
    return set(re.findall(r"\d[\d,.]*\d|\d", text))


@pytest.mark.slow
def test_a_quick_run_tells_everything_and_prints_every_number(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the benchmarks' requirements are not installed")
    start = time.monotonic()
    done = subprocess.run(
        [*COMMAND, "--quick", "--out", str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    seconds = time.monotonic() - start
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    print(f"quick run: {seconds:.0f} s")

    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for name in SECTIONS:
        assert f"=== {name}" in done.stdout
    assert not re.search(r"""(src|href)=["']https?:""", page)
    texts = Texts()
    texts.feed(page)
    printed = numbers(done.stdout)
    missing = {number for text in texts.texts for number in numbers(text)} - printed
    assert not missing

    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", summary):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")

    again = subprocess.run(
        [*COMMAND, "--quick", "--out", str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    assert again.returncode == 0
    assert "pieces of work: 0 computed in this run" in again.stdout


@pytest.mark.slow
def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the benchmarks' requirements are not installed")
    command = [*COMMAND, "tree", "--quick", "--out", str(tmp_path)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None and len(list(tmp_path.rglob("*.npz"))) < 3:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "The same command goes on" in errors
    kept = len(list(tmp_path.rglob("*.npz")))
    assert kept >= 3
    assert not list(tmp_path.rglob("*.part"))

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0
    assert f"{kept} kept from before" in done.stdout
