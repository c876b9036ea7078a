"""What carries the reproduction of the papers: cells that are kept, documents and their writers."""

# ruff: noqa: E402 (the folder of the benchmarks has to be found first)

from __future__ import annotations

import base64
import importlib
import io
import itertools
import math
import re
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("benchmarks come with the sources", allow_module_level=True)
sys.path.insert(0, str(ROOT))  # `python -m pytest` does it already, `pytest` does not

from benchmarks.papers import cells
from benchmarks.papers.cells import Cell, Lab, in_child
from benchmarks.papers.document import Bars, Curve, Document, Figure, Panel, Table
from benchmarks.papers.drawing import draw
from benchmarks.papers.html import to_html
from benchmarks.papers.markdown import right_aligned, spans, to_markdown
from benchmarks.papers.progress import bars
from benchmarks.report import show

# --- Cells ----------------------------------------------------------------------------------------

CALLS: list[tuple[str, Any]] = []  # what was really computed
INTERRUPTED_AT: set[int] = set()


@pytest.fixture(autouse=True)
def _fresh_counters() -> None:
    CALLS.clear()
    INTERRUPTED_AT.clear()


def square(x: int) -> dict[str, Any]:
    CALLS.append(("square", x))
    if x in INTERRUPTED_AT:
        raise KeyboardInterrupt
    return {"square": x * x, "powers": np.arange(4.0) ** x, "text": f"Zahl {x} ≤ {x}"}


def other(x: int) -> dict[str, Any]:
    CALLS.append(("other", x))
    return {"square": -x}


def awkward() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        "third": 1 / 3,
        "tiny": 5e-324,
        "huge": sys.float_info.max,
        "minus_zero": -0.0,
        "nan": math.nan,
        "inf": -math.inf,
        "numpy": np.float64(0.1) + np.float64(0.2),
        "count": np.int64(2**62 + 1),
        "big": 10**30,
        "flag": True,
        "none": None,
        "text": 'a "b" \\ \n ü ≤',
        "list": [1, 2.5, [None, "x"]],
        "dict": {"a": [0.1, 1e300]},
        "doubles": rng.standard_normal((3, 4)) * 1e-300,
        "singles": rng.standard_normal(5).astype(np.float32),
        "special": np.array([np.nan, -np.inf, -0.0, 5e-324]),
        "columns": np.asfortranarray(rng.standard_normal((4, 3))),
        "integers": np.array([-(2**63), 2**63 - 1]),
        "bytes": np.arange(6, dtype=np.uint8).reshape(2, 1, 3),
        "empty": np.empty((0, 3)),
        "scalar": np.array(0.7),
        "flags": np.array([True, False]),
        "names": np.array(["NDCG@10", "ü"]),
    }


def unkeepable() -> dict[str, Any]:
    return {"fine": 1.0, "not": {1, 2}}


