"""Checkpoints that were changed, signed again or not: the same search as without, or a refusal."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.cases import flipped, mutated, repeat
from ranksvm.data.queries import QueryGroups
from ranksvm.datasets import make_ranking
from ranksvm.model_selection import GridSearch, QueryKFold, search_grid
from ranksvm.learners import KernelSettings

CS, GAMMAS = (0.1, 1.0), (0.5, 2.0)


def run(seconds: float, seed: int) -> int:
    """Run cases for some time; raise at the first that goes wrong."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "search.jsonl"
        return repeat("checkpoints", functools.partial(_one, path), seconds, seed)


@functools.cache
def _data() -> tuple[Any, Any, Any]:
    return make_ranking(4, (3, 4), 3, random_state=0)[:3]


def _search(path: Path) -> GridSearch:
    X, y, qid = _data()
    folds = list(QueryKFold(2).split(X, y, qid))
    groups = QueryGroups.from_qid(qid, len(y))
    return search_grid(X, y, groups, KernelSettings(), CS, GAMMAS, folds=folds, checkpoint=path)


@functools.cache
def _whole() -> tuple[bytes, GridSearch]:
    """Return the file of a finished search, and what was found."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "search.jsonl"
        search = _search(path)
        return path.read_bytes(), search


def _one(path: Path, draw: random.Random) -> None:
    content, search = _whole()
    is_signed = draw.random() < 0.5
    changed = _signed_again(content, draw) if is_signed else flipped(content, draw)
    path.write_bytes(changed)
    try:
        again = _search(path)
    except ValueError as error:
        message = str(error)
        assert message.isprintable(), ascii(message)
        assert path.name in message, ascii(message)
        assert path.read_bytes() == changed  # nothing of it is lost
        return
    finally:
        left = [one.name for one in path.parent.iterdir()]
        assert left in ([path.name], []), left
    scores = again.scores[~np.isnan(again.scores)]
    assert ((scores >= -1e-8) & (scores <= 1.0 + 1e-8)).all()
    assert math.isfinite(again.best_score)
    if not is_signed:
        np.testing.assert_array_equal(again.scores, search.scores)
        assert (again.best_C, again.best_gamma) == (search.best_C, search.best_gamma)


def _signed_again(content: bytes, draw: random.Random) -> bytes:
    """Change lines as values, and give them the checksums that fit."""
    lines = [json.loads(line) for line in content.splitlines()]
    chosen = draw.randrange(len(lines))
    mutated(lines[chosen], draw)
    if draw.random() < 0.2:
        lines.append(lines[draw.randrange(len(lines))])
    head = b""
    out = []
    for entries in lines:
        line = _line(entries, head)
        head = head or line
        out.append(line)
    return b"".join(out)


def _line(entries: Any, head: bytes) -> bytes:
    rest = {name: value for name, value in entries.items() if name != "sha256"}
    text = json.dumps(rest).encode()
    digest = hashlib.sha256(head + text).hexdigest()
    return text[:-1] + f', "sha256": "{digest}"}}\n'.encode()
