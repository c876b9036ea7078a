"""The demo prints two tables in which learning beats chance and the best single feature."""

from __future__ import annotations

import re

import pytest

from ranksvm import demo

LINEAR = ("random", "best single feature", "linear, squared hinge", "linear, hinge")
RANKINGS = (
    (*LINEAR, "kernel rbf, C = 5"),
    (*LINEAR, "kernel rbf, C = 5,000", "Nystrom rbf, 500, C = 5,000"),
)


def parse(text: str) -> list[dict[str, list[str]]]:
    """Return the tables in the output, each as {ranking: the cells to the right of it}."""
    tables: list[dict[str, list[str]]] = []
    for line in text.splitlines():
        cells = re.split(r"\s{2,}", line)
        if cells[0] == "ranking":
            tables.append({})
        elif len(cells) == 8 and not line.startswith("-"):
            tables[-1][re.sub(r" \(.*", "", cells[0])] = cells[1:]
    return tables


def test_learning_beats_chance_on_both_sets(capsys):
    assert demo.main(["--queries", "60"]) == 0
    tables = parse(capsys.readouterr().out)
    assert len(tables) == 2
    for table, rankings in zip(tables, RANKINGS, strict=True):
        assert tuple(table) == rankings
        accuracy = {ranking: float(cells[0]) for ranking, cells in table.items()}
        ndcg = {ranking: float(cells[1]) for ranking, cells in table.items()}
        assert accuracy["random"] == pytest.approx(0.5, abs=0.05)
        for ranking in rankings[2:]:
            assert accuracy[ranking] > accuracy["best single feature"] > accuracy["random"] + 0.05
            assert ndcg[ranking] > ndcg["best single feature"] > ndcg["random"]
            objective, gap, n_iter, n_products, seconds = map(float, table[ranking][2:])
            assert objective > 0.0
            assert 0.0 <= gap < 0.01
            assert n_iter >= 1
            assert n_products >= 2
            assert seconds >= 0.0


def test_lines_fit_a_terminal(capsys):
    demo.main(["--queries", "30", "--seed", "1"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 100


def test_too_few_queries_are_refused(capsys):
    with pytest.raises(SystemExit):
        demo.main(["--queries", "2"])
    assert "--queries must be at least 30" in capsys.readouterr().err