def squares(*numbers: int) -> list[Cell]:
    return [Cell(f"square of {x}", square, {"x": x}) for x in numbers]


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_finished_cells_are_found_again(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    first = lab.run("squares", squares(3, 1, 2))
    assert [result["square"] for result in first] == [9, 1, 4]
    assert (lab.computed, lab.found) == (3, 0)
    assert lab.seconds == sum(result["cell_seconds"] for result in first)

    again = Lab(tmp_path)
    second = again.run("squares", squares(2, 3, 1, 5))
    assert [result["square"] for result in second] == [4, 9, 1, 25]
    assert [("square", x) for x in (3, 1, 2, 5)] == CALLS
    assert (again.computed, again.found) == (1, 3)
    # The time of a cell is that of its computation.
    assert [r["cell_seconds"] for r in second[:3]] == [first[k]["cell_seconds"] for k in (2, 0, 1)]
    assert second[1]["text"] == "Zahl 3 ≤ 3"
    np.testing.assert_array_equal(second[1]["powers"], [0, 1, 8, 27])
    assert files(tmp_path) == sorted(
        tmp_path / "square" / f"{cell.key}.npz" for cell in squares(1, 2, 3, 5)
    )


def test_a_cell_of_two_papers_counts_once(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.run("one paper", squares(1, 2))
    lab.run("another", squares(2, 3))
    assert [("square", x) for x in (1, 2, 3)] == CALLS
    assert (lab.computed, lab.found) == (3, 0)


def test_quick_sizes(tmp_path: Path) -> None:
    assert Lab(tmp_path).size(100, 3) == 100
    assert Lab(tmp_path, quick=True).size(100, 3) == 3


def test_progress_is_told_before_each_cell(tmp_path: Path) -> None:
    told: list[Any] = []

    @contextmanager
    def progress(title: str, total: int) -> Iterator[Callable[[str, bool], None]]:
        told.append((title, total))
        yield lambda label, known: told.append((label, known, len(CALLS)))
        told.append("end")

    Lab(tmp_path).run("before", squares(1))
    Lab(tmp_path, progress=progress).run("now", squares(1, 2, 3))
    assert told == [
        ("now", 3),
        ("square of 1", True, 1),
        ("square of 2", False, 1),
        ("square of 3", False, 2),
        "end",
    ]


def test_keys_depend_on_the_work_only() -> None:
    cell = Cell("a", square, {"x": 2, "y": [1, 0.5]})
    assert Cell("b", square, {"y": [1, 0.5], "x": 2}).key == cell.key
    different = [
        Cell("a", square, {"x": 2}),
        Cell("a", square, {"x": 2.5, "y": [1, 0.5]}),
        Cell("a", square, {"x": 2, "y": [0.5, 1]}),
        Cell("a", square, {"x": "2", "y": [1, 0.5]}),
        Cell("a", other, {"x": 2, "y": [1, 0.5]}),
    ]
    assert len({cell.key, *(c.key for c in different)}) == 6


@pytest.mark.parametrize("what", ["_module_digest", "_library_digest"])
def test_keys_depend_on_the_sources(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (cell,) = squares(1)
    before = cell.key
    monkeypatch.setattr(cells, what, lambda *_: "changed")
    assert cell.key != before


def test_key_of_a_function_whose_module_was_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "edited_measurement.py"
    monkeypatch.syspath_prepend(tmp_path)
    keys = []
    for source in ("STEPS = 1\n", "STEPS = 10  # more\n", "STEPS = 1\n"):
        path.write_text(source + "def compute():\n    return {}\n", encoding="utf-8")
        monkeypatch.delitem(sys.modules, path.stem, raising=False)
        importlib.invalidate_caches()
        cells._module_digest.cache_clear()  # as in a new process
        keys.append(Cell("", importlib.import_module(path.stem).compute).key)
    assert keys[0] == keys[2] != keys[1]


def test_keys_depend_on_the_files_of_the_sets_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = [
        {"S1.txt": "1 qid:1 1:0.5\n"},
        {"S1.txt": "1 qid:1 1:0.25\n"},
        {"S2.txt": "1 qid:1 1:0.5\n"},
        {"S1.txt": "1 qid:1 1:0.5\n", "S2.txt": ""},
        {},
    ]
    keys, blind = [], []
    for k, content in enumerate([*contents, contents[0]]):
        folder = tmp_path / str(k) / "MQ"
        folder.mkdir(parents=True)
        for name, text in content.items():
            (folder / name).write_text(text, encoding="utf-8")
        monkeypatch.setenv("RANKSVM_DATA", str(folder.parent))
        keys.append(Cell("", square, {"x": 1}, reads=("MQ",)).key)
        blind.append(Cell("", square, {"x": 1}).key)
    assert len(set(keys[:-1])) == len(contents)
    assert keys[-1] == keys[0]  # where the files lie does not matter
    assert len(set(blind)) == 1

    lab = Lab(tmp_path / "cells")
    for k in (0, 1, 5):
        monkeypatch.setenv("RANKSVM_DATA", str(tmp_path / str(k)))
        lab.run("", [Cell("", square, {"x": 1}, reads=("MQ",))])
    assert (len(CALLS), lab.computed) == (2, 2)


def test_an_interrupted_batch_goes_on(tmp_path: Path) -> None:
    INTERRUPTED_AT.add(3)
    with pytest.raises(KeyboardInterrupt):
        Lab(tmp_path).run("squares", squares(1, 2, 3, 4))
    assert [("square", x) for x in (1, 2, 3)] == CALLS
    assert files(tmp_path) == sorted(tmp_path / "square" / f"{c.key}.npz" for c in squares(1, 2))

    INTERRUPTED_AT.clear()
    CALLS.clear()
    lab = Lab(tmp_path)
    results = lab.run("squares", squares(1, 2, 3, 4))
    assert [result["square"] for result in results] == [1, 4, 9, 16]
    assert [("square", x) for x in (3, 4)] == CALLS
    assert (lab.computed, lab.found) == (2, 2)


def test_an_interrupted_write_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken_off(file: Any, **_: Any) -> None:
        file.write(b"PK\x03\x04 half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez_compressed", broken_off)
        with pytest.raises(KeyboardInterrupt):
            Lab(tmp_path).run("squares", squares(1))
    assert files(tmp_path) == []
    assert Lab(tmp_path).run("squares", squares(1))[0]["square"] == 1
    assert len(CALLS) == 2


def flipped(raw: bytes) -> bytes:
    """A bit of the compressed numbers is wrong."""
    middle = raw.index(b"powers.npy") + 60
    return raw[:middle] + bytes([raw[middle] ^ 0x80]) + raw[middle + 1 :]


def without_numbers(_: bytes) -> bytes:
    file = io.BytesIO()
    np.savez(file, powers=np.zeros(4))
    return file.getvalue()


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda raw: b"",
    "cut short": lambda raw: raw[: len(raw) // 2],
    "last byte missing": lambda raw: raw[:-1],
    "zeros": lambda raw: bytes(len(raw)),
    "text": lambda raw: b"not an archive",
    "flipped bit": flipped,
    "entry missing": without_numbers,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_cells_are_computed_anew(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    Lab(tmp_path).run("squares", squares(2, 3))
    cell = squares(3)[0]
    path = tmp_path / "square" / f"{cell.key}.npz"
    path.write_bytes(damage(path.read_bytes()))
    CALLS.clear()

    lab = Lab(tmp_path)
    results = lab.run("squares", squares(2, 3))
    assert [result["square"] for result in results] == [4, 9]
    np.testing.assert_array_equal(results[1]["powers"], [0, 1, 8, 27])
    assert CALLS == [("square", 3)]
    assert (lab.computed, lab.found) == (1, 1)
    Lab(tmp_path).run("squares", squares(2, 3))
    assert CALLS == [("square", 3)]  # the file is whole again


def test_every_flipped_byte_is_noticed_or_harmless(tmp_path: Path) -> None:
    (whole,) = Lab(tmp_path).run("squares", squares(2))
    (path,) = files(tmp_path)
    raw = path.read_bytes()
    CALLS.clear()
    for k in range(0, len(raw), 7):
        path.write_bytes(raw[:k] + bytes([raw[k] ^ 0xFF]) + raw[k + 1 :])
        (result,) = Lab(tmp_path).run("squares", squares(2))
        assert result["square"] == whole["square"]
        assert result["text"] == whole["text"]
        np.testing.assert_array_equal(result["powers"], whole["powers"])
    assert len(CALLS) > len(raw) // 21


def bits(value: Any) -> Any:
    """Something that is equal for equal bits only."""
    if isinstance(value, np.ndarray):
        order = value.flags.f_contiguous, value.flags.c_contiguous
        return value.dtype.str, value.shape, order, value.tobytes()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, list):
        return [bits(part) for part in value]
    if isinstance(value, dict):
        return {name: bits(part) for name, part in value.items()}
    return type(value), value


def test_results_round_trip_bit_for_bit(tmp_path: Path) -> None:
    cell = Cell("", awkward)
    expected = awkward()
    for lab in (Lab(tmp_path), Lab(tmp_path)):
        (result,) = lab.run("", [cell])
        assert set(result) == {*expected, "cell_seconds"}
        assert {name: bits(result[name]) for name in expected} == bits(expected)
    assert lab.found == 1


def test_what_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="cannot keep a set"):
        Lab(tmp_path).run("", [Cell("", unkeepable)])
    assert files(tmp_path) == []


def test_in_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "child_measurement.py").write_text(
        "import os\n"
        "def measure(sizes, scale):\n"
        "    if not sizes:\n"
        "        raise ValueError('no sizes')\n"
        "    return {'process': os.getpid(), 'threads': os.environ['OMP_NUM_THREADS'],\n"
        "            'sum': scale * sum(sizes), 'here': os.path.isdir('benchmarks')}\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    import child_measurement

    found = in_child(child_measurement.measure, sizes=[1, 2], scale=0.1)
    assert found.pop("process") != child_measurement.measure([1], 1.0)["process"]
    assert found == {"threads": "1", "sum": 0.1 * 3, "here": True}
    with pytest.raises(subprocess.CalledProcessError):
        in_child(child_measurement.measure, sizes=[], scale=1.0)


# --- Progress -------------------------------------------------------------------------------------


def test_progress_without_a_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    Lab(tmp_path, progress=bars).run("squares", squares(1, 2))
    Lab(tmp_path, progress=bars).run("again", squares(1, 2, 3))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "squares: 2 done, 0 s" in captured.err
    assert "again: 3 done, 2 of them before" in captured.err


def test_progress_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "120")
    Lab(tmp_path, progress=bars).run("squares of numbers", squares(1, 2))
    assert "squares of numbers" in terminal.getvalue()
    assert "2/2" in terminal.getvalue()


# --- Documents ------------------------------------------------------------------------------------

PANEL = Panel(
    "cadata <1>",
    [
        Curve("ours", [(1000, 0.0125), (16000, 0.25)]),
        Curve("ours", [(16000, 18.75)], style="published"),
        Curve("floor & base", [(0, 0.0078125)], style="level"),
    ],
    "items",
    "seconds",
)
BARS = Bars(
    "OHSUMED",
    ["NDCG@5", "MAP"],
    {"linear | L2": [0.4625, None], "published": [0.4412, 0.4375]},
    "mean of 5 folds",
    start=0.3,
)
ROWS: list[dict[str, Any]] = [
    {"set": "MQ<2008>", "items": 9630, "seconds": 0.123456, "rule": "a|b", "mean": "0.47 ± 0.02"},
    {"set": "OHSUMED", "items": 11303, "seconds": 12345.678, "published": None, "mean": "0.5"},
    {"set": "cadata", "items": np.int64(16000), "seconds": np.float64(1e-7), "published": 1080},
]
ABOUT = {"machine": "a <processor> & memory", "date": "2001-02-03"}


def write_document() -> Document:
    made = Document()
    made.section("tree", "Trees & <sorting>", "A. Author: On trees | sorts, 2014")
    made.say("Ours is **3.5 times** faster with `counting='auto' <x>`, as 1 < 2 & 2*3*4 = 24.")
    made.say("A fine point.", detail=True)
    made.table("Times of <fits>", ROWS, "One thread, gap `1e-3`.")
    made.table("A detailed table", [{"m": 77777}], "Details.", detail=True)
    made.figure("Time & size", [PANEL], "Published <times>.", picture="time")
    made.figure("Without a picture", [BARS], "Only in the report.")
    made.section("last", "Details only")
    made.figure("Hidden", [PANEL, BARS], picture="hidden", detail=True)
    made.table("Nothing", [], detail=True)
    return made


@pytest.fixture(scope="module")
def document() -> Document:
    return write_document()


@pytest.fixture(scope="module")
def html(document: Document) -> str:
    return to_html(document, ABOUT)


def test_everything_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    write_document()
    out = capsys.readouterr().out
    for text in (
        "=== tree: Trees & <sorting>", "A. Author: On trees | sorts, 2014", "**3.5 times** faster",
        "A fine point.", "Times of <fits>", "One thread, gap `1e-3`.", "A detailed table", "77,777",
        "Details.", "Time & size", "Published <times>.", "cadata <1>", "floor & base",
        "Without a picture", "linear | L2", "NDCG@5 0.4625", "MAP -", "NDCG@5 0.4412", "MAP 0.4375",
        "(1000, 0.0125)", "(1.6e+04, 0.25)", "(1.6e+04, 18.75)", "(0, 0.007812)",
        "=== last: Details only", "Hidden", "Nothing", "(no rows)",
    ):  # fmt: skip
        assert text in out, text
    for row in ROWS:
        for value in row.values():
            assert show(value) in out


def tables(page: ET.Element) -> dict[str, list[list[str]]]:
    """The cells of the tables of a page, by the heading before them."""
    found = {}
    for section in page.iter("section"):
        for heading, figure in itertools.pairwise(section):
            table = figure.find("div/table")
            if table is not None:
                found["".join(heading.itertext())] = [
                    ["".join(cell.itertext()) for cell in row] for row in table.iter("tr")
                ]
    return found


def test_html_has_everything(html: str) -> None:
    page = ET.fromstring(html)  # fails unless all is closed and escaped
    words = " ".join(" ".join(page.itertext()).split())
    assert html.startswith("<!DOCTYPE html>")
    assert page.findtext("head/title") == page.findtext("body/main/h1")
    assert page.findtext("head/title") == "The papers, computed anew"
    for part in (
        "a <processor> & memory", "2001-02-03", "Trees & <sorting>", "On trees | sorts, 2014",
        "A fine point.", "as 1 < 2 & 2*3*4 = 24.", "Times of <fits>", "One thread, gap", "Details.",
        "Published <times>.", "Details only", "(no rows)",
    ):  # fmt: skip
        assert part in words, part
    assert [e.text for e in page.iter("strong")] == ["Contents", "3.5 times"]
    assert [e.text for e in page.iter("code")] == ["counting='auto' <x>", "1e-3"]

    found = tables(page)
    names = ["set", "items", "seconds", "rule", "mean", "published"]
    assert found["Times of <fits>"] == [
        names, *([show(row.get(name)) for name in names] for row in ROWS)
    ]  # fmt: skip
    assert found["Times of <fits>"][2] == ["OHSUMED", "11,303", "12,346", "-", "0.5", "-"]
    assert found["A detailed table"] == [["m"], ["77,777"]]
    for number in ("(1000, 0.0125)", "(1.6e+04, 18.75)", "(0, 0.007812)", "0.4625", "0.4375"):
        assert number in words  # the points of the figures


def test_html_needs_nothing_else(document: Document, html: str) -> None:
    page = ET.fromstring(html)
    assert not {"script", "link", "iframe", "object"} & {element.tag for element in page.iter()}
    ids = [element.get("id") for element in page.iter() if element.get("id")]
    assert len(set(ids)) == len(ids)
    links = [element.get("href", "") for element in page.iter("a")]
    assert links == [f"#{name}" for name in ids]
    assert len(links) == len(document.sections)
    for element in page.iter():
        assert element.get("src", "data:").startswith("data:")
    style = page.findtext("head/style") or ""
    assert "url(" not in style
    assert "@import" not in style


def test_html_aligns_numbers(html: str) -> None:
    about, table, *_ = ET.fromstring(html).iter("table")
    assert about.get("class") == "about"
    for row in table.iter("tr"):
        right = [cell.get("class") == "number" for cell in row]
        assert right == [False, True, True, False, True, True]


def test_html_shows_the_pictures(document: Document, html: str) -> None:
    pytest.importorskip("matplotlib")
    page = ET.fromstring(html)
    images = list(page.iter("img"))
    titles = ["Time & size", "Without a picture", "Hidden"]
    assert [image.get("alt") for image in images] == titles
    figures = [p for s in document.sections for p in s.parts if isinstance(p, Figure)]
    for image, figure in zip(images, figures, strict=True):
        kind, content = (image.get("src") or "").split(",")
        assert kind == "data:image/svg+xml;base64"
        assert base64.b64decode(content) == draw(figure, kind="svg")


def test_html_without_matplotlib(document: Document, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("matplotlib", "matplotlib.style", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=re.escape("pip install 'ranksvm[bench]'")):
        draw(Figure("", [PANEL]), kind="png")
    page = ET.fromstring(to_html(document, ABOUT))
    words = " ".join(page.itertext())
    assert list(page.iter("img")) == []
    assert words.count("matplotlib is not installed") == 3
    assert "0.4625" in words


def test_empty_document() -> None:
    page = ET.fromstring(to_html(Document(), {}))
    assert page.find("body/main/nav") is None
    assert page.find("body/main/table") is None
    assert to_markdown(Document(), {}).startswith("# The papers, computed anew\n\n")


def test_markdown_is_the_summary(document: Document) -> None:
    text = to_markdown(document, ABOUT)
    lines = text.splitlines()
    assert lines[0] == "# The papers, computed anew"
    assert "`make papers`" in lines[2]
    headings = [line for line in lines if line.startswith("#")]
    assert headings[1:] == [
        r"## Trees & \<sorting>", r"### Times of \<fits>", "### Time & size",
    ]  # fmt: skip
    for part in (
        "fine point",
        "detailed",
        "77,777",
        "Without a picture",
        "Only in",
        "Hidden",
        "Details only",
    ):
        assert part not in text, part
    assert r"![Time \& size](time.png)" in lines
    assert text.count("![") == 1
    assert (
        r"Ours is **3.5 times** faster with `counting='auto' <x>`, as 1 < 2 & 2\*3\*4 = 24."
    ) in lines
    assert r"Published \<times>." in lines
    assert "One thread, gap `1e-3`." in lines
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


def test_markdown_tables(document: Document) -> None:
    lines = to_markdown(document, ABOUT).splitlines()
    parsed = [
        [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in lines
        if line.startswith("|")
    ]
    assert parsed[:4] == [
        ["this run", ""], ["---", "---"], ["machine", r"a \<processor> & memory"],
        ["date", "2001-02-03"],
    ]  # fmt: skip
    assert parsed[4:] == [
        ["set", "items", "seconds", "rule", "mean", "published"],
        ["---", "---:", "---:", "---", "---:", "---:"],
        ["MQ<2008>", "9,630", "0.123", "a|b", "0.47 ± 0.02", "-"],
        ["OHSUMED", "11,303", "12,346", "-", "0.5", "-"],
        ["cadata", "16,000", "1e-07", "-", "-", "1,080"],
    ]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("- not a list", r"\- not a list"),
        ("1. not a list", r"1\. not a list"),
        ("12) nor this", r"12\) nor this"),
        ("# no heading", r"\# no heading"),
        ("> no quote", r"\> no quote"),
        ("-0.5 is a number", "-0.5 is a number"),
        ("1.5 is one too", "1.5 is one too"),
        ("a_b _c_ __d__ e_", r"a_b \_c\_ \_\_d\_\_ e\_"),
        ("[c](d) [e] ~f~ $g$ \\h", r"[c\](d) [e] \~f\~ \$g\$ \\h"),
        ("1 < 2 & <i> </i> &lt; &", r"1 < 2 & \<i> \</i> \&lt; &"),
        ("two\n  lines", "two lines"),
    ],
)
def test_markdown_takes_texts_literally(text: str, written: str) -> None:
    made = Document()
    made.section("s", "S")
    made.say(text)
    assert to_markdown(made, {}).split("\n\n")[-1] == written + "\n"


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", []),
        ("plain", [("text", "plain")]),
        ("a **b c** `d`.", [("text", "a "), ("bold", "b c"), ("text", " "), ("code", "d"),
                            ("text", ".")]),
        ("`**x**`", [("code", "**x**")]),
        ("2**10 and 2**12", [("text", "2**10 and 2**12")]),
        ("p < 0.01 ** or ** not", [("text", "p < 0.01 ** or ** not")]),
        ("an open ` quote", [("text", "an open ` quote")]),
    ],
)  # fmt: skip
def test_markup(text: str, pieces: list[tuple[str, str]]) -> None:
    assert list(spans(text)) == pieces


