"""Model files: what is saved comes back, and what is no model is refused before it does harm."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import pickle
import re
import signal
import stat
import subprocess
import sys
import threading
import tracemalloc
import zipfile
from pathlib import Path
from pprint import pformat
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

import ranksvm
from ranksvm.learners import LinearModel, read_model
from ranksvm.models import Model, ModelFileError, description, files, write_model
from ranksvm.models.facts import COUNTS, NUMBERS

COEF = np.array([0.1, -2.5, 1e-300])


def make_model(**changes: Any) -> LinearModel:
    values: dict[str, Any] = {
        "coef": COEF,
        "params": {"C": 0.1, "loss": "hinge", "n_jobs": None, "warm_start": False},
        "feature_names": ("bm25", "page rank", ""),
        "facts": {"objective": 1.25, "gap": math.inf, "n_pairs": 2**62, "status": "converged"},
    }
    return LinearModel(**{**values, **changes})


def make_wrong_model(kind: str = "linear", arrays: Any = None, **changes: Any) -> LinearModel:
    """A model that tells another kind, or other arrays, than a linear model has."""

    class WrongModel(LinearModel):
        @property
        def kind(self) -> str:
            return kind

        def arrays(self) -> Any:
            return {"coef": COEF} if arrays is None else arrays

    return WrongModel(**vars(make_model(**changes)))


def same(first: Model, second: Model) -> bool:
    def listed(model: Model) -> str:  # a text tells -0.0 and 1 from 0.0 and 1.0
        return pformat((model.params, model.facts))

    one, other = first.arrays(), second.arrays()
    return (
        type(first) is type(second)
        and (first.kind, first.feature_names) == (second.kind, second.feature_names)
        and listed(first) == listed(second)
        and one.keys() == other.keys()
        and all(one[k].dtype == other[k].dtype for k in one)
        and all(one[k].tobytes() == other[k].tobytes() for k in one)
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


@pytest.fixture(scope="module")
def content() -> bytes:
    """The bytes of a small model file."""
    return files._to_bytes(make_model())


# The model that `with_entries` writes.
PLAIN = {"params": {}, "feature_names": None, "facts": {}}


def header_of(content: bytes) -> dict:
    return json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])


def with_header(header: dict | bytes, body: bytes = b"") -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(raw).to_bytes(8, "little") + raw + body


def with_entries(arrays=None, **changes) -> bytes:
    """A file with a right checksum whose description has other entries, or "absent" ones."""
    arrays = {"coef": COEF} if arrays is None else arrays
    entries = {"schema": 1, "written_by": "9.8.7", "kind": "linear", **PLAIN, **changes}
    entries = {name: value for name, value in entries.items() if value != "absent"}
    entries.setdefault("sha256", description.checksum(entries, arrays))
    return save(arrays, metadata={"ranksvm": json.dumps(entries)})


def refusal(content: bytes) -> str:
    with pytest.raises(ModelFileError) as caught:
        read_model(io.BytesIO(content))
    message = str(caught.value)
    assert message.startswith("<BytesIO>: ")
    assert len(message) < 600  # whatever the file holds
    return message


# Round trips

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.floats()
    | st.text(st.characters(categories=None, codec=None))  # surrogates too
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text().filter("$float".__ne__), inner, max_size=3)
    ),
    max_leaves=8,
)
mappings = st.dictionaries(st.text().filter("$float".__ne__), values, max_size=4)


VIEW = ("query_features", "keep_features")
# Facts under these names must hold what the name says.
CHECKED = {*NUMBERS, *COUNTS, "frame_columns", "qid_column", "gamma", "kernel", *VIEW}
free_facts = mappings.map(lambda facts: {k: v for k, v in facts.items() if k not in CHECKED})


@given(data=st.data(), params=mappings, facts=free_facts)
def test_what_is_saved_comes_back(tmp_path_factory, data, params, facts):
    coef = np.array(
        data.draw(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
    )
    name = st.text(st.characters(categories=None, codec=None), max_size=5)
    names = data.draw(st.none() | st.lists(name, min_size=len(coef), max_size=len(coef)).map(tuple))
    model = LinearModel(coef=coef, params=params, facts=facts, feature_names=names)
    path = tmp_path_factory.getbasetemp() / "round-trip.safetensors"
    write_model(path, model)
    again = read_model(path)
    assert same(again, model)
    first = path.read_bytes()
    write_model(path, again)
    assert path.read_bytes() == first


def test_a_file_object_is_read_to_its_end(content, path):
    path.write_bytes(b"before" + content)
    with path.open("rb") as file:
        file.seek(6)
        assert same(read_model(file), make_model())
    path.write_bytes(content)
    process = subprocess.Popen(["cat", str(path)], stdout=subprocess.PIPE)
    with process, process.stdout as pipe:
        assert same(read_model(pipe), make_model())


def test_a_file_object_is_written_to(content):
    buffer = io.BytesIO(b"before")
    buffer.seek(6)
    write_model(buffer, make_model())
    assert buffer.getvalue() == b"before" + content
    with pytest.raises(ValueError, match="cannot save the model to <BytesIO>: kind"):
        write_model(buffer, make_wrong_model(kind="forest"))


def test_a_path_may_be_a_pipe(content, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=(content,))
    writer.start()
    assert same(read_model(fifo), make_model())
    writer.join()


def test_arrays_are_owned_native_and_contiguous(path):
    strided = np.arange(10.0)[::-3]
    for coef in (strided, strided.astype(">f8")):
        write_model(path, make_model(coef=coef, feature_names=None))
        read = read_model(path).coef
        assert read.tolist() == strided.tolist()
        assert read.dtype == np.float64
        assert read.dtype.isnative
        assert read.flags.owndata
        assert read.flags.writeable


def test_numpy_scalars_become_numbers_and_tuples_lists(path):
    params = {"C": np.float64(0.1), "n": np.int32(7), "b": np.bool_(True), "t": (1, (2.0,))}
    write_model(path, make_model(params={**params, "single": np.float32(0.1)}))
    read = read_model(path).params
    expected = {"C": 0.1, "n": 7, "b": True, "t": [1, [2.0]], "single": float(np.float32(0.1))}
    assert repr(dict(sorted(read.items()))) == repr(dict(sorted(expected.items())))


def test_the_order_of_entries_does_not_change_the_bytes():
    one = make_model(params={"a": 1, "b": {"x": 1, "y": 2}})
    other = make_model(params={"b": {"y": 2, "x": 1}, "a": 1})
    assert files._to_bytes(one) == files._to_bytes(other)


def test_the_bytes_of_schema_1(monkeypatch):
    """A file of today must stay readable; this is the format, written out."""
    monkeypatch.setattr(files, "library_version", lambda: "0.1.0")
    body = bytes.fromhex("000000000000f83f 00000000000000c0")
    start = (
        r'{"facts":{"gap":{"$float":"inf"}},"feature_names":["a","\u00e9"],"kind":"linear",'
        r'"params":{"C":0.1},"schema":1,'
    )
    end = '"written_by":"0.1.0"}'
    frame = '{"name":"coef","shape":[2],"type":"<f8"}'
    checksum = hashlib.sha256((start + end + frame).encode() + body).hexdigest()
    text = json.dumps(f'{start}"sha256":"{checksum}",{end}')
    header = (
        '{"__metadata__":{"ranksvm":' + text + "},"
        '"coef":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}}'
    )
    header += " " * (-len(header) % 8)
    content = with_header(header.encode(), body)
    model = make_model(
        params={"C": 0.1},
        coef=np.array([1.5, -2.0]),
        feature_names=("a", "é"),
        facts={"gap": math.inf},
    )
    assert same(read_model(io.BytesIO(content)), model)
    assert files._to_bytes(model) == content


@pytest.mark.parametrize("optimizer", ["gradient", "sgd"])
@pytest.mark.filterwarnings("error")
def test_models_of_optimizers_that_are_gone_are_still_read(optimizer):
    arrays = {"coef": COEF, "factors": np.ones((2, 4))}
    params = {"optimizer": optimizer, "n_factors": 4, "a parameter that is gone": 1}
    model = ranksvm.load(io.BytesIO(with_entries(arrays, kind="factorized", params=params)))
    assert model.predict(np.eye(3)).tolist() == COEF.tolist()
    assert model.factors_.shape == (2, 4)


def test_models_are_read_without_scikit_learn_and_scipy():
    """Both take long to import, and the command line wants to start fast."""
    code = "import sys, ranksvm.learners, ranksvm.export; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"sklearn", "scipy"} & set(done.stdout.split())


# Writing


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"kind": "forest"}, ValueError, "kind must be one of 'linear'; got 'forest'"),
        ({"arrays": {}}, ValueError, "has the arrays 'coef'; got none"),
        ({"arrays": {"coef": COEF, "more": COEF}}, ValueError, "got 'coef', 'more'"),
        ({"arrays": {"coef": COEF.astype(np.float32)}}, ValueError, "must be float64 with 1"),
        ({"arrays": {"coef": COEF[:, None]}}, ValueError, r"got float64 of shape \(3, 1\)"),
        ({"arrays": {"coef": COEF[:0]}, "feature_names": ()}, ValueError, "no features"),
        (
            {"arrays": {"coef": np.array([1, np.nan, 3])}},
            ValueError,
            "in 1 of 3 entries, first at index 1",
        ),
        ({"feature_names": ("a", "b")}, ValueError, "got 2 feature_names for 3 features"),
        ({"feature_names": ("a", "b", 3)}, ValueError, "must be strings"),
        ({"feature_names": "abc"}, TypeError, "must be a tuple of strings; got str"),
        ({"params": {"f": len}}, TypeError, r"params\['f'\] is a builtin_function"),
        ({"params": {"f": {"g": [0, {1}]}}}, TypeError, r"params\['f'\]\['g'\]\[1\] is a set"),
        ({"params": {"z": 1j}}, TypeError, r"params\['z'\] is a complex"),
        ({"facts": {"a": np.zeros(2)}}, TypeError, r"facts\['a'\] is a ndarray"),
        ({"facts": {1: 2}}, TypeError, "facts has the key 1"),
        ({"facts": {"x": {"$float": "nan"}}}, TypeError, r"facts\['x'\] has the key '\$float'"),
        ({"facts": {"n": 10**1000}}, ValueError, "integer of 3322 bits"),
    ],
)
def test_what_is_no_model_is_not_written(path, changes, error, message):
    path.write_bytes(b"old")
    with pytest.raises(error, match=message) as caught:
        write_model(path, make_wrong_model(**changes))
    assert str(path) in str(caught.value)
    assert path.read_bytes() == b"old"


def test_values_that_contain_themselves_are_refused(path):
    loop: list = []
    loop.append(loop)
    with pytest.raises(ValueError, match="nested more than 64 levels deep"):
        write_model(path, make_model(params={"loop": loop}))


def test_as_deep_as_it_can_be_written_it_can_be_read(path):
    def nested(depth: int) -> LinearModel:
        value: list = []
        for _ in range(depth):
            value = [value]
        return make_model(params={"x": value})

    deepest = description.DEEPEST - 2
    write_model(path, nested(deepest))
    assert same(read_model(path), nested(deepest))
    with pytest.raises(ValueError, match="deep"):
        write_model(path, nested(deepest + 1))


def test_names_beyond_the_format_are_refused_when_written(path, monkeypatch):
    monkeypatch.setattr(files, "LONGEST_HEADER", 500)
    with pytest.raises(ValueError, match="at most 500; shorten the feature names"):
        write_model(path, make_model(feature_names=("x" * 500, "y", "z")))
    assert not path.exists()


class DiskFullError(OSError):
    pass


def test_a_failure_while_saving_leaves_the_old_file(path, monkeypatch):
    write_model(path, make_model())
    old = path.read_bytes()

    def fail(*arguments):
        raise DiskFullError

    other = make_model(params={"C": 2.0})
    for name in ("replace", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            with pytest.raises(DiskFullError):
                write_model(path, other)
        assert path.read_bytes() == old
        assert os.listdir(path.parent) == [path.name]
    write_model(path, other)
    assert read_model(path).params == {"C": 2.0}


def test_a_kill_while_saving_leaves_a_whole_file(path):
    loop = (
        "import sys, numpy as np; from ranksvm.learners import LinearModel\n"
        "from ranksvm.models import write_model\n"
        "for i in range(10**9):\n"
        "    coef = np.full(200_000, float(i))\n"
        "    write_model(sys.argv[1], LinearModel(coef=coef, params={}, facts={'i': i}))\n"
        "    print(i, flush=True)\n"
    )
    generator = np.random.default_rng(0)
    for _ in range(5):
        command = [sys.executable, "-c", loop, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for _ in range(generator.integers(2, 6)):
                last = int(process.stdout.readline())
            try:
                process.wait(generator.uniform(0.0, 0.02))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
        model = read_model(path)
        assert model.facts["i"] >= last
        assert (model.coef == model.facts["i"]).all()


def test_permissions(path):
    umask = os.umask(0o027)
    try:
        write_model(path, make_model())
    finally:
        os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o600)
    write_model(path, make_model())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    if os.access(path, os.R_OK) and os.geteuid() != 0:
        path.chmod(0o200)
        with pytest.raises(PermissionError):
            read_model(path)


# Reading what is no model


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read_model(tmp_path / "nowhere")


@pytest.mark.parametrize("source", [7, None, io.StringIO("text")])
def test_what_is_not_bytes_is_a_type_error(source):
    with pytest.raises(TypeError, match="a path or a file opened in binary mode"):
        read_model(source)


def test_a_directory_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match="not a model file but a directory"):
        read_model(tmp_path)


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("model", "x")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b"\0" * 100, "not a ranksvm model"),
        (b"a,b\n1,2\n", "not a ranksvm model"),
        (b'{"coef": [1, 2, 3], "kind": "linear"}', "not a ranksvm model"),
        (b"abc", "not a ranksvm model"),
        (zipped(), "but a zip archive"),
        (pickle.dumps({"coef": COEF}), "but a pickle, which could run code"),
        (pickle.dumps(1), "but a pickle"),
        (b"\x1f\x8b\x08\x00\x12\x34\x56\x78 and so on", "gzip; decompress it first"),
        (b"SVM-light Version V6.20\n0 # kernel type\n", "ranksvm.export.read_svmrank"),
        (save({"weight": COEF}), r"of another program \(arrays: 'weight'\)"),
        (save({"weight": COEF}, metadata={"format": "pt"}), "of another program"),
        (save({"coef": COEF}, metadata={"ranksvm": "no JSON"}), "its description is not valid"),
    ],
)
def test_other_files_are_refused(content, message, path):
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=message) as caught:
        read_model(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message.split()[0].strip("\\") in refusal(content)


class Harmful:
    def __reduce__(self):
        return os.mkdir, ("harm",)


def test_loading_runs_no_code(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    payload = pickle.dumps(Harmful())
    text = payload.decode("latin-1")
    header = header_of(content)
    header["__metadata__"]["pickle"] = text
    body = content[8 + int.from_bytes(content[:8], "little") :]
    for hostile in (
        payload,
        with_header(header_of(content), payload),
        with_entries(params={"__reduce__": text, "__class__": "os.system"}, kind="os.system"),
    ):
        refusal(hostile)
    # Texts of others stand beside ours and are not looked at.
    assert same(read_model(io.BytesIO(with_header(header, body))), make_model())
    assert os.listdir(tmp_path) == []


def test_every_truncation_is_refused(content, path):
    for length in range(len(content)):
        assert refusal(content[:length])
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError):
            read_model(path)
    assert "truncated: 100 bytes, expected" in refusal(content[:100])
    assert "truncated" in refusal(content[:8])
    assert "damaged: more than the" in refusal(content + b"\0")


@pytest.mark.parametrize("more", [0, 3])
def test_flipped_bits_are_found_or_harmless(content, more):
    """One bit of every byte, and with some other bytes changed as well."""
    generator = np.random.default_rng(more)
    for i in range(len(content)):
        damaged = bytearray(content)
        damaged[i] ^= 1 << int(generator.integers(8))
        for j in generator.integers(len(content), size=more):
            damaged[j] = generator.integers(256)
        try:
            model = read_model(io.BytesIO(bytes(damaged)))
        except ModelFileError:
            continue
        assert same(model, make_model())


@given(st.binary(max_size=200))
def test_noise_is_refused(noise):
    refusal(noise)
    refusal(with_header(noise or b"x"))
    refusal(with_header(b"{" + noise))


COEF_ENTRY = {"dtype": "F64", "shape": [3], "data_offsets": [0, 24]}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"shape": [2**40], "data_offsets": [0, 2**43]}, "claims 8796093022208 bytes"),
        ({"shape": [2**40], "data_offsets": [0, 2**80]}, "claims 12089258196"),
        ({"shape": [2**29], "data_offsets": [0, 2**32]}, "truncated"),
        ({"shape": [2**29]}, "damaged"),
        ({"shape": [2**62, 2**62]}, "damaged"),
        ({"shape": [0, 2**62], "data_offsets": [0, 0]}, "damaged: more than the"),
        ({"shape": [-3]}, "damaged"),
        ({"shape": [3.0]}, "damaged"),
        ({"shape": "3"}, "damaged"),
        ({"shape": None}, "damaged"),
        ({"data_offsets": [24, 0]}, "damaged"),
        ({"data_offsets": [-24, 0]}, "damaged: more than the"),
        ({"data_offsets": [8, 32]}, "truncated"),
        ({"data_offsets": [8, 24], "shape": [2]}, "damaged"),
        ({"data_offsets": [0, 16], "shape": [2]}, "damaged: more than the"),
        ({"data_offsets": [0]}, r"has the offsets \[0\]"),
        ({"data_offsets": [0, 24, 24]}, "has the offsets"),
        ({"data_offsets": [False, True]}, "has the offsets"),
        ({"data_offsets": {"0": 24}}, "has the offsets"),
        ({"dtype": "BF16"}, "has dtype 'BF16'"),
        ({"dtype": "<f8"}, "has dtype '<f8'"),
        ({"dtype": ["F64"]}, r"has dtype \['F64'\]"),
        ({"dtype": "F32", "shape": [6]}, "checksum"),
        ({"module": "os"}, "must have dtype, shape and data_offsets"),
    ],
)
def test_hostile_tables_are_refused(content, entry, message):
    header = header_of(content)
    body = COEF.tobytes()
    assert same(read_model(io.BytesIO(with_header(header, body))), make_model())
    header["coef"] = {**COEF_ENTRY, **entry}
    assert re.search(message, refusal(with_header(header, body)))


def test_arrays_must_not_overlap(content):
    header = header_of(content)
    header["more"] = COEF_ENTRY
    assert "damaged" in refusal(with_header(header, COEF.tobytes()))


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"{}", "of another program"),
        (b"{", "not valid JSON"),
        (b"{} {}", "not valid JSON"),
        (b'{"a": "\xff"}', "not valid JSON .*utf-8"),
        (b'{"a": NaN}', "NaN is not a finite number"),
        (b'{"a": 1e999}', "1e999 is not a finite number"),
        (b'{"a": 1, "a": 1}', "duplicate entry 'a'"),
        (b'{"__metadata__": {"x": "1", "x": "1"}}', "duplicate entry 'x'"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not valid JSON"),
        (
            b'{"a": ' + nested(100_000).encode() + b"}",
            "too many lists and mappings|recursion",
        ),
        (b'{"' + b"x" * 10_000 + b'": 1}', "of another program"),
        (b'{"__metadata__": 5}', "of another program"),
        (b'{"__metadata__": {"ranksvm": 5}}', "of another program"),
        (b'{"__metadata__": {"ranksvm": "[]"}}', "its description is a list"),
        (b'{"__metadata__": {"ranksvm": "{}"}}', "its schema is None"),
        (b'{"__metadata__": {"ranksvm": "' + nested(100_000).encode() + b'"}}', "recursion"),
    ],
)
def test_hostile_headers_are_refused(header, message):
    assert re.search(message, refusal(with_header(header)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": 3}, "by a newer version, ranksvm 9.8.7, in schema 3; .* update ranksvm"),
        ({"schema": 10**300}, "newer version"),
        ({"schema": 3, "written_by": ["x"]}, "ranksvm of an unknown version"),
        ({"schema": 0}, "its schema is 0"),
        ({"schema": True}, "its schema is True"),
        ({"schema": "1"}, "its schema is '1'"),
        ({"schema": 1.0}, "its schema is 1.0"),
        ({"kind": "forest"}, "of kind 'forest', written by ranksvm 9.8.7; this .* update ranksvm"),
        ({"kind": ["linear"]}, "kind in its description is a list"),
        ({"params": []}, "params in its description is a list"),
        ({"facts": None}, "facts in its description is a NoneType"),
        ({"written_by": 3}, "written_by in its description is a int"),
        ({"feature_names": "abc"}, "feature_names in its description is a str"),
        ({"feature_names": {"a": 1}}, "feature_names in its description is a dict"),
        ({"feature_names": ["a", "b", 3]}, "feature_names must be strings"),
        ({"feature_names": ["a", "b", None]}, "feature_names must be strings"),
        ({"feature_names": ["a", "b"]}, "got 2 feature_names for 3 features"),
        ({"params": {"a": {"$float": "1"}}}, "is not a number"),
        ({"params": {"a": {"$float": ["nan"]}}}, "is not a number"),
        ({"params": {"a": {"$float": "nan", "b": 1}}}, "is not a number"),
        ({"params": {"a": json.loads(nested(100))}}, "nested more than 64 levels deep"),
        ({"feature_names": json.loads(nested(100))}, "nested more than 64 levels deep"),
        ({"code": "import os"}, "unknown entries: 'code'"),
        ({"sha256": "0" * 64}, "checksum"),
        ({"sha256": 5}, "sha256 in its description is a int"),
        *[
            ({name: "absent"}, f"has no {name}")
            for name in ("written_by", "kind", "params", "feature_names", "facts")
        ],
    ],
)
def test_hostile_descriptions_are_refused(changes, message):
    assert same(read_model(io.BytesIO(with_entries())), make_model(**PLAIN))
    assert re.search(message, refusal(with_entries(**changes)))


@pytest.mark.parametrize(
    ("names", "keep", "message"),
    [
        (["rank"], True, "3 columns cannot be 2 for every feature .itself, rank."),
        (["rank", "zscore"], False, "3 columns cannot be 2 for every feature .rank, zscore."),
        (["minmax", "mean_diff", "zscore", "rank"], True, "3 columns cannot be 5"),
        (["median"], True, "query_features in the facts must be different names of rank, minmax"),
        (["rank", "rank"], True, "query_features in the facts must be different names"),
        ([], True, "query_features in the facts must be different names"),
        ("rank", True, "query_features in the facts must be different names"),
        (None, True, "query_features in the facts must be different names"),
        ([["rank"]], True, "query_features in the facts must be different names"),
        ({"rank": 1}, True, "query_features in the facts must be different names"),
        (["rank"], 1, "keep_features in the facts must be true or false; got 1"),
        (["rank"], None, "keep_features in the facts must be true or false; got None"),
        ("absent", True, "keep_features, but no query_features"),
    ],
)
def test_hostile_features_of_the_query_are_refused(names, keep, message):
    facts = {"query_features": names, "keep_features": keep}
    facts = {name: value for name, value in facts.items() if value != "absent"}
    assert re.search(message, refusal(with_entries(facts=facts)))


def test_features_of_the_query_and_everything_else_must_fit():
    facts = {"query_features": ["rank", "zscore"], "keep_features": True}
    model = read_model(io.BytesIO(with_entries(facts=facts, feature_names=["bm25"])))
    assert (model.n_features, model.n_columns) == (1, 3)
    message = refusal(with_entries(facts=facts, feature_names=["a", "b", "c"]))
    assert "got 3 feature_names for 1 features" in message
    scaling = {f"scaling.{name}": np.ones(1) for name in ("offset", "factor")}
    message = refusal(with_entries({"coef": COEF, **scaling}, facts=facts))
    assert "3 features; got float64 of shape (1,)" in message


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"weights": COEF}, "has the arrays 'coef'; got 'weights'"),
        ({"coef": COEF, "bias": COEF}, "got 'bias', 'coef'"),
        ({"coef": COEF.astype(np.float32)}, "must be float64 with 1 dimension"),
        ({"coef": COEF.astype(np.int64)}, "must be float64 with 1 dimension"),
        ({"coef": COEF[None]}, r"got float64 of shape \(1, 3\)"),
        ({"coef": np.array(1.0)}, r"got float64 of shape \(\)"),
        ({"coef": COEF[:0]}, "no features"),
        ({"coef": np.array([1.0, math.inf])}, "infinity in 1 of 2 entries, first at index 1"),
        ({"coef": np.array([math.nan, math.nan])}, "NaN or infinity in 2 of 2 entries"),
    ],
)
def test_arrays_that_do_not_fit_the_kind_are_refused(arrays, message):
    assert re.search(message, refusal(with_entries(arrays=arrays)))


def test_claims_are_refused_before_memory_is_taken(content):
    """A header of 100 MB, arrays of 8 GB: both from files of a few hundred bytes."""
    header = header_of(content)
    header["coef"] = {"dtype": "F64", "shape": [2**30], "data_offsets": [0, 2**33]}
    claims = [
        (files.LONGEST_HEADER).to_bytes(8, "little") + content[8:],
        with_header(header, COEF.tobytes()),
    ]
    for claim in claims:
        tracemalloc.start()
        refusal(claim)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 4 * files.PIECE


@pytest.fixture
def meanwhile(monkeypatch):
    """Return ``meanwhile(action)``: the action is done when the header of a file has been read."""

    def arrange(action):
        def interrupted(*arguments):
            action()
            return original(*arguments)

        original = files._Reader._body_length
        monkeypatch.setattr(files._Reader, "_body_length", interrupted)

    return arrange


LARGE = make_model(coef=np.arange(100_000.0), feature_names=None)  # for any buffer


def test_a_file_that_is_cut_off_while_it_is_read(path, meanwhile):
    write_model(path, LARGE)
    meanwhile(lambda: os.truncate(path, 400_000))
    with pytest.raises(ModelFileError, match="truncated: 400000 bytes"):
        read_model(path)


def test_a_file_that_is_replaced_while_it_is_read(path, meanwhile):
    write_model(path, LARGE)
    meanwhile(lambda: write_model(path, make_model()))
    assert same(read_model(path), LARGE)
    assert same(read_model(path), make_model())


# What is read is bounded before it is read


@pytest.mark.parametrize("name", ["params", "facts", "feature_names"])
@pytest.mark.parametrize("number", ["inf", "nan"])
def test_a_number_in_place_of_a_mapping_is_refused(name, number):
    message = refusal(with_entries(**{name: {"$float": number}}))
    assert re.search(f"damaged: {name} in its description is a (float|dict)", message)


@pytest.mark.parametrize("piece", [b"{},", b'"",'], ids=["mappings", "texts"])
@pytest.mark.parametrize("where", ["header", "description"])
def test_a_header_full_of_values_is_refused_before_it_is_parsed(piece, where, monkeypatch):
    many = b"[" + piece * 6_000_000 + b"1]"
    if where == "header":
        header = b'{"a":' + many + b"}"
    else:
        text = json.dumps(f'{{"facts":{many.decode()}}}').encode()
        header = b'{"__metadata__":{"ranksvm":' + text + b"}}"
    parsed = []
    monkeypatch.setattr(files, "from_json", lambda text: parsed.append(1) or json.loads(text))
    message = refusal(with_header(header))
    assert f"not a model file: its {where} contains " in message
    assert "too many values (" in message
    assert len(parsed) == (0 if where == "header" else 1)


def test_names_are_no_values_whatever_is_in_them():
    names = tuple(f'{{[,"\\{k}' for k in range(200_000))
    model = make_model(coef=np.ones(len(names)), feature_names=names)
    assert read_model(io.BytesIO(files._to_bytes(model))).feature_names == names


@pytest.mark.slow
def test_a_million_names_fit():
    names = tuple(f"a feature of the set, number {k}" for k in range(1_000_000))
    model = make_model(coef=np.ones(len(names)), feature_names=names)
    assert read_model(io.BytesIO(files._to_bytes(model))).feature_names == names


def test_too_many_facts_are_not_written(tmp_path):
    model = make_model(facts={"pairs": [[k] for k in range(100_001)]})
    with pytest.raises(
        ValueError,
        match=r"facts contain too many lists and mappings \(100,\d+; the limit is 100,000\)",
    ):
        write_model(tmp_path / "m", model)
    assert list(tmp_path.iterdir()) == []


def test_messages_are_short_whatever_the_file_holds():
    header = {"__metadata__": {"ranksvm": json.dumps({"schema": "x" * 10_000})}}
    assert "damaged: its schema is" in refusal(with_header(header))
    content = with_entries()
    header = header_of(content)
    header["coef"]["shape"] = "\x1b[31m" * 10_000
    body = content[8 + int.from_bytes(content[:8], "little") :]
    assert "deserializing" in refusal(with_header(header, body))


def test_axes_without_items_may_not_be_endless():
    arrays = {
        "coef": np.ones(0), "support": np.ones(0, dtype=np.int64), "points": np.ones((0, 2**40)),
    }  # fmt: skip
    kernel = {"function": "rbf", "gamma": 1.0, "coef0": 0.0, "degree": 3, "scale": 1.0}
    facts = {"n_features": 2**40, "kernel": kernel}
    content = with_entries(arrays, kind="kernel", facts=facts)
    assert "1099511627776 features; the limit is 2147483647" in refusal(content)
