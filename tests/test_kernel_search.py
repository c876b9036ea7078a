"""The choice of C and gamma: against plain loops of fits, and after being broken off."""

from __future__ import annotations

import errno
import functools
import hashlib
import json
import math
import os
import re
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks

import ranksvm
from ranksvm import KernelRankSVM, KernelRankSVMCV
from ranksvm.data.queries import QueryGroups
from ranksvm.datasets import make_ranking
from ranksvm.metrics import evaluate
from ranksvm.model_selection import (
    GridSearch,
    QueryKFold,
    default_gammas,
    search_grid,
    search_path,
)
from ranksvm.model_selection.checkpoint import Cell
from ranksvm.model_selection.splits import HeldOut, TrainingSet
from ranksvm.learners import KernelProblem, KernelSettings
from ranksvm.learners.participants import comparable_items
from ranksvm.learners.problem import RankProblem

CS = [0.5, 500.0, 20.0]
GAMMAS = [0.3, 0.02]
NAN = math.nan
TIGHT = {"tol": 1e-9}
quiet = pytest.mark.filterwarnings("ignore:KernelRankSVMCV. the best:UserWarning")


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any, Any]:
    X, y, qid, _ = make_ranking(18, (3, 9), 5, random_state=1)
    rows = np.random.default_rng(0).permutation(len(y))
    return X[rows], y[rows], np.array([f"q{q}" for q in qid])[rows]


def searched(data: Any, settings: KernelSettings | None = None, **options: Any) -> GridSearch:
    X, y, qid = data
    groups = QueryGroups.from_qid(qid, X.shape[0])
    if "validation" not in options:
        options.setdefault("folds", list(QueryKFold(3).split(qid=qid)))
    Cs, gammas = options.pop("Cs", CS), options.pop("gammas", GAMMAS)
    chosen = KernelSettings() if settings is None else settings
    return search_grid(X, y.astype(float), groups, chosen, Cs, gammas, **options)


def same(first: GridSearch, second: GridSearch) -> bool:
    names = ("Cs", "gammas", "scores", "objectives", "gaps", "n_iter", "n_products")
    return first.random_state == second.random_state and all(
        np.array_equal(getattr(first, name), getattr(second, name), equal_nan=True)
        for name in names
    )


# --- The table ------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array, sp.csc_matrix])
@pytest.mark.parametrize(
    ("metric", "conventions"),
    [("pairwise_accuracy", "standard"), ("ndcg@5", "letor"), ("mean_ndcg", "letor")],
)
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"loss": "hinge", "reduction": "query_mean", "kernel": "laplacian", "tol": 1e-7},
        {"kernel": "poly", "degree": 2, "coef0": 0.5, "reduction": "sum"},
        {"approximation": "nystroem", "n_components": 12, "random_state": 5},
        {"approximation": "fourier", "n_components": 30, "random_state": 5},
    ],
)
def test_the_table_is_that_of_separate_fits(data, params, metric, conventions, layout):
    X, y, qid = data
    params = {**TIGHT, **params}
    Cs = [0.01, 0.5] if params.get("reduction") == "sum" else CS
    search = searched(
        (layout(X), y, qid), KernelSettings(**params), Cs=Cs, metric=metric,
        conventions=conventions, n_threads=2,
    )  # fmt: skip
    assert search.scores.shape == (len(GAMMAS), 3, len(Cs))
    for i, gamma in enumerate(GAMMAS):
        for k, (train, test) in enumerate(QueryKFold(3).split(qid=qid)):
            for j, C in enumerate(Cs):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    one = KernelRankSVM(C, gamma=gamma, **params)
                    one.fit(X[train], y[train], qid[train])
                found = evaluate(
                    y[test], one.predict(X[test]), qid[test], [metric], conventions=conventions
                )
                assert search.scores[i, k, j] == pytest.approx(found[metric], abs=1e-6)
                slack = search.gaps[i, k, j] + one.gap_ + 1e-9 * one.objective_
                assert abs(search.objectives[i, k, j] - one.objective_) <= slack
    mean = search.scores.mean(axis=1)
    assert np.allclose(search.mean_scores, mean)
    assert search.best_score == mean.max()
    assert mean[GAMMAS.index(search.best_gamma), Cs.index(search.best_C)] == mean.max()
    assert search.flat("scores")[:, search.best_index].mean() == pytest.approx(mean.max())
    assert search.params["C"][search.best_index] == search.best_C
    assert search.params["gamma"][search.best_index] == search.best_gamma


