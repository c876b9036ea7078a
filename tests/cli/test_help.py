"""The help pages: short, with every default, and completion in the shell."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

typer = pytest.importorskip("typer")

from ranksvm.cli.app import COMMANDS  # noqa: E402

SCREEN = 50  # lines of 100 columns


def pages(good: Any, command: str, monkeypatch: Any) -> list[str]:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERMINAL_WIDTH", "100")
    return str(good(command, "--help")).splitlines()


def options_of(command: str) -> list[Any]:
    found = typer.main.get_command(import_module(f"ranksvm.cli.{command}").app)
    return [one for one in found.params if one.param_type_name == "option"]


def test_the_help_of_train_fits_two_screens(good: Any, monkeypatch: Any) -> None:
    lines = pages(good, "train", monkeypatch)
    assert len(lines) <= 2 * SCREEN
    panels = [line.split()[1] for line in lines if line.startswith("╭")]
    assert panels[:2] == ["Arguments", "Options"]
    assert panels[-1] == "Advanced"
    text = "\n".join(lines)
    usual, rare = text.split("Advanced", 1)
    for option in ("--output", "--C ", "--loss", "--kernel", "--pairs ", "--memory"):
        assert f" {option}" in usual
    for option in ("--resume", "--solver", "--tol", "--coef0", "--dask", "--max-line-bytes"):
        assert f" {option} " in rare


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_says_what_it_is_and_its_default(command: str) -> None:
    for option in options_of(command):
        text = option.help or ""
        assert re.match(r"[A-Z]", text), option.name
        assert text.rstrip("] ").endswith(".") or "[default: " in text.replace("\\", ""), (
            option.name
        )
        if not option.is_flag:
            assert text.count("[default: ") == 1, option.name
            assert not option.show_default or option.default is None


@pytest.mark.parametrize("command", ["train", "tune"])
def test_names_that_an_option_takes_are_in_its_help(command: str, run: Any) -> None:
    """The column of types has no room for them."""
    for option in options_of(command):
        if option.is_flag or option.metavar != "NAME" or "column" in option.name:
            continue
        _, _, error = run(command, "x", option.opts[0], "nonsense")
        names = re.findall(r"'([a-z0-9_]+)'", error.partition("nonsense")[2])
        assert names, error
        for name in names:
            assert re.search(rf"\b{name}\b", option.help), (option.name, name)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("ranksvm tr", ["train"]),
        ("ranksvm train --pair-w", ["--pair-weight"]),
        ("ranksvm train data.txt --loss ", ["hinge", "squared_hinge"]),
    ],
)
def test_the_shell_completes_commands_options_and_names(words: str, expected: list[str]) -> None:
    place = len(words.split()) - (not words.endswith(" "))
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ranksvm"))],
        env={"_RANKSVM_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(place)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout.split() == expected
