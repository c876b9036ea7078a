"""Checkpoints that were changed, signed again or not: the same search as without, or a refusal."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.cases import flipped, mutated, odd_value, repeat
from ranksvm.data.ranking_data import RankingData
from ranksvm.datasets import make_ranking
from ranksvm.learners import KernelSettings
from ranksvm.model_selection import QueryKFold, Search, search

CS, GAMMAS = (0.1, 1.0), (0.5, 2.0)
COLUMNS = {"search": ("part", "value"), "cells": ("candidate", "split", "content", "sha256")}


def run(seconds: float, seed: int) -> int:
    """Run cases for some time; raise at the first that goes wrong."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "search.db"
        return repeat("checkpoints", functools.partial(_one, path), seconds, seed)


@functools.cache
def _data() -> tuple[RankingData, list[Any]]:
    X, y, qid, _ = make_ranking(4, (3, 4), 3, random_state=0)
    return RankingData(X, y.astype(np.float64), qid), list(QueryKFold(2).split(qid=qid))


def _search(path: Path) -> Search:
    data, folds = _data()
    return search(data, KernelSettings(), CS, {"gamma": GAMMAS}, folds=folds, checkpoint=path)


@functools.cache
def _whole() -> tuple[bytes, Search]:
    """Return the file of a finished search, and what was found."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "search.db"
        found = _search(path)
        return path.read_bytes(), found


def _one(path: Path, draw: random.Random) -> None:
    content, found = _whole()
    journal = Path(f"{path}-journal")
    path.write_bytes(content)
    change = draw.choice([_flip, _change_values, _sign_again, _tear])
    change(path, draw)
    changed, was_torn = path.read_bytes(), journal.exists()
    try:
        again = _search(path)
    except ValueError as error:
        message = str(error)
        assert message.isprintable(), ascii(message)
        assert path.name in message, ascii(message)
        # Nothing of it is lost, but what a journal takes back.
        assert was_torn or path.read_bytes() == changed
        return
    finally:
        left = {one.name for one in path.parent.iterdir()} - {path.name}
        assert left <= ({journal.name} if was_torn else set()), left
        journal.unlink(missing_ok=True)
    scores = again.scores[~np.isnan(again.scores)]
    assert ((scores >= -1e-8) & (scores <= 1.0 + 1e-8)).all()
    assert math.isfinite(again.best_score)
    if change is not _sign_again:
        np.testing.assert_array_equal(again.scores, found.scores)
        assert again.best == found.best


def _flip(path: Path, draw: random.Random) -> None:
    """Damage bytes."""
    path.write_bytes(flipped(path.read_bytes(), draw))


def _change_values(path: Path, draw: random.Random) -> None:
    """Change values of the tables, and leave the checksums."""
    with _opened(path) as base:
        for _ in range(draw.randint(1, 3)):
            table = draw.choice(sorted(COLUMNS))
            column, other = draw.choices(COLUMNS[table], k=2)
            value = draw.choice(["?", "CAST(? AS TEXT)", f"iif(? IS 0, 0, {other})"])
            keys = [row[0] for row in base.execute(f"SELECT {COLUMNS[table][0]} FROM {table}")]
            if keys:
                values = (_stored(odd_value(draw)), draw.choice(keys))
                sql = f"UPDATE {table} SET {column} = {value} WHERE {COLUMNS[table][0]} IS ?"
                base.execute(sql, values)
        if draw.random() < 0.3:
            base.execute("DELETE FROM cells WHERE split IS ?", (draw.randrange(2),))


def _sign_again(path: Path, draw: random.Random) -> None:
    """Change the tables as values, and give them the checksums that fit."""
    with _opened(path) as base:
        base.execute("DELETE FROM search WHERE part = 'sha256'")
        if draw.random() < 0.3:
            parts = mutated(dict(base.execute("SELECT part, value FROM search")), draw)
            base.execute("DELETE FROM search")
            rows = [(_stored(name), _stored(value)) for name, value in parts.items()]
            base.executemany("INSERT INTO search VALUES (?, ?)", rows)
        else:
            cells = base.execute("SELECT candidate, split, content FROM cells").fetchall()
            candidate, split, content = draw.choice(cells)
            where = "WHERE candidate = ? AND split = ?"
            text = draw.choice(
                [
                    json.dumps(mutated(json.loads(content), draw)),
                    json.dumps(odd_value(draw)),
                    content[: draw.randrange(99)],
                ]
            )
            column = draw.choice(["candidate", "split", "content", "content", "content"])
            value = text if column == "content" else _stored(odd_value(draw))
            base.execute(f"UPDATE cells SET {column} = ? {where}", (value, candidate, split))
        # What SQLite makes of these values is what is signed.
        said = dict(base.execute("SELECT part, value FROM search"))
        base.execute("INSERT INTO search VALUES ('sha256', ?)", (_sha256(said),))
        seed: Any = said.pop("random state", "null")
        with suppress(ValueError, TypeError):
            seed = json.loads(seed)
        for row in base.execute("SELECT candidate, split, content FROM cells").fetchall():
            signed = (_sha256([said, seed, *row]), *row[:2])
            base.execute("UPDATE cells SET sha256 = ? WHERE candidate IS ? AND split IS ?", signed)


def _tear(path: Path, draw: random.Random) -> None:
    """Leave what a process leaves that is killed while it writes, and damage its journal."""
    work = path.with_name("work.db")
    shutil.copy(path, work)
    base = sqlite3.connect(work, isolation_level=None)
    base.execute("PRAGMA cache_size = 1")  # so that pages are written before the end
    base.execute("BEGIN")
    if draw.random() < 0.5:
        base.execute("DELETE FROM cells WHERE split = 0")
    for k in range(draw.randrange(200)):
        base.execute("INSERT INTO cells VALUES (?, ?, ?, '')", (str(k), k, "x" * 99))
    shutil.copy(work, path)
    with suppress(FileNotFoundError):
        content = Path(f"{work}-journal").read_bytes()
        content = draw.choice([content, flipped(content, draw), content[: draw.randrange(9999)]])
        Path(f"{path}-journal").write_bytes(content)
    base.close()
    work.unlink()


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Lend a database for changes, of which the first that is not allowed ends all."""
    base = sqlite3.connect(path, isolation_level=None)
    base.text_factory = lambda text: text.decode("utf-8", "replace")
    try:
        with suppress(sqlite3.IntegrityError):  # a key that is there, or nothing where it must not
            yield base
    finally:
        base.close()


def _stored(value: Any) -> Any:
    """Return a value as SQLite takes one."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "surrogatepass")
    is_number = isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**63)
    return value if is_number or value is None else json.dumps(value)


def _sha256(value: Any) -> str:
    """Return the checksum of what JSON can say; of other things, any."""
    try:
        text = json.dumps(value, sort_keys=True)
    except TypeError:
        text = repr(value)
    return hashlib.sha256(text.encode()).hexdigest()