@pytest.mark.parametrize(
    ("values", "right"),
    [
        ([1, 2.5, None], True),
        (["0.41 ± 0.02", 3, "-"], True),
        (["2^-10", "1,000", "3.5x", "12 %", "<1e-4", ""], True),
        (["tree"], False),
        ([1, "too slow"], False),
        (["x"], False),
    ],
)
def test_alignment(values: list[Any], right: bool) -> None:
    assert right_aligned(Table("", [{"v": value} for value in values])) == [right]


# --- Drawing --------------------------------------------------------------------------------------

SIGNATURES = {"png": b"\x89PNG\r\n\x1a\n", "svg": b"<?xml"}


def svg(*panels: Panel | Bars) -> bytes:
    return draw(Figure("", panels), kind="svg")


def curve_panel(curves: list[Curve], log: str = "") -> Panel:
    return Panel("t", curves, "x", "y", log)


@pytest.fixture
def matplotlib() -> Any:
    return pytest.importorskip("matplotlib")


@pytest.mark.usefixtures("matplotlib")
@pytest.mark.parametrize("kind", ["png", "svg"])
@pytest.mark.parametrize("log", ["", "x", "y", "xy"])
def test_every_style_on_every_scale(kind: str, log: str) -> None:
    points = [(-1.0, 2.0), (0.0, 0.0), (1.0, -3.0), (2.0, 5.0), (30.0, math.nan), (400.0, 7.0)]
    curves = [Curve(f"{s} $1 {{ $2", points, s) for s in ("line", "published", "level")]
    values = {"a": [1.0, None, -2.0], "b": [None, None, None], "c $x{$": [0.5, math.inf, 0.0]}
    grouped = Bars("b", ["g1", "g2", "$g{$"], values, "y", log.replace("x", ""))
    content = draw(Figure("", [curve_panel(curves, log), grouped]), kind=kind)
    assert content.startswith(SIGNATURES[kind])