def test_a_validation_set_and_weights(data):
    X, y, qid = data
    rng = np.random.default_rng(2)
    groups = QueryGroups.from_qid(qid, len(y))
    items, queries = rng.uniform(0.5, 2.0, len(y)), rng.uniform(0.5, 2.0, groups.n_queries)
    other, utility, ids, _ = make_ranking(9, (3, 9), 5, random_state=7)
    search = searched(
        data, KernelSettings(**TIGHT), validation=HeldOut(other, utility.astype(float), ids),
        metric="map", conventions="letor", item_weight=items, query_weight=queries,
    )  # fmt: skip
    assert search.scores.shape == (2, 1, 3)
    for i, gamma in enumerate(GAMMAS):
        for j, C in enumerate(CS):
            one = KernelRankSVM(C, gamma=gamma, **TIGHT)
            one.fit(X, y, qid, sample_weight=items, query_weight=queries)
            found = evaluate(utility, one.predict(other), ids, ["map"], conventions="letor")
            assert search.scores[i, 0, j] == pytest.approx(found["map"], abs=1e-6)


def test_threads_change_nothing(data):
    for params in ({}, {"approximation": "nystroem", "n_components": 10, "random_state": 0}):
        one = searched(data, KernelSettings(**params))
        assert same(one, searched(data, KernelSettings(**params), n_threads=2))


def test_a_path_of_kernel_fits_is_a_row_of_the_grid(data):
    """No path guides another: coefficients of different folds belong to different items."""
    X, y, qid = data
    groups = QueryGroups.from_qid(qid, len(y))
    settings = KernelSettings(gamma=GAMMAS[1])
    folds = list(QueryKFold(3).split(qid=qid))
    path = search_path(X, y.astype(float), groups, settings, CS, folds=folds, n_threads=2)
    grid = searched(data, gammas=GAMMAS[1:])
    assert path.mean_coef is None
    assert np.array_equal(path.scores, grid.scores[0])
    assert np.array_equal(path.objectives, grid.objectives[0])


def test_a_precomputed_kernel_is_the_named_one(data):
    X, y, qid = data
    K = rbf_kernel(X, gamma=GAMMAS[0])
    given = searched((K, y, qid), KernelSettings(kernel="precomputed", **TIGHT), gammas=None)
    named = searched(data, KernelSettings(**TIGHT), gammas=GAMMAS[:1])
    assert np.allclose(given.scores, named.scores, atol=1e-9)
    assert np.allclose(given.objectives, named.objectives, rtol=1e-8)
    assert not given.has_gamma
    assert given.params.keys() == {"C"}
    with pytest.raises(ValueError, match="'precomputed' has no gamma"):
        searched((K, y, qid), KernelSettings(kernel="precomputed"))


def by_hand(scores: Any, Cs: Any = (1.0, 0.1, 10.0), gammas: Any = (2.0, 0.5)) -> GridSearch:
    table = np.array(scores, dtype=float)[:, None, :]
    return GridSearch(
        np.array(Cs), np.array(gammas), "map", "standard", table, np.ones(1, dtype=bool), table,
        table, table, np.zeros(table.shape, int), np.zeros(table.shape, int), True, 0, None,
        (), (), (),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("scores", "C", "gamma"),
    [
        ([[0.1, 0.2, 0.3], [0.1, 0.2, 0.25]], 10.0, 2.0),
        ([[0.3, 0.2, 0.3], [0.1, 0.2, 0.3]], 1.0, 2.0),  # the smallest C,
        ([[0.3, 0.2, 0.3], [0.3, 0.2, 0.3]], 1.0, 0.5),  # then the smallest gamma
        ([[0.3, 0.3, 0.3], [0.3, 0.2, 0.3]], 0.1, 2.0),
        ([[0.3, 0.1, 0.3 + 1e-15], [0.1, 0.1, 0.1]], 1.0, 2.0),  # equal but for rounding
        ([[NAN, 0.1, 0.2], [NAN, NAN, NAN]], 10.0, 2.0),  # what has no score
        ([[NAN, NAN, NAN], [0.1, 0.1, NAN]], 0.1, 0.5),
    ],
)
def test_ties_go_to_the_smallest(scores, C, gamma):
    search = by_hand(scores)
    assert search.best_score == pytest.approx(np.nanmax(scores))
    assert (search.best_C, search.best_gamma) == (C, gamma)


def test_edges_are_told_in_both_directions():
    def edges(i: int, j: int) -> list[str]:
        scores = np.zeros((3, 3))
        scores[i, j] = 1.0
        return list(by_hand(scores, (1.0, 0.1, 10.0), (2.0, 0.5, 8.0)).edges)

    assert edges(0, 0) == []
    (text,) = edges(0, 1)
    assert text.startswith("the best C, 0.1, is the smallest")
    assert "Give Cs that reach" in text
    (text,) = edges(2, 0)
    assert text.startswith("the best gamma, 8, is the largest")
    assert "Give gammas that reach" in text
    assert len(edges(1, 2)) == 2
    assert by_hand([[1.0]], (1.0,), (1.0,)).edges == ()


