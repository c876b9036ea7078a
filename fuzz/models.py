"""Model files that were changed and signed again: a model that works, or a clear refusal.

Without a new checksum nearly every change ends there, and what lies behind it is never reached.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import json
import random
import struct
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import numpy as safetensors
from scipy import sparse

from fuzz.cases import flipped, mutated, odd_value, repeat
from ranksvm import AutoRankSVM, FactorizedRankSVM, KernelRankSVM, LinearRankSVM, load
from ranksvm.datasets import make_ranking
from ranksvm.export import read_svmrank, write_svmrank
from ranksvm.learners import LinearModel, read_model
from ranksvm.models import ModelFileError, description

TYPES = ("F64", "F32", "I64", "I32", "F16", "BF16", "U8", "BOOL", "F8_E4M3", "C64", "F65", "")


def run(seconds: float, seed: int) -> int:
    """Run cases for some time; raise at the first that goes wrong."""
    return repeat("models", _one, seconds, seed)


@functools.cache
def _examples() -> tuple[bytes, ...]:
    """Return a file of every kind, with and without names."""
    X, y, qid, _ = make_ranking(4, (3, 4), 3, random_state=0)
    few = sparse.csr_array(X * (np.abs(X) > 0.3))
    dense = [
        LinearRankSVM(),
        FactorizedRankSVM(n_factors=2, n_restarts=1, max_iter=3, tol=1.0),
        KernelRankSVM(),
        KernelRankSVM(kernel="poly", degree=2),
        KernelRankSVM(approximation="nystroem", n_components=4, random_state=0),
        KernelRankSVM(approximation="fourier", n_components=4, random_state=0),
        LinearRankSVM(query_features=("rank",)),
        KernelRankSVM(query_features=("zscore", "rank"), keep_features=False, scaling="standard"),
        AutoRankSVM(n_landmarks=2, cv=2),
    ]
    of_rows = [KernelRankSVM(), KernelRankSVM(approximation="nystroem", n_components=4)]
    given = KernelRankSVM(kernel="precomputed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = [model.fit(X, y, qid=qid) for model in dense]
        models += [model.fit(few, y, qid=qid) for model in of_rows]
        models.append(given.fit(X @ X.T, y, qid=qid))
    return tuple(map(_content, models))


def _content(estimator: Any) -> bytes:
    from ranksvm.models.files import _to_bytes

    model = estimator._get_model()
    if type(model) is LinearModel:
        model = dataclasses.replace(model, feature_names=("a", "b", "c"))
    return _to_bytes(model)


@functools.cache
def _foreign() -> bytes:
    """Return a model of SVM^rank."""
    out = io.BytesIO()
    write_svmrank(out, read_model(io.BytesIO(_examples()[0])))
    return out.getvalue()


def _one(draw: random.Random) -> None:
    if draw.random() < 0.15:
        _check_foreign(flipped(_foreign(), draw))
        return
    content = draw.choice(_examples())
    content = draw.choice((_signed_again, _other_header, _damaged))(content, draw)
    _check(content, draw)


def _damaged(content: bytes, draw: random.Random) -> bytes:
    return flipped(content, draw)


def _parts(content: bytes) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """Return the table, the description and the bytes of the arrays."""
    (length,) = struct.unpack("<Q", content[:8])
    table = json.loads(content[8 : 8 + length])
    entries = json.loads(table.pop("__metadata__")["ranksvm"])
    return table, entries, content[8 + length :]


def _signed_again(content: bytes, draw: random.Random) -> bytes:
    """Change entries and arrays, and give them the checksum that fits."""
    _, entries, _ = _parts(content)
    arrays = {name: np.array(array, order="C") for name, array in safetensors.load(content).items()}
    entries.pop("sha256")
    if draw.random() < 0.7:
        mutated(entries[draw.choice(["params", "facts"])] if draw.random() < 0.6 else entries, draw)
    if draw.random() < 0.6:
        for _ in range(draw.randint(1, 2)):
            _change_array(arrays, draw)
    try:
        entries["sha256"] = description.checksum(entries, arrays)
    except ValueError:  # no JSON for it, and so no checksum
        entries["sha256"] = "0" * 64
    return safetensors.save(arrays, metadata={"ranksvm": json.dumps(entries)})


def _change_array(arrays: dict[str, Any], draw: random.Random) -> None:
    if not arrays:
        return
    name = draw.choice(sorted(arrays))
    array = arrays[name]
    match draw.randrange(7):
        case 0:
            del arrays[name]
        case 1:
            arrays[draw.choice(["coef", "points", "support", "x", "", "\u202e"])] = array
        case 2:
            kinds = (np.float32, np.float64, np.int64, np.int32)
            with np.errstate(all="ignore"):
                arrays[name] = array.astype(draw.choice(kinds))
        case 3 if array.size:
            value = draw.choice([np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0, -1.0, 2.0**62])
            with np.errstate(all="ignore"):
                array.flat[draw.randrange(array.size)] = np.array(value).astype(array.dtype)
        case 4:
            arrays[name] = array[: draw.randrange(len(array) + 1)].copy()
        case 5:
            arrays[name] = np.concatenate([array, array[:1]]) if len(array) else array
        case _:
            shapes = [(-1,), (1, -1), (-1, 1), (0, draw.choice([5, 2**31, 2**50]))]
            shape = draw.choice(shapes)
            arrays[name] = np.zeros(shape) if shape[0] == 0 else array.reshape(shape)


def _other_header(content: bytes, draw: random.Random) -> bytes:
    """Change the table of the arrays: types, shapes, places, texts beside ours."""
    table, entries, body = _parts(content)
    text = json.dumps(entries)
    header: dict[str, Any] = {"__metadata__": {"ranksvm": text}, **table}
    for _ in range(draw.randint(1, 3)):
        name = draw.choice(sorted(table))
        entry = header.get(name)
        match draw.randrange(7):
            case 0 if isinstance(entry, dict):
                entry["dtype"] = draw.choice(TYPES)
            case 1 if isinstance(entry, dict):
                entry["shape"] = draw.choice(
                    [[], [-1], [2**63], [2**32, 2**32], [0, 2**64 - 1], [1.5], None, [0]]
                )
            case 2 if isinstance(entry, dict):
                entry["data_offsets"] = draw.choice(
                    [[0, 0], [8, 0], [-8, 0], [0, 2**63], [0, len(body)], [1, 9], [0.0, 8], [0]]
                )
            case 3:
                header["__metadata__"] = draw.choice(
                    [{"ranksvm": text, "format": "pt"}, {}, None, {"ranksvm": 1}, [], text]
                )
            case 4:
                header[draw.choice(["coef", "x", "\x1b[31m"])] = odd_value(draw)
            case 5:
                header = mutated(header, draw)
            case _:
                body = flipped(body, draw)
    raw = json.dumps(header).encode()
    if draw.random() < 0.1:  # an entry twice
        raw = raw[:-1] + b"," + raw[1:]
    length = len(raw) if draw.random() < 0.9 else draw.choice([0, 1, len(raw) + 8, 2**62])
    return struct.pack("<Q", length) + raw + body


def _check(content: bytes, draw: random.Random) -> None:
    try:
        model = load(io.BytesIO(content))
    except ModelFileError as error:
        _check_message(str(error))
        return
    n = model.n_features_in_
    if n > 1000:
        return
    X = np.ones((2, n))
    for argument in (X, sparse.csr_array(X)):
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                scores = model.predict(argument, qid=[1, 1])
                repr(model)
                str(model.explain(X, 0, 1, qid=[1, 1]).top(3))
        except (ValueError, OverflowError) as error:  # scores that overflow, say
            _check_message(str(error))
        else:
            assert scores.shape == (2,), scores
    if draw.random() < 0.1:
        _check_commands(content, n)


def _check_commands(content: bytes, n_features: int) -> None:
    """Run commands on a model that was read: results, or an error that they expect."""
    from ranksvm.cli import main

    with tempfile.TemporaryDirectory() as folder:
        model, data = Path(folder, "m"), Path(folder, "d.txt")
        model.write_bytes(content)
        words = " ".join(f"{j + 1}:{j}.5" for j in range(n_features))
        data.write_text(f"1 qid:1 {words}\n0 qid:1 1:0.5 {n_features + 1}:2\n")
        for command in (
            ("info", model),
            ("info", model, "--json"),
            ("predict", model, data),
            ("explain", model, data, "1", "2"),
            ("evaluate", data, "--model", model),
            ("convert", model, Path(folder, "m.dat")),
        ):
            out, err = io.StringIO(), io.StringIO()
            out.buffer = io.BytesIO()  # type: ignore[attr-defined]
            code: Any = None
            try:
                with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                    main([str(word) for word in command])
            except SystemExit as ended:
                code = ended.code
            assert code in (0, 2, 3, None), f"{command}: {code}, {err.getvalue()}"
            shown = out.getvalue() + err.getvalue()
            assert shown.replace("\n", "").replace("\t", "").isprintable(), ascii(shown)


def _check_foreign(content: bytes) -> None:
    try:
        model = read_svmrank(io.BytesIO(content))
    except ModelFileError as error:
        _check_message(str(error))
        return
    assert np.isfinite(model.coef).all()


def _check_message(message: str) -> None:
    assert message.isprintable(), ascii(message)
    assert 10 < len(message) < 1000, ascii(message)
