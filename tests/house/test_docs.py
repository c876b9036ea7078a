"""The pages do what they say: every example is run, and its output compared.

Blocks of a page are run in order, in an empty directory, and share their variables and files:

- ``console``: commands after ``$``, each followed by what it prints.
- ``python`` with ``>>>``: a doctest.
- ``python`` without: a script.  A ``text`` block directly below it is its output.

Any other ``text`` block is no code: a formula, or the layout of a file.  Blocks that cannot be run
are listed in ``NOT_RUN``, with the reason.  Text has to be the same; numbers may differ in their
last digits, because processors and libraries round differently, and times may be anything.
"""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import io
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from command_server import quick_command

import ranksvm

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OTHER_PAGES = [ROOT / name for name in ("SECURITY.md", "benchmarks/README.md")]
# First line of each block that is not run, and the reason.
NOT_RUN = {
    "pip install '.[all]'": "it would install the package into the environment of the tests",
    "make demo    # trains on two small data sets": "the second command would run these tests",
    "make bench     # speed and memory: half an hour on two cores": "it takes too long",
}
# The same for scripts that need packages which are not there for sure: this test runs them.
RUN_BY = {
    "import mlflow": "tests/estimators/test_other_tools.py",
    "import optuna": "tests/estimators/test_other_tools.py",
}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")
SECONDS = re.compile(r"\d+\.\d+ s\b")
SMALL = re.compile(r"\d\.\d+e-\d+")


def commands(block: str) -> Iterator[tuple[str, str]]:
    """Each command of a block with the output below it."""
    command, output = None, []
    for line in block.splitlines():
        if line.startswith("$ "):
            if command is not None:
                yield command, "\n".join(output)
            command, output = line[2:], []
        elif command is not None and command.endswith("\\"):
            command += f"\n{line}"
        else:
            output.append(line)
    if command is not None:
        yield command, "\n".join(output)


def same(expected: str, found: str) -> bool:
    """Whether two texts agree but for rounding, times and the size of gaps."""

    def parts(text: str) -> tuple[str, list[float]]:
        # Gaps are as small as rounding lets them be: their size is not part of the promise.
        text = SMALL.sub("<small>", SECONDS.sub("<time>", text.strip()))
        text = re.sub(r"[ \t]+|-{2,}", " ", text)
        numbers = [float(number.replace(",", "")) for number in NUMBER.findall(text)]
        return NUMBER.sub("#", text), numbers

    (text_a, numbers_a), (text_b, numbers_b) = parts(expected), parts(found)
    close = (
        abs(a - b) <= 2e-3 * max(1e-1, abs(a)) for a, b in zip(numbers_a, numbers_b, strict=False)
    )
    return text_a == text_b and len(numbers_a) == len(numbers_b) and all(close)


class Checker(doctest.OutputChecker):
    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(want, got, optionflags) or same(want, got)


def check_session(test: doctest.DocTest) -> int:
    """Run a doctest; the number of its examples."""
    runner = doctest.DocTestRunner(checker=Checker(), optionflags=doctest.ELLIPSIS)
    out: list[str] = []
    result = runner.run(test, out=out.append, clear_globs=False)
    assert result.failed == 0, "".join(out)
    return result.attempted


@pytest.fixture(scope="module")
def commands_first(tmp_path_factory) -> Iterator[str]:
    """The path of a shell that has the command."""
    pytest.importorskip("typer")
    with quick_command(tmp_path_factory.mktemp("bin")) as folder:
        yield os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]])


def check_commands(block: str, path: str) -> None:
    environment = {**os.environ, "PATH": path, "COLUMNS": "100"}
    for command, expected in commands(block):
        done = subprocess.run(
            command, shell=True, env=environment, capture_output=True, text=True, timeout=120
        )
        found = done.stdout + done.stderr
        assert same(expected, found), f"$ {command}\nexpected:\n{expected}\nfound:\n{found}"


def check_script(script: str, expected: str, names: dict[str, Any], where: str) -> None:
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(script, where, "exec"), names)
    found = printed.getvalue()
    assert same(expected, found), f"{where}\nexpected:\n{expected}\nfound:\n{found}"


def blocks(page: Path) -> Iterator[tuple[str, str, str]]:
    """Kind and content of each block, and the content of a ``text`` block directly below it."""
    document = page.read_text(encoding="utf-8")
    found = list(BLOCK.finditer(document))
    for one, following in zip_longest(found, found[1:]):
        below = ""
        if following is not None and following[1] == "text":
            between = document[one.end() : following.start()]
            below = following[2] if not between.strip() else ""
        yield one[1], one[2], below


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_does_what_it_says(page, tmp_path, monkeypatch, commands_first):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for at, (kind, block, below) in enumerate(blocks(page)):
        where = f"{page.name}[{at}]"
        if kind == "console":
            assert block.startswith("$ "), f"no command at the beginning of {where}"
            check_commands(block, commands_first)
        elif kind == "python" and ">>> " in block:
            test = doctest.DocTestParser().get_doctest(block, names, where, page.name, 0)
            assert check_session(test)
            names.update(test.globs)
        elif kind == "python" and block.splitlines()[0] in RUN_BY:
            assert page.name in (ROOT / RUN_BY[block.splitlines()[0]]).read_text(encoding="utf-8")
        elif kind == "python":
            check_script(block, below, names, where)
        elif kind != "text":
            assert kind == "sh", f"{where} is of kind {kind!r}, which nobody runs"
            assert block.splitlines()[0] in NOT_RUN, f"{where} is not run, and nobody says why"


