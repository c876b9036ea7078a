"""What files hold is escaped before it reaches a terminal."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import ranksvm.cli
from ranksvm._text import printable
from ranksvm.data.trec_writer import write_run
from ranksvm.learners import LinearModel, read_model
from ranksvm.metrics import compare
from ranksvm.models import ModelFileError, write_model

# Sets the title of the window, rings, turns the order of letters round, and forges a line.
EVIL = "\x1b]0;owned\x07\x9b31m\u202eabc\r\nranksvm: all is well\u2028x\x7f\udcff"
SHOWN = r"\x1b]0;owned\x07\x9b31m\u202eabc\r\nranksvm: all is well\u2028x\x7f\udcff"
WORD = "\x1b]0;owned\x07\u202eD1"


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """Models, tables and text with hostile names and ids, in files of hostile names."""
    place = tmp_path_factory.mktemp("evil")
    params = {"C": 1.0, EVIL: EVIL}
    facts = {EVIL: {EVIL: [EVIL]}, "status": EVIL, "zero_based": False}
    names = (EVIL, "b")
    coef = np.array([1.0, -2.0])
    named = LinearModel(coef=coef, params=params, facts=facts, feature_names=names)
    write_model(place / "named", named)
    write_model(place / "model", LinearModel(coef=coef, params={}, facts=facts))
    rows = [f"{k % 2} qid:{1 + k // 2} 1:{k}.5 2:{3 - k} #docid = {WORD}{k}\n" for k in range(4)]
    (place / "data.txt").write_text("".join(rows))
    (place / ("d\x1b[31m\n" + WORD[:5] + ".txt")).write_text("".join(rows))
    quoted = EVIL.replace("\udcff", "")
    (place / "data.csv").write_text(
        f'label,qid,"{quoted}",b\n1,"{quoted}",1,2\n0,"{quoted}",2,1\n', newline=""
    )
    (place / "scores\x1b[31m\n1").write_text("1\n2\n3\n4\n")
    (place / "scores\x1b[31m\n2").write_text("4\n2\n3\n4\n")
    return place


def commands(place: Path) -> dict[str, list[object]]:
    evil = place / ("d\x1b[31m\n" + WORD[:5] + ".txt")
    return {
        "info of a model": ["info", place / "named"],
        "info of data": ["info", evil],
        "a feature that is missing": ["predict", place / "named", place / "data.txt"],
        "columns": ["predict", place / "model", place / "data.csv"],
        "scores": ["predict", place / "model", evil],
        "a run": ["predict", place / "model", place / "data.txt", "--trec-run"],
        "queries": ["evaluate", place / "data.csv", "--scores", "-", "--per-query"],
        "no file": ["info", place / f"none{WORD}"],
        "a bad line": ["info", place / "scores\x1b[31m\n1"],
        "training": ["train", evil, "-C", "1"],
        "tuning": ["tune", evil, "--valid", evil, "--C-grid", "0.1,1"],
        "comparing": ["compare", evil, place / "scores\x1b[31m\n1", place / "scores\x1b[31m\n2"],
        "explaining": ["explain", place / "model", evil, f"{WORD}0", f"{WORD}1", "--by", "docid"],
        "an unknown document": ["explain", place / "model", evil, EVIL[:-1], "x", "--by", "docid"],
        "an unknown option": ["info", f"--{WORD}"],
        "one argument more": ["info", "a", f"b{WORD}"],
        "a metric": ["evaluate", place / "data.txt", "--scores", "x", "-m", WORD],
        "text as data": ["convert", place / "data.txt", "-"],
        "debugging": ["info", place / f"none{WORD}", "--debug"],
    }


NAMES = sorted(commands(Path()))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_but_visible_signs_off_a_terminal(run, place, name):
    if name == "text as data":
        pytest.skip("a program gets the data as they are")
    code, out, err = run(*commands(place)[name], stdin=b"1\n2\n")
    assert code != 1, err
    for text in (out, err):
        assert re.sub(r"[\n\t]", "", text).isprintable(), ascii(text)
        assert "\nranksvm: all is well" not in text
    lines = err.splitlines()
    if code == 3 and name != "debugging":
        assert all(line.startswith("ranksvm: ") for line in lines), lines


@pytest.mark.parametrize("name", ["info of a model", "text as data", "comparing"])
def test_a_terminal_gets_no_orders_from_files(on_a_terminal, place, name):
    code, shown = on_a_terminal(*commands(place)[name])
    assert code in (0, 3), shown
    assert not re.search("\x1b]|\x07|\x9b|\u202e|\u2028|\x7f|\x1b\\[31m", shown), ascii(shown)
    assert "\\x1b" in shown


def test_markup_in_names_of_files_is_text(on_a_terminal, place, tmp_path):
    path = tmp_path / "a[" / "b].txt"
    path.parent.mkdir()
    path.write_bytes((place / "data.txt").read_bytes())
    code, shown = on_a_terminal("train", path)
    assert code == 0, shown
    assert "a[/b].txt" in re.sub(r"\s", "", shown)


def test_json_is_exact_and_visible(good, place):
    out = good("info", place / "named", "--json")
    assert out.rstrip("\n").isprintable()
    assert json.loads(out)["parameters"][EVIL] == EVIL


def test_ids_with_control_characters_have_no_place_in_a_run(run, place, tmp_path):
    code, _, err = run("predict", place / "model", place / "data.txt", "--trec-run")
    assert code == 3
    assert r"without whitespace or control characters; got '\x1b]0;owned" in err
    with pytest.raises(ValueError, match="control characters"):
        write_run(tmp_path / "run", [1], ["a\x9bb"], [1.0])
    write_run(tmp_path / "run", [1], ["a\udcffb"], [1.0])  # no UTF-8, as it came
    assert b"a\xffb" in (tmp_path / "run").read_bytes()


def test_messages_and_reports_of_the_library_are_visible(tmp_path):
    path = tmp_path / "m"
    write_model(path, LinearModel(coef=np.ones(1), params={}, facts={}))
    content = path.read_bytes().replace(b'"linear', b'"l\\\\u001b')
    path.write_bytes(content)
    with pytest.raises(ModelFileError) as caught:
        read_model(path)
    assert str(caught.value).isprintable()
    shown = str(compare([1, 0, 1], {"a\x1b[31m\n": [1, 2, 3], "b": [3, 2, 1]}, metrics="auc"))
    assert r"a\x1b[31m\n" in shown
    assert re.sub("\n", "", shown).isprintable()


def test_commands_print_in_one_place():
    """What is printed elsewhere would not be escaped."""
    folder = Path(ranksvm.cli.__file__).parent
    printing = {path.name for path in folder.glob("*.py") if "print(" in path.read_text()}
    assert printing == {"output.py", "__init__.py"}  # the latter without typer


def test_what_is_visible_stays_as_it_is():
    for text in ("", "plain", "größe 名前 ∑", "a\\b"):
        assert printable(text) == text
    assert printable("größe", "ascii") == r"gr\xf6\xdfe"
    assert printable(EVIL) == SHOWN