def test_default_gammas(data):
    X = data[0]
    scale = 1.0 / (X.shape[1] * X.var())
    assert np.allclose(default_gammas(X), scale * np.array([1 / 16, 1 / 4, 1, 4, 16]))
    assert np.allclose(default_gammas(sp.csr_array(X), 2), scale * np.array([0.5, 2.0]))
    assert np.array_equal(searched(data, Cs=[1.0], gammas=None).gammas, default_gammas(X))
    with pytest.raises(ValueError, match="at least 1"):
        default_gammas(X, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gammas": []}, "gammas must be a sequence"),
        ({"gammas": [1.0, -1.0]}, "every gamma of gammas must be a positive"),
        ({"gammas": [1.0, 1.0]}, "gammas holds 1 more than once"),
        ({"Cs": [0.0]}, "every C of Cs"),
        ({"metric": "nonsense"}, "nonsense"),
        ({"folds": []}, "no fold"),
        ({"folds": None}, "either folds or a validation set"),
    ],
)
def test_bad_grids(data, options, message):
    with pytest.raises(ValueError, match=message):
        searched(data, **options)


def test_splits_that_do_not_count(tmp_path, data, fits):
    X, y, qid = data
    first = qid == np.unique(qid)[0]
    flat = np.where(first, 1.0, y)  # no pair in this query
    folds = [(~first, first), *QueryKFold(2).split(qid=qid)]
    search = searched((X, flat, qid), folds=folds)
    assert search.counted.tolist() == [False, True, True]
    assert np.isnan(search.scores[:, 0]).all()
    assert np.array_equal(search.mean_scores, search.scores[:, 1:].mean(axis=1))
    assert np.allclose(search.deviations, search.flat("scores")[1:].std(axis=0))
    (text,) = search.undefined
    assert text.startswith("fold 1, held-out part: pairwise_accuracy is not defined")
    # Known from the labels alone: no fit, and no file.
    fits.clear()
    for held_out in ({"folds": folds[:1]}, {"validation": HeldOut(X, np.ones(len(y)), qid)}):
        with pytest.raises(ValueError, match="no split to take pairwise_accuracy on"):
            searched((X, flat, qid), checkpoint=tmp_path / "search.jsonl", **held_out)
    assert fits == []
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def overflowing(data) -> dict[str, Any]:
    """A search with gammas under which a cubic kernel of held-out items overflows."""
    X, y, qid = data
    huge = np.where((qid == qid[0])[:, None], 1e120 * X, X)
    return {"settings": KernelSettings(kernel="poly"),
            "validation": HeldOut(huge, y.astype(float), qid), "Cs": [1.0, 10.0]}  # fmt: skip


@pytest.mark.parametrize("gammas", [[1e-60, 1e-10], [1e-10, 1e-60], [1e-10, 1e-60, 1.0]])
def test_a_gamma_that_overflows_cannot_be_chosen(tmp_path, data, overflowing, gammas):
    path = tmp_path / "search.jsonl"
    search = searched(data, **overflowing, gammas=gammas, checkpoint=path)
    bad = [gamma != 1e-60 for gamma in gammas]
    assert np.isnan(search.mean_scores).all(axis=1).tolist() == bad
    assert np.isfinite(search.mean_scores[gammas.index(1e-60)]).all()
    assert search.best_gamma == 1e-60
    assert np.isfinite(search.best_score)
    assert search.undefined == ()
    assert len(search.unscored) == 2 * sum(bad)
    assert search.unscored[0].startswith("gamma = 1e-10, validation set, C = 1: the scores of held")
    again = searched(data, **overflowing, gammas=gammas, checkpoint=path)
    assert same(search, again)
    assert (again.n_resumed, again.unscored) == (len(gammas), search.unscored)
    with pytest.raises(ValueError, match=r"nothing to choose from.*gamma = 1e-10, validation set"):
        searched(data, **overflowing, gammas=[1e-10])


@quiet
def test_overflow_in_the_table_of_the_estimator(data, overflowing):
    X, y, qid = data
    held_out = tuple(overflowing["validation"])
    model = KernelRankSVMCV([1.0, 10.0], [1e-10, 1e-60], kernel="poly")
    with pytest.warns(UserWarning, match="2 of 4 fits have no score, the first of them: gamma = 1"):
        model.fit(X, y, qid, validation=held_out)
    assert model.gamma_ == 1e-60
    assert np.isnan(model.cv_results_["mean_test_score"]).tolist() == [True, True, False, False]
    assert set(model.cv_results_["rank_test_score"][:2]) == {3}


def test_errors_say_where(data, monkeypatch):
    """Whatever part of the work they come from."""

    def failing(self: Any, C: Any = None, **options: Any) -> Any:
        raise kind("no good")

    for kind in (ValueError, OverflowError):
        with monkeypatch.context() as patch:
            patch.setattr(RankProblem, "solve", failing)
            with pytest.raises(kind, match=r"^gamma = 0.3, fold 1: no good$"):
                searched(data)
            with pytest.raises(kind, match=r"^fold 1: no good$"):
                searched(data, KernelSettings(kernel="linear"), gammas=None)
    X, y, qid = data
    flat = np.where(qid == qid[0], y, 0.0)
    folds = [(qid == qid[0], qid != qid[0]), (qid != qid[0], qid == qid[0])]
    with pytest.raises(ValueError, match=r"^gamma = 0.3, fold 2: no comparable pair"):
        searched((X, flat, qid), folds=folds[::-1][1:] + folds[1:], metric="map",
                 conventions="letor")  # fmt: skip

    class Enough(ValueError):
        pass

    def stop(*_: Any) -> None:
        raise Enough

    with pytest.raises(Enough):
        searched(data, progress=stop)