@pytest.mark.usefixtures("matplotlib")
def test_many_panels_and_labels() -> None:
    curves = [Curve(f"label number {k}", [(1, k + 1), (10, 2 * k + 1)]) for k in range(24)]
    crowd = Bars("b", [f"a long name {k}" for k in range(9)], {"x": range(9), "y": range(9)}, "y")
    panels = [curve_panel(curves), crowd, *[curve_panel(curves[:2])] * 2]
    assert draw(Figure("", panels), kind="png").startswith(SIGNATURES["png"])
    empty = [curve_panel([]), Bars("", [], {}, "y"), curve_panel([Curve("", [])], "xy")]
    assert draw(Figure("", empty), kind="png").startswith(SIGNATURES["png"])
    assert draw(Figure("", []), kind="svg").startswith(SIGNATURES["svg"])


def test_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="svg or png, not as 'pdf'"):
        draw(Figure("", [PANEL]), kind="pdf")


def test_same_figure_same_bytes(matplotlib: Any) -> None:
    for kind in SIGNATURES:
        content = draw(Figure("", [PANEL, BARS]), kind=kind)
        with matplotlib.rc_context(
            {"axes.facecolor": "red", "font.size": 30, "svg.hashsalt": None}
        ):
            assert draw(Figure("", [PANEL, BARS]), kind=kind) == content
            assert matplotlib.rcParams["font.size"] == 30  # and leaves them alone


