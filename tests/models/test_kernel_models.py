"""Files of kernel models: they score as before to the bit, and what does not fit is refused."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

import ranksvm
from ranksvm import KernelRankSVM
from ranksvm.data.scaling import scaling_arrays
from ranksvm.datasets import make_ranking
from ranksvm.learners import LEARNERS, KernelModel, read_model
from ranksvm.maps import kernels as maps_kernels
from ranksvm.models import ModelFileError, files, write_model

NAMES = [f"feature {j}" for j in range(6)]


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any, Any]:
    X, y, qid, _ = make_ranking(12, (3, 9), 6, random_state=3)
    X[np.random.default_rng(0).random(X.shape) < 0.4] = 0.0
    return X, y, qid


# Parameters by the kind that they are saved as.
MODELS: dict[str, dict[str, Any]] = {
    "kernel": {"kernel": "rbf"},
    "kernel_sparse": {"kernel": "poly", "degree": 2, "coef0": 0.5},
    "nystroem": {"kernel": "laplacian", "gamma": 0.3, "approximation": "nystroem"},
    "nystroem_sparse": {"kernel": "rbf", "approximation": "nystroem", "landmarks": "leverage"},
    "fourier": {"kernel": "rbf", "approximation": "fourier"},
    "precomputed": {"kernel": "precomputed"},
}


def items_of(kind: str, X: Any, train: Any, dtype: Any = np.float64) -> Any:
    """Items as a model of a kind takes them."""
    if kind == "precomputed":
        return rbf_kernel(X, train).astype(dtype)
    return sp.csr_matrix(X.astype(dtype)) if kind.endswith("_sparse") else X.astype(dtype)


def fitted(kind: str, data: Any, given: Any = np.float64, **params: Any) -> KernelRankSVM:
    X, y, qid = data
    model = KernelRankSVM(20.0, n_components=9, random_state=1, **{**MODELS[kind], **params})
    return model.fit(items_of(kind, X, X, given), y, qid)


def test_every_kind_is_known_everywhere():
    formats = {kind: form for one in LEARNERS.values() for kind, form in one.model.FORMATS.items()}
    assert set(MODELS) == KernelModel.FORMATS.keys() == formats.keys() - {"linear", "factorized"}
    assert {kind: set(formats[kind].functions) for kind in MODELS} == COMPUTED


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", MODELS)
def test_round_trip(tmp_path: Path, data, kind, dtype):
    X = data[0]
    model = fitted(kind, data, dtype, dtype=np.dtype(dtype).name)
    path = tmp_path / "m.safetensors"
    model.save(path)
    read = read_model(path)
    assert type(read) is KernelModel
    assert read.kind == kind
    assert read.n_features == model.n_features_in_
    again = ranksvm.load(path)
    assert type(again) is KernelRankSVM
    new = items_of(kind, X[::-1] * 1.25 + 0.01, X, dtype)
    assert again.predict(new).tobytes() == model.predict(new).tobytes()
    assert again.get_params() == model.get_params()
    for name in ("objective_", "gap_", "n_iter_", "n_products_", "n_pairs_", "status_"):
        assert getattr(again, name) == getattr(model, name), name
    for name in ("gamma_", "support_", "dual_coef_", "coef_", "random_offset_"):
        assert hasattr(again, name) == hasattr(model, name), name
        if hasattr(model, name):
            assert np.array_equal(getattr(again, name), getattr(model, name)), name
    for name in ("support_vectors_", "components_"):
        assert hasattr(again, name) == hasattr(model, name), name
        if hasattr(model, name):
            there = getattr(again, name)
            assert sp.issparse(there) == kind.endswith("_sparse"), name
            assert not (there != getattr(model, name)).sum(), name
    # The same model gives the same bytes.
    again.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("kind", ["kernel", "nystroem", "fourier"])
def test_names_and_frames(tmp_path, data, kind, make):
    X, y, qid = data
    columns = {**dict(zip(NAMES, X.T, strict=True)), "label": y, "query": qid}
    frame = make(columns)
    model = KernelRankSVM(20.0, n_components=9, random_state=1, **MODELS[kind])
    model.fit(frame, "label", "query").save(tmp_path / "m")
    again = ranksvm.load(tmp_path / "m")
    assert again.feature_names_in_.tolist() == NAMES
    assert np.array_equal(again.predict(frame), model.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame[["label", "query", *NAMES[::-1]]])


def test_names_are_counted(data):
    for kind in MODELS:
        model = fitted(kind, data)._get_model()
        names = tuple(f"f{j}" for j in range(model.n_features + 1))
        wrong = replace(model, feature_names=names)
        with pytest.raises(ValueError, match=rf"{len(names)} feature_names for {len(names) - 1}"):
            write_model(io.BytesIO(), wrong)


@pytest.mark.parametrize("kernel", [rbf_kernel, RBF()])  # objects like this one have no hash
def test_a_callable_kernel_is_not_saved(tmp_path, data, kernel):
    model = fitted("kernel", data, kernel=kernel)
    path = tmp_path / "m"
    path.write_bytes(b"old")
    with pytest.raises(ValueError, match=r"callable kernel cannot be saved.*named kernel"):
        model.save(path)
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["m"]


@pytest.mark.parametrize(
    "state", [np.random.RandomState(0), np.int64(3), np.random.default_rng(0).bit_generator]
)
def test_random_states_are_numbers_or_nothing_in_a_file(tmp_path, data, state):
    model = fitted("fourier", data).set_params(random_state=state)
    model.save(tmp_path / "m")
    expected = 3 if isinstance(state, np.integer) else None
    assert ranksvm.load(tmp_path / "m").random_state == expected


# Hostile files


def changed(data: Any, kind: str, arrays: dict[str, Any], facts: dict[str, Any]) -> bytes:
    """A file with a right checksum whose model has other arrays and facts; None drops one."""
    model = fitted(kind, data)._get_model()

    def merged(old: Any, new: Any) -> dict[str, Any]:
        both = {**old, **new}
        both = {k: v(old[k]) if callable(v) else v for k, v in both.items()}
        return {name: value for name, value in both.items() if value is not None}

    hostile: Any = SimpleNamespace(
        kind=model.kind,
        FORMATS=model.FORMATS,
        params=model.params,
        arrays=lambda: merged(model.arrays(), arrays),
        feature_names=None,
        scaling=None,
        facts=merged(model.facts, facts),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "check_model", lambda *_: None)
        return files._to_bytes(hostile)


def bounds(*values: int) -> Any:
    """Row bounds for as many points as there are: given ones first, then the last again."""

    def make(old: Any) -> Any:
        new = np.full(len(old), old[-1])
        new[: len(values)] = values
        return new

    return make


HUGE = 2**63 - 1
POLY = {"function": "poly", "gamma": 1.0, "coef0": 0.0, "degree": 3, "scale": 1.0}
KERNEL = {"function": "rbf", "gamma": 1.0, "coef0": 0.0, "degree": 3, "scale": 1.0}


@pytest.mark.parametrize(
    ("kind", "arrays", "facts", "message"),
    [
        ("kernel", {"points": lambda p: p[:-1]}, {}, "array 'points' has .* points, but array"),
        ("kernel", {"points": lambda p: p[:, :-1]}, {}, "n_features in the facts is 6"),
        ("kernel", {"points": lambda p: p[:, :0]}, {"n_features": 0}, "no features"),
        ("kernel", {"points": lambda p: p.ravel()}, {}, "with 2 dimension"),
        ("kernel", {"points": lambda p: p * np.nan}, {}, "must be finite"),
        ("kernel", {"coef": lambda c: c + np.inf}, {}, "must be finite"),
        ("kernel", {"coef": lambda c: c.astype(np.float32)}, {}, "must be float64"),
        ("kernel", {"coef": lambda c: c[:1]}, {}, "but array 'coef' has 1"),
        ("kernel", {"support": lambda s: s - 5}, {}, "'support' must contain row numbers"),
        ("kernel", {"support": lambda s: s.astype(np.int32)}, {}, "must be int64"),
        ("kernel", {"support": None}, {}, "has the arrays 'coef', 'points', 'support'; got"),
        ("kernel", {"shift": np.zeros(3)}, {}, "has the arrays"),
        ("kernel", {}, {"n_features": 7}, "n_features in the facts is 7"),
        ("fourier", {"shift": lambda s: s[:-1]}, {}, "array 'shift'|array 'points'"),
        ("nystroem", {"points": lambda p: p[:0]}, {}, "has 0 points"),
        ("kernel_sparse", {"indptr": lambda p: p[:-1]}, {}, "'indptr' must have"),
        ("kernel_sparse", {"indptr": lambda p: p[:0]}, {}, "'indptr' must have"),
        ("kernel_sparse", {"indptr": bounds(0, HUGE, -HUGE - 1, -1)}, {}, "must ascend from 0"),
        ("kernel_sparse", {"indptr": bounds(0, 9, 3)}, {}, "must ascend from 0"),
        ("kernel_sparse", {"indptr": bounds(1)}, {}, "must ascend from 0"),
        ("kernel_sparse", {"indptr": lambda p: p * 2}, {}, "must ascend from 0"),
        ("kernel_sparse", {"indices": lambda i: i + 6}, {}, "must be from 0 to 5"),
        ("kernel_sparse", {"indices": lambda i: -i}, {}, "must be from 0 to 5"),
        ("kernel_sparse", {"indices": lambda i: i * 0}, {}, "must ascend in every row"),
        ("kernel_sparse", {"indices": lambda i: i[:-1]}, {}, "has .* values, but array"),
        ("kernel_sparse", {"data": lambda d: d * np.nan}, {}, "must be finite"),
        ("nystroem_sparse", {}, {"n_features": None}, "n_features in the facts must be"),
        ("nystroem_sparse", {}, {"n_features": True}, "n_features in the facts must be"),
        ("nystroem_sparse", {}, {"n_features": 2**70}, "n_features in the facts must be"),
        ("nystroem_sparse", {}, {"n_features": 2}, "must be from 0 to 1"),
        ("precomputed", {}, {"n_features": 3}, "at most 2"),
        ("precomputed", {}, {"n_features": "many"}, "n_features in the facts must be"),
        ("precomputed", {"support": lambda s: s[:-1]}, {}, "array 'support' has"),
        # What only the kernel knows.
        ("kernel", {}, {"kernel": None}, "the kernel must have"),
        ("kernel", {}, {"kernel": {**KERNEL, "function": "os.system"}}, "function .* one of"),
        ("kernel", {}, {"kernel": {**KERNEL, "function": ["rbf"]}}, "function .* one of rbf, lap"),
        ("kernel", {}, {"kernel": {**KERNEL, "gamma": np.nan}}, "gamma"),
        ("kernel", {}, {"kernel": {**KERNEL, "gamma": -1.0}}, "gamma"),
        ("kernel", {}, {"kernel": {**KERNEL, "gamma": 0.0}}, "gamma in the facts must be pos"),
        ("kernel", {}, {"kernel": {**KERNEL, "gamma": "1"}}, "gamma in the facts must be a fin"),
        ("kernel", {}, {"kernel": {**POLY, "gamma": -1.0}}, "gamma in the facts must be pos"),
        ("kernel", {}, {"kernel": {**KERNEL, "scale": np.inf}}, "scale"),
        ("kernel", {}, {"kernel": {**KERNEL, "coef0": np.nan}}, "coef0"),
        ("kernel", {}, {"kernel": {**KERNEL, "degree": 2**90}}, "degree in the facts must be"),
        ("kernel", {}, {"kernel": {**POLY, "degree": 0}}, "degree in the facts must be"),
        ("kernel", {}, {"kernel": {**POLY, "degree": True}}, "degree in the facts must be"),
        ("kernel", {}, {"kernel": {**KERNEL, "further": 1}}, "the kernel must have the entries"),
        ("kernel", {}, {"kernel": "rbf"}, "the kernel must have"),
        ("kernel", {}, {"n_iter": 10**400}, "n_iter in the facts must be a non-negative integer"),
        ("kernel", {}, {"objective": 10**400}, "objective in the facts must be a number"),
        ("kernel", {}, {"objective": None, "gap": "small"}, "gap in the facts must be a number"),
        ("kernel", {}, {"frame_columns": 3}, "frame_columns in the facts must be a list"),
        ("kernel", {}, {"gamma": {}}, "gamma in the facts must be a positive number or null"),
        ("kernel", {}, {"gamma": "0.5"}, "gamma in the facts must be a positive number or null"),
        ("kernel", {}, {"gamma": True}, "gamma in the facts must be a positive number or null"),
        ("kernel", {"support": lambda s: s[::-1].copy()}, {}, "'support' must ascend"),
        ("kernel_sparse", {"support": lambda s: s // 2}, {}, "'support' must ascend"),
        ("precomputed", {"support": lambda s: s * 0}, {}, "'support' must ascend.* index 0"),
        ("kernel_sparse", {}, {"n_features": 2**31}, "from 0 to 2147483647; got"),
        ("precomputed", {}, {"n_features": 2**62}, "from 0 to 2147483647; got"),
    ],
)  # fmt: skip
def test_hostile_models_are_refused(tmp_path, data, kind, arrays, facts, message):
    path = tmp_path / "hostile.safetensors"
    path.write_bytes(changed(data, kind, arrays, facts))
    with pytest.raises(ModelFileError, match=message) as caught:
        ranksvm.load(path)
    assert str(caught.value).startswith(str(path))
    assert len(str(caught.value)) < 1000


COMPUTED = {
    "kernel": set(maps_kernels.KERNELS),
    "kernel_sparse": set(maps_kernels.KERNELS),
    "nystroem": set(maps_kernels.KERNELS),
    "nystroem_sparse": set(maps_kernels.KERNELS),
    "fourier": {"cosine"},
    "precomputed": set(),
}


@pytest.mark.parametrize("function", [*maps_kernels.KERNELS, "cosine"])
@pytest.mark.parametrize("kind", MODELS)
def test_the_file_says_which_function_is_computed(tmp_path, data, kind, function):
    """Another kernel that the kind can compute is computed; any other is refused."""
    path = tmp_path / "m"
    told = {**KERNEL, "function": function, "gamma": 0.25, "coef0": 0.5, "degree": 2}
    path.write_bytes(changed(data, kind, {}, {"kernel": told}))
    if function not in COMPUTED[kind]:
        message = "function in the facts must be one"
        if kind == "precomputed":
            message = "does not compute one"
        with pytest.raises(ModelFileError, match=message):
            ranksvm.load(path)
        return
    X, arrays = data[0], read_model(path).arrays()
    points = (
        sp.csr_matrix((*(arrays[k] for k in ("data", "indices", "indptr")),),
                      shape=(len(arrays["coef"]), X.shape[1])).toarray()
        if kind.endswith("_sparse") else arrays["points"]
    )  # fmt: skip
    product = X @ points.T
    values = {
        "linear": lambda: product,
        "rbf": lambda: rbf_kernel(X, points, gamma=0.25),
        "laplacian": lambda: laplacian_kernel(X, points, gamma=0.25),
        "poly": lambda: (0.25 * product + 0.5) ** 2,
        "sigmoid": lambda: np.tanh(0.25 * product + 0.5),
        "cosine": lambda: np.cos(0.25 * product + arrays["shift"]),
    }[function]()
    expected = values @ arrays["coef"]
    found = ranksvm.load(path).predict(items_of(kind, X, X))
    assert np.allclose(found, expected, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("kind", MODELS)
def test_what_is_too_large_to_be_read_is_not_written(tmp_path, data, kind, monkeypatch):
    model, path = fitted(kind, data), tmp_path / "m"
    parts = model._get_model().arrays() | scaling_arrays(model.scaling_)
    size = sum(array.nbytes for array in parts.values())
    monkeypatch.setattr(files, "LARGEST_BODY", size)
    model.save(path)
    before = path.read_bytes()
    ranksvm.load(path)
    monkeypatch.setattr(files, "LARGEST_BODY", size - 1)
    with pytest.raises(ValueError, match=rf"arrays take {size} bytes, but .* can hold at most"):
        model.save(path)
    assert path.read_bytes() == before


def test_a_model_without_points(data):
    """All coefficients zero: nothing is left to sum."""
    for kind in ("kernel", "kernel_sparse"):
        content = changed(
            data, kind,
            {"coef": np.empty(0), "support": np.empty(0, dtype=np.int64)}
            | ({"points": np.empty((0, 6))} if kind == "kernel" else
               {"data": np.empty(0), "indices": np.empty(0, dtype=np.int64),
                "indptr": np.zeros(1, dtype=np.int64)}), {},
        )  # fmt: skip
        model = read_model(io.BytesIO(content))
        assert np.array_equal(model.scores(data[0]), np.zeros(len(data[0])))