def test_room_for_the_last_fit_is_looked_for_first(data, fits):
    X, y, qid = data
    settings = {"approximation": "fourier", "n_components": 50, "random_state": 0}
    groups = QueryGroups.from_qid(qid, len(y))
    KernelProblem(X, y.astype(float), groups, KernelSettings(**settings))
    n_items = len(comparable_items(y, groups, None, None))
    short = {**settings, "memory_budget": n_items * 50 * 8 - 1}
    model = KernelRankSVMCV([1.0, 10.0], [0.1], cv=3, **short)
    with pytest.raises(ValueError, match=rf"50 features of {n_items} items take"):
        model.fit(X, y, qid)
    assert fits == []
    searched(data, KernelSettings(**short))  # folds are smaller


# --- Broken off and resumed -----------------------------------------------------------------------


@pytest.fixture
def fits(monkeypatch) -> list[float]:
    """Every C that is fitted from now on."""
    done: list[float] = []
    solve = RankProblem.solve

    def counted(self: Any, C: Any = None, **options: Any) -> Any:
        done.append(C)
        return solve(self, C, **options)

    monkeypatch.setattr(RankProblem, "solve", counted)
    return done


def interrupt_after(n: int) -> Any:
    def progress(done: int, total: int, message: str) -> None:
        assert total == 18
        if done == n:
            raise KeyboardInterrupt

    return progress


SETTINGS = KernelSettings(approximation="nystroem", n_components=10)


@pytest.mark.parametrize("after", [1, 3, 4, 11, 18])
def test_an_interrupted_search_goes_on(tmp_path, data, fits, after):
    path = tmp_path / "search.jsonl"
    with pytest.raises(KeyboardInterrupt):
        searched(data, SETTINGS, checkpoint=path, progress=interrupt_after(after))
    finished = (after - 1) // 3  # the last cell was not scored yet
    lines = path.read_text().splitlines()
    assert len(lines) == 1 + finished
    fits.clear()
    told: list[tuple[int, int, str]] = []
    search = searched(data, SETTINGS, checkpoint=path, progress=lambda *row: told.append(row))
    assert len(fits) == 18 - 3 * finished
    assert search.n_resumed == finished
    assert [row[:2] for row in told] == [(k, 18) for k in range(1, 19)]
    assert sum("done before" in row[2] for row in told) == 3 * finished
    # The seed was drawn by the first run.
    seed = json.loads(lines[0])["random_state"]
    assert search.random_state == seed
    assert same(search, searched(data, replace(SETTINGS, random_state=seed)))
    fits.clear()
    again = searched(data, SETTINGS, checkpoint=path)
    assert same(search, again)
    assert np.array_equal(search.seconds, again.seconds)
    assert fits == []