@pytest.mark.usefixtures("matplotlib")
def test_svg_refers_to_itself_only() -> None:
    root = ET.fromstring(svg(PANEL, BARS))
    ids = {element.get("id") for element in root.iter()}
    for element in root.iter():
        for name, value in element.attrib.items():
            if name.endswith("href"):
                assert value.startswith("#")
                assert value[1:] in ids
            for target in re.findall(r"url\(([^)]*)\)", value):
                assert target[1:] in ids
    assert b"Date" not in svg(PANEL)


@pytest.mark.usefixtures("matplotlib")
@pytest.mark.parametrize(
    ("log", "dropped"),
    [
        ("", [(1.0, math.nan), (math.inf, 1.0)]),
        ("x", [(0.0, 5.0), (-2.0, 5.0), (3.0, math.nan)]),
        ("y", [(5.0, 0.0), (5.0, -2.0)]),
        ("xy", [(0.0, 5.0), (5.0, 0.0), (-1.0, -1.0)]),
    ],
)
def test_points_that_have_no_place_are_dropped(
    log: str, dropped: list[tuple[float, float]]
) -> None:
    good = [(1.0, 2.0), (10.0, 3.0), (100.0, 0.5)]
    bad = [good[0], *dropped, *good[1:]]
    assert svg(curve_panel([Curve("a", bad)], log)) == svg(curve_panel([Curve("a", good)], log))


