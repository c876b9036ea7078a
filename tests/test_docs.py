"""The tutorial does what it says: every command and every Python line is run, outputs compared.

A block of kind ``console`` holds commands behind ``$`` and below each what it printed; blocks of
kind ``python`` are doctests.  Text has to be the same; numbers may differ in their last digits, as
other processors and libraries round otherwise, and times may be anything.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
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


@pytest.mark.parametrize(
    "name", ["tutorial.md", "kernels.md", "preferences.md", "factorized.md", "certificates.md"]
)
def test_a_document_does_what_it_says(name, tmp_path, monkeypatch):
    pytest.importorskip("typer")
    monkeypatch.chdir(tmp_path)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "COLUMNS": "100"}
    document = (DOCS / name).read_text(encoding="utf-8")
    runner = doctest.DocTestRunner(checker=Checker(), optionflags=doctest.ELLIPSIS)
    names: dict = {}
    blocks = BLOCK.findall(document)
    assert "python" in {kind for kind, _ in blocks} <= {"console", "python"}
    for at, (kind, block) in enumerate(blocks):
        if kind == "python":
            test = doctest.DocTestParser().get_doctest(block, names, f"{name}[{at}]", name, 0)
            out: list[str] = []
            result = runner.run(test, out=out.append, clear_globs=False)
            names.update(test.globs)
            assert result.attempted, f"no >>> in block {at} of {name}"
            assert result.failed == 0, "".join(out)
            continue
        for command, expected in commands(block):
            done = subprocess.run(
                command, shell=True, env=environment, capture_output=True, text=True, timeout=120
            )
            found = done.stdout + done.stderr
            assert same(expected, found), f"$ {command}\nexpected:\n{expected}\nfound:\n{found}"


def test_the_comparison_can_fail():
    assert same("ndcg@10  0.4321\n3 items, 0.01 s", "ndcg@10 0.4322\n3 items, 1.20 s")
    assert not same("ndcg@10  0.4321", "ndcg@10  0.4521")
    assert not same("3 items", "4 items")
    assert not same("3 items", "3 items\n4 queries")
    assert not same("3 items", "3 queries")
    assert list(commands("$ a\nb\nc\n$ d \\\n  e\nf")) == [("a", "b\nc"), ("d \\\n  e", "f")]