def test_a_half_written_line_is_written_over(tmp_path, data, fits):
    path = tmp_path / "search.jsonl"
    whole = searched(data, checkpoint=path)
    content = path.read_bytes()
    last = content.rindex(b"\n", 0, -1) + 1
    broken = [content[:last] + tail for tail in (b'{"gamma"', b"{}", b"\x00" * 9, b"[1]", b"7\r")]
    cuts = (last, last + 1, (last + len(content)) // 2, len(content) - 1)
    broken += [content[:cut] for cut in cuts]
    for damaged in broken:
        path.write_bytes(damaged)
        fits.clear()
        assert same(searched(data, checkpoint=path), whole)
        assert len(fits) == len(CS)
        _, *cells = (json.loads(line) for line in path.read_text().splitlines())
        assert len(cells) == 6
        assert len({(cell["gamma"], cell["split"]) for cell in cells}) == 6
    # The first line: nothing was done yet.
    path.write_bytes(content[:60])
    assert same(searched(data, checkpoint=path), whole)
    assert len(path.read_text().splitlines()) == 7


def edited(line: bytes, head: bytes = b"", **entries: Any) -> bytes:
    """A line with other entries and the checksum of these."""
    changed = {**json.loads(line), **entries}
    del changed["sha256"]
    text = json.dumps(changed).encode()
    digest = hashlib.sha256(head + text).hexdigest()
    return text[:-1] + f', "sha256": "{digest}"}}\n'.encode()


def old_head(line: bytes) -> bytes:
    """The first line as it was before there were checksums."""
    entries = json.loads(line)
    del entries["sha256"], entries["format"]
    return json.dumps(entries).encode() + b"\n"


def test_a_line_that_is_whole_and_not_ours_is_an_error(tmp_path, data):
    path = tmp_path / "search.jsonl"
    searched(data, checkpoint=path)
    lines = path.read_bytes().splitlines(keepends=True)
    cell = lines[2]
    edited_cell = functools.partial(edited, cell, lines[0])
    wrong = [
        b"{}\n", cell[:-9] + b"\n", b"\n", b"[1]\n", b"7\n", b"\xff\n", b"\r" + cell[9:],
        b"[" * 100_000 + b"\n", b"1" * 5000 + b"\n", cell.replace(b'"gamma"', b'"gemma"'),
        edited_cell(scores="123"), edited_cell(scores=[0.5, 0.5]),
        edited_cell(scores=[None] * 3), edited_cell(scores=["0.5"] * 3),
        edited_cell(scores=[True] * 3), edited_cell(scores=[10**400] * 3),
        edited_cell(scores={"0.5": 1, "1": 2, "2": 3}),
        edited_cell(n_iter=[1.5, 2, 3]), edited_cell(n_iter=[2**63, 2, 3]),
        edited_cell(n_iter=[math.inf, 2, 3]), edited_cell(split=math.inf), edited_cell(split=-1),
        edited_cell(split="0"), edited_cell(gamma="wide"), edited_cell(gamma=10**400),
        edited_cell(shortfalls="none"), edited_cell(shortfalls=[1]),
        edited_cell(scores=[0.5, 0.5, 1e9]), edited_cell(scores=[0.5, -0.1, 0.5]),
        edited_cell(scores=["inf", 0.5, 0.5]), edited_cell(gaps=[-1.0, 0.0, 0.0]),
        edited_cell(objectives=[-1.0, 0.0, 0.0]), edited_cell(seconds=["-inf", 0.0, 0.0]),
        edited_cell(split=3), edited_cell(gamma="nan"), edited_cell(gamma=-1.0),
        edited_cell(more=1), edited(cell, lines[1]), cell.replace(b"0", b"1", 1), lines[1],
        cell.replace(b'{"gamma"', b'{"split": 1, "gamma"'), b" " * 100_000 + cell,
    ]  # fmt: skip
    for line in wrong:
        for damaged in ([*lines[:2], line, *lines[3:]], [*lines[:2], line]):
            content = b"".join(damaged)
            path.write_bytes(content)
            with pytest.raises(ValueError, match=r"search.jsonl, line 3: damaged. Delete"):
                searched(data, checkpoint=path)
            assert path.read_bytes() == content
    for head, message in {
        b"[" * 100_000 + b"\n": "is not a checkpoint",
        b"1" * 5000 + b"\n": "is not a checkpoint",
        edited(lines[0], file="a list"): "is not a checkpoint",
        edited(lines[0], search=3): "line 1: damaged",
        edited(lines[0], random_state="7"): "line 1: damaged",
        lines[0].replace(b'"random_state": null', b'"random_state": 3'): "line 1: damaged",
        edited(lines[0], format=1): "of another version of ranksvm .format 1, expected 2.",
        edited(lines[0], format=3): "of another version of ranksvm .format 3, expected 2.",
        old_head(lines[0]): "of another version of ranksvm .format 1, expected 2.",
    }.items():
        path.write_bytes(head + cell)
        with pytest.raises(ValueError, match=message):
            searched(data, checkpoint=path)
        assert path.read_bytes() == head + cell


def test_scores_made_nan_by_hand_are_not_chosen(tmp_path, data):
    path = tmp_path / "search.jsonl"
    whole = searched(data, checkpoint=path)
    lines = path.read_bytes().splitlines(keepends=True)
    row = GAMMAS.index(whole.best_gamma)
    for k in range(1, 7):
        if json.loads(lines[k])["gamma"] == whole.best_gamma:
            lines[k] = edited(lines[k], lines[0], scores=["nan"] * 3)
            break
    path.write_bytes(b"".join(lines))
    search = searched(data, checkpoint=path)
    assert search.n_resumed == 6
    assert np.isnan(search.mean_scores[row]).all()
    assert search.best_gamma == GAMMAS[1 - row]
    assert len(search.unscored) == 3


def test_the_file_of_another_search_is_refused(tmp_path, data):
    X, y, qid = data
    path = tmp_path / "search.jsonl"
    seeded = replace(SETTINGS, random_state=1)
    searched(data, seeded, checkpoint=path)
    content = path.read_bytes()
    weight = np.ones(len(y))
    others: list[tuple[Any, Any, dict[str, Any], str]] = [
        ((X + 1e-12, y, qid), seeded, {}, "items"),
        ((sp.csr_array(X), y, qid), seeded, {}, "items"),
        ((X, y[::-1], qid), seeded, {}, "items"),
        ((X, y, np.where(qid == "q1", "q0", qid)), seeded, {}, "items"),
        (data, seeded, {"item_weight": weight}, "weights"),
        (data, replace(seeded, tol=1e-5), {}, "settings"),
        (data, replace(seeded, random_state=2), {}, "settings"),
        (data, replace(seeded, kernel="laplacian"), {}, "settings"),
        (data, seeded, {"Cs": CS[:2]}, "Cs"),
        (data, seeded, {"metric": "map"}, "metric"),
        (data, seeded, {"conventions": "letor"}, "conventions"),
        (data, seeded, {"folds": list(QueryKFold(4).split(qid=qid))}, "splits"),
        (data, seeded, {"validation": HeldOut(X, y.astype(float), qid)}, "splits"),
    ]
    for items, settings, options, part in others:
        with pytest.raises(ValueError, match=rf"a different search \(different .*{part}") as caught:
            searched(items, settings, checkpoint=path, **options)
        assert "Delete it or choose another file" in str(caught.value)
        assert path.read_bytes() == content
    # What changes no model may change.
    searched(data, replace(seeded, memory_budget="1GB"), checkpoint=path, n_threads=2)
    assert path.read_bytes() == content


def test_another_version_does_not_go_on(tmp_path, data, monkeypatch):
    path = tmp_path / "search.jsonl"
    searched(data, checkpoint=path)
    monkeypatch.setattr("ranksvm.model_selection.checkpoint.library_version", lambda: "99.0")
    with pytest.raises(ValueError, match="different version of ranksvm"):
        searched(data, checkpoint=path)


def test_a_grid_may_grow(tmp_path, data, fits):
    path = tmp_path / "search.jsonl"
    searched(data, checkpoint=path)
    fits.clear()
    more = searched(data, checkpoint=path, gammas=[0.005, *GAMMAS])
    assert len(fits) == 3 * len(CS)
    assert more.n_resumed == 6
    assert same(more, searched(data, gammas=[0.005, *GAMMAS]))


@pytest.mark.parametrize(
    "content", [b"0.5\n0.25\n", b"x", b"\x00\xff", b"{}\n", b"[]\n", b"null\n"]
)
def test_other_files_are_left_alone(tmp_path, data, content):
    path = tmp_path / "scores.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is not a checkpoint; not overwritten"):
        searched(data, checkpoint=path)
    assert path.read_bytes() == content