def test_commands_stand_in_blocks_that_are_run():
    listed = set()
    for page in PAGES:
        if page.name == "papers.md":  # written by `make papers`, which runs its commands
            continue
        listed |= {block.splitlines()[0] for kind, block, _ in blocks(page) if kind == "sh"}
        rest = BLOCK.sub("", page.read_text(encoding="utf-8"))
        assert "```" not in rest, page
        assert not re.search(r"^ {4}(\$|>>>|make |pip |python |ranksvm )", rest, re.MULTILINE), page
    assert listed == set(NOT_RUN)


def modules_with_examples() -> list[str]:
    names = [one.name for one in pkgutil.walk_packages(ranksvm.__path__, "ranksvm.")]
    specs = {name: importlib.util.find_spec(name) for name in names}
    paths = {name: Path(spec.origin) for name, spec in specs.items() if spec and spec.origin}
    return [
        name
        for name, path in paths.items()
        if path.suffix == ".py" and ">>> " in path.read_text(encoding="utf-8")
    ]


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_of_docstrings(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    assert sum(map(check_session, doctest.DocTestFinder().find(module))) > 0


def anchors(page: Path) -> set[str]:
    """What links to the headings of a page end in."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    for link in links:
        if re.match(r"https?://", link):
            continue
        target, _, anchor = link.partition("#")
        there = page.parent / target if target else page
        assert there.exists(), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(there), f"{page.name}: {link}"


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES], ids=lambda page: page.name)
def test_names_in_a_page_exist(page):
    known_files = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("*.*")}
    for folder in ("src/ranksvm", "cpp", "tests", "benchmarks", "docs", "fuzz"):
        known_files |= {path.relative_to(ROOT).as_posix() for path in ROOT.glob(f"{folder}/**/*.*")}
    for code in CODE.findall(BLOCK.sub("", page.read_text(encoding="utf-8"))):
        for name in re.findall(r"\branksvm(?:\.\w+)+(?!\.?\w)", code):
            check_importable(name, page)
        for file in re.findall(r"^[\w/]+\.(?:py|hpp|cpp)$", code):
            found = any(known == file or known.endswith(f"/{file}") for known in known_files)
            assert found, f"{page.name}: there is no {file}"


def check_importable(name: str, page: Path) -> None:
    parent, _, last = name.rpartition(".")
    try:
        importlib.import_module(name)
    except ImportError:
        assert hasattr(importlib.import_module(parent), last), f"{page.name}: there is no {name}"


def options_of_commands() -> set[str]:
    typer = pytest.importorskip("typer")
    from ranksvm.cli.app import COMMANDS

    options = {"--help", "--version", "--install-completion", "--show-completion"}
    for name in COMMANDS:
        command = typer.main.get_command(importlib.import_module(f"ranksvm.cli.{name}").app)
        for parameter in command.params:
            options |= {*parameter.opts, *parameter.secondary_opts}
    return options


@pytest.mark.parametrize("page", [*PAGES, ROOT / "SECURITY.md"], ids=lambda page: page.name)
def test_options_in_a_page_exist(page):
    codes = CODE.findall(BLOCK.sub("", page.read_text(encoding="utf-8")))
    used = {
        option
        for code in codes
        if not code.startswith(("make ", "python "))  # these have options of their own
        for option in re.findall(r"(?<![\w-])--[A-Za-z][\w-]*", code)
    }
    assert used <= options_of_commands()


def test_figures_of_the_readme_are_those_of_the_benchmarks():
    """The table of comparisons has no number that the page with all metrics does not have."""
    readme, details = (
        (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/benchmarks.md")
    )
    table = re.search(r"^\| data set .*?\n\n", readme, re.MULTILINE | re.DOTALL)
    assert table is not None
    numbers = re.findall(r"0\.\d{4}", table[0])
    assert len(numbers) == 24
    assert [number for number in numbers if number not in details] == []


def test_the_comparison_can_fail():
    assert same("ndcg@10  0.4321\n3 items, 0.01 s", "ndcg@10 0.4322\n3 items, 1.20 s")
    assert not same("ndcg@10  0.4321", "ndcg@10  0.4521")
    assert not same("3 items", "4 items")
    assert not same("3 items", "3 items\n4 queries")
    assert not same("3 items", "3 queries")
    assert list(commands("$ a\nb\nc\n$ d \\\n  e\nf")) == [("a", "b\nc"), ("d \\\n  e", "f")]
    check_script("print(f'{1 / 3:.4f}')", "0.3333", {}, "here")
    with pytest.raises(AssertionError, match="expected"):
        check_script("print(3)", "4", {}, "here")
    with pytest.raises(AssertionError, match="Got"):
        check_session(doctest.DocTestParser().get_doctest(">>> 3\n4\n", {}, "here", None, 0))