@pytest.mark.usefixtures("matplotlib")
def test_negative_points_have_a_place_on_linear_scales() -> None:
    good = [(1.0, 2.0), (10.0, 3.0)]
    low = curve_panel([Curve("a", [(-1.0, -2.0), *good])])
    assert svg(low) != svg(curve_panel([Curve("a", good)]))


@pytest.mark.usefixtures("matplotlib")
def test_level_needs_no_x() -> None:
    at_zero, at_one = (curve_panel([Curve("a", [(x, 2.0)], "level")], "xy") for x in (0, 1))
    assert svg(at_zero) == svg(at_one)
    assert svg(at_zero) != svg(curve_panel([Curve("a", [(0, 3.0)], "level")], "xy"))


@pytest.mark.usefixtures("matplotlib")
def test_bars_start_where_they_are_told_unless_that_hides_one() -> None:
    def grouped(start: float, values: list[float | None], log: str = "") -> bytes:
        return svg(Bars("t", ["a", "b"], {"x": values}, "y", log, start))

    assert grouped(0.3, [0.4, 0.5]) != grouped(0.0, [0.4, 0.5])
    assert grouped(0.3, [0.4, 0.2]) == grouped(0.0, [0.4, 0.2])
    assert grouped(0.0, [0.4, None]) == grouped(0.0, [0.4, math.nan])
    assert grouped(0.0, [0.4, None], "y") == grouped(0.0, [0.4, -1.0], "y")
    assert grouped(0.0, [0.4, -0.2]) != grouped(0.0, [0.4, None])


@pytest.mark.usefixtures("matplotlib")
def test_a_label_keeps_its_colour() -> None:
    def colours(*panels: Panel | Bars) -> set[str]:
        """Colours of lines and bars, not of axes and letters."""
        root = ET.fromstring(svg(*panels))
        styles = " ".join(element.get("style", "") for element in root.iter())
        grey = {"#000000", "#ffffff", "#b0b0b0"}
        return set(re.findall(r"#[0-9a-f]{6}", styles)) - grey

    line = curve_panel([Curve("ours", [(1, 2), (2, 3)])])
    star = curve_panel([Curve("ours", [(1, 2)], "published")])
    bar = Bars("t", ["a"], {"ours": [1.0]}, "y")
    (colour,) = colours(line)
    assert colours(line, star, bar) == {colour}
    second = curve_panel([Curve("theirs", [(1, 2), (2, 3)])])
    assert len(colours(line, second, bar)) == 2