def test_where_checkpoints_go(tmp_path, data):
    empty = tmp_path / "empty"
    empty.touch()
    searched(data, checkpoint=empty)
    assert len(empty.read_text().splitlines()) == 7
    with pytest.raises(FileNotFoundError, match="no directory"):
        searched(data, checkpoint=tmp_path / "nowhere" / "file")
    with pytest.raises(IsADirectoryError):
        searched(data, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="name of the checkpoint is empty"):
        searched(data, checkpoint="")
    for path in (b"bytes", 3):
        with pytest.raises(TypeError, match=f"must be a path as text; got {path!r}"):
            searched(data, checkpoint=path)
    os.mkfifo(tmp_path / "pipe")
    for name in ("/dev/full", "/dev/zero", "/dev/null", str(tmp_path / "pipe")):
        with pytest.raises(ValueError, match=f"^{name} cannot be a checkpoint: it is a device or"):
            searched(data, checkpoint=name)
    with pytest.raises(ValueError, match="callable kernel cannot be kept in a file"):
        searched(data, KernelSettings(kernel=rbf_kernel), gammas=None, checkpoint=tmp_path / "c")
    assert not (tmp_path / "c").exists()
    # Errors of the search come before there is a file.
    with pytest.raises(ValueError, match="gammas"):
        searched(data, gammas=[-1.0], checkpoint=tmp_path / "c")
    assert not (tmp_path / "c").exists()
    # And those of the first cell leave none behind.
    with pytest.raises(ValueError, match="more than memory_budget"):
        searched(data, replace(SETTINGS, memory_budget="1KB"), checkpoint=tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_cells_survive_text():
    scores = (0.1, math.nan, 1.0, 0.0, 5e-324, -0.0)
    values = (0.1, math.nan, math.inf, 1e300, 5e-324, -0.0)
    cell = Cell(scores, values, values, values, (1,) * 6, (2**60,) * 6, ("“early”",))
    text = json.dumps(cell.entries(), allow_nan=False)
    again = Cell.from_entries(json.loads(text), 6, "pairwise_accuracy")
    assert repr(again) == repr(cell)
    for entries, n_C in ((cell.entries(), 5), ({**cell.entries(), "scores": [None] * 6}, 6)):
        with pytest.raises((ValueError, TypeError)):
            Cell.from_entries(entries, n_C, "pairwise_accuracy")
    lower = {**cell.entries(), "scores": [-0.5] * 6}
    assert Cell.from_entries(lower, 6, "kendall_tau").scores == (-0.5,) * 6
    with pytest.raises(ValueError, match=r"^$"):
        Cell.from_entries(lower, 6, "ndcg@10")


def test_a_full_disk_keeps_what_is_done(tmp_path, data, monkeypatch):
    path = tmp_path / "search.jsonl"
    write = os.write

    def stopping(full_at: int) -> Any:
        lines = 0

        def full(descriptor: int, line: bytes) -> int:
            nonlocal lines
            lines += 1
            if lines == full_at:
                return write(descriptor, line[:40])
            if lines > full_at:
                raise OSError(28, "No space left on device")
            return write(descriptor, line)

        return full

    for full_at in (4, 1):
        path.unlink(missing_ok=True)
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", stopping(full_at))
            with pytest.raises(OSError, match="No space left") as caught:
                searched(data, checkpoint=path)
        assert caught.value.filename == str(path)
        assert path.exists() == (full_at > 1)
        if full_at > 1:
            content = path.read_text()
            assert content.endswith("}\n")
            assert len(content.splitlines()) == full_at - 1
            search = searched(data, checkpoint=path)
            assert search.n_resumed == full_at - 2
            assert same(search, searched(data))


def test_one_search_at_a_time(tmp_path, data):
    """A second search on the file, begun in the middle of the first, is refused."""
    path = tmp_path / "search.jsonl"
    refused = []

    def meanwhile(done: int, total: int, message: str) -> None:
        if done in (1, 10):
            content = path.read_bytes()
            with pytest.raises(ValueError, match=r"search.jsonl is in use by another process") as e:
                searched(data, checkpoint=path, gammas=[0.7])
            refused.append(e)
            assert path.read_bytes() == content

    search = searched(data, checkpoint=path, progress=meanwhile)
    assert len(refused) == 2
    assert same(search, searched(data))
    assert searched(data, checkpoint=path).n_resumed == 6


def test_where_there_are_no_locks(tmp_path, data, monkeypatch):
    path = tmp_path / "search.jsonl"
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "fcntl", None)
        whole = searched(data, checkpoint=path)
    assert searched(data, checkpoint=path).n_resumed == 6

    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    assert same(searched(data, checkpoint=path), whole)


# --- KernelRankSVMCV ------------------------------------------------------------------------------


@quiet
@pytest.mark.filterwarnings("ignore:KernelRankSVMCV. . of . splits do not count:UserWarning")
@parametrize_with_checks(
    [
        KernelRankSVMCV([1.0, 50.0], [0.1, 1.0], cv=2),
        KernelRankSVMCV(
            [1.0, 50.0], 2, cv=2, approximation="fourier", n_components=20, random_state=0, n_jobs=1
        ),
    ]
)
def test_scikit_learn_checks(estimator: KernelRankSVMCV, check: Any) -> None:
    """All of them: there is no list of expected failures."""
    check(estimator)


@quiet
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"approximation": "nystroem", "n_components": 15, "random_state": np.random.RandomState(0)},
    ],
)
def test_the_chosen_model(tmp_path: Path, data, params):
    X, y, qid = data
    model = KernelRankSVMCV(CS, GAMMAS, cv=3, **params).fit(X, y, qid)
    table = model.cv_results_
    assert table["param_C"].tolist() == CS * 2
    assert table["param_gamma"].tolist() == np.repeat(GAMMAS, 3).tolist()
    assert table["params"][4] == {"gamma": GAMMAS[1], "C": CS[1]}
    assert all(len(column) == 6 for column in table.values())
    assert model.n_splits_ == 3
    best = table["params"][model.best_index_]
    assert best == {"gamma": model.gamma_, "C": model.C_}
    assert model.best_score_ == table["mean_test_score"].max()
    assert table["rank_test_score"][model.best_index_] == 1
    seed = model.best_estimator_.random_state
    assert (seed is None) == (params == {})
    expected = KernelRankSVM(**best, **{**params, "random_state": seed}).fit(X, y, qid)
    assert np.array_equal(model.predict(X), expected.predict(X))
    assert model.objective_ == expected.objective_
    search = searched(data, replace(expected._settings(), random_state=seed))
    found = [table[f"split{k}_test_score"] for k in range(3)]
    assert np.array_equal(found, search.flat("scores"))
    model.save(tmp_path / "m")
    loaded = ranksvm.load(tmp_path / "m")
    assert np.array_equal(loaded.predict(X), model.predict(X))
    selection = loaded._facts["selection"]
    assert selection["gammas"] == GAMMAS
    assert np.shape(selection["mean_scores"]) == (2, 3)
    assert clone(model).get_params().keys() == model.get_params().keys()


@quiet
def test_validation_frames_and_checkpoints(tmp_path, data, fits):
    import pandas as pd

    X, y, qid = data
    frame = pd.DataFrame(X, columns=list("abcde")).assign(label=y, query=qid)
    half = frame["query"].isin(sorted(set(qid))[:9])
    settings = {"metric": "ndcg@5", "conventions": "letor", "checkpoint": tmp_path / "search.jsonl"}
    model = KernelRankSVMCV(CS, GAMMAS, **settings)
    model.fit(frame[half], "label", "query", validation=frame[~half])
    assert len(fits) == 7
    for k, (C, gamma) in enumerate(zip(model.cv_results_["param_C"],
                                       model.cv_results_["param_gamma"], strict=True)):  # fmt: skip
        one = KernelRankSVM(C, gamma=gamma).fit(X[half], y[half], qid[half])
        found = evaluate(y[~half], one.predict(X[~half]), qid[~half], ["ndcg@5"],
                         conventions="letor")  # fmt: skip
        assert model.cv_results_["mean_test_score"][k] == pytest.approx(found["ndcg@5"], abs=1e-3)
    fits.clear()
    again = clone(model).fit(frame[half], "label", "query", validation=frame[~half])
    assert len(fits) == 1  # on everything
    assert np.array_equal(again.predict(frame), model.predict(frame))
    with pytest.raises(ValueError, match="a different search"):
        clone(model).fit(frame, "label", "query")


@quiet
def test_without_refit_there_is_no_model(data):
    X, y, qid = data
    model = KernelRankSVMCV([1.0, 10.0], [0.1], cv=2, refit=False).fit(X, y, qid)
    assert model.gamma_ == 0.1
    assert not hasattr(model, "best_estimator_")
    with pytest.raises(NotFittedError, match=r"KernelRankSVM\(model.C_, gamma=model.gamma_\)"):
        model.predict(X)
    for kernel, items, advice in (
        ("precomputed", X @ X.T, "model.C_, kernel=model.kernel"),
        ("linear", X, "model.C_, kernel=model.kernel"),
        ("poly", X, "model.C_, kernel=model.kernel, gamma=model.gamma_"),
    ):
        model = KernelRankSVMCV([1.0, 10.0], 1, kernel=kernel, cv=2, refit=False)
        with pytest.raises(NotFittedError, match=rf"KernelRankSVM\({advice}\)") as caught:
            model.fit(items, y, qid).predict(items)
        (call,) = re.findall(r"KernelRankSVM\(.*\)", str(caught.value))
        by_hand = eval(call, {"KernelRankSVM": KernelRankSVM, "model": model})
        by_hand.fit(items, y, qid)
        refitted = clone(model).set_params(refit=True).fit(items, y, qid)
        assert np.array_equal(by_hand.predict(items), refitted.predict(items))


@quiet
def test_kernels_without_gamma(data):
    X, y, qid = data
    K = rbf_kernel(X, gamma=0.1)
    given = KernelRankSVMCV(CS, kernel="precomputed", cv=3).fit(K, y, qid)
    named = KernelRankSVMCV(CS, [0.1], cv=3).fit(X, y, qid)
    assert given.C_ == named.C_
    assert not hasattr(given, "gamma_")
    assert "param_gamma" not in given.cv_results_
    assert np.allclose(given.predict(K), named.predict(X), atol=1e-8)
    held = KernelRankSVMCV(CS, kernel="precomputed").fit(K, y, qid, validation=(K, y, qid))
    assert held.best_score_ >= given.best_score_
    called = KernelRankSVMCV(CS, kernel=lambda A, B: rbf_kernel(A, B, gamma=0.1), cv=3)
    assert np.allclose(called.fit(X, y, qid).predict(X), named.predict(X), atol=1e-6)
    with pytest.raises(ValueError, match="must be positive semi-definite"):
        KernelRankSVMCV(CS, kernel="precomputed", cv=3).fit(K - np.eye(len(y)), y, qid)
    with pytest.raises(ValueError, match="has no gamma"):
        KernelRankSVMCV(CS, [0.1], kernel="linear").fit(X, y, qid)


def test_warnings_and_errors(data):
    X, y, qid = data
    model = KernelRankSVMCV([0.01, 0.1, 1.0, 10.0], [1e-6, 1e-5], cv=2)
    with pytest.warns(UserWarning, match="the best") as caught:
        model.fit(X, y, qid)
    assert any("the best gamma" in str(one.message) for one in caught)
    assert all(one.filename == __file__ for one in caught)
    with pytest.warns(ConvergenceWarning, match="fits ended early"):
        KernelRankSVMCV([100.0], [0.1], tol=1e-14, max_iter=1, cv=2).fit(X, y, qid)
    for params, message in (
        ({"kernel": "nonsense"}, "kernel must be one of"),
        ({"cv": "five"}, "cv must be"),
        ({"gammas": 0}, "at least 1"),
        ({"approximation": "fourier", "kernel": "poly"}, "random Fourier features exist for"),
    ):
        with pytest.raises(ValueError, match=message):
            KernelRankSVMCV(**{"Cs": [1.0], **params}).fit(X, y, qid)


def test_splits_are_handed_rows_of_both_axes(data):
    """Held-out items of a precomputed kernel are scored against the training items."""
    X, y, qid = data
    K = rbf_kernel(X)
    groups = QueryGroups.from_qid(qid, len(y))
    items = TrainingSet(K, y.astype(float), groups, KernelSettings(kernel="precomputed"))
    train, test = next(iter(QueryKFold(3).split(qid=qid)))
    assert np.array_equal(items.held_out(test, train).X, K[test][:, train])
    assert np.array_equal(items.features(train, train), K[train][:, train])
    everything = np.arange(len(y))
    assert items.features(everything, everything) is K
