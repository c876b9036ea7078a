"""Plain pages of Parquet files against pyarrow: values, nulls, checksums, damage."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ranksvm.data.parquet import pages
from ranksvm.data.parquet.pages import NotPlainError, parse_header
from ranksvm.data.parquet.source import ParquetSource
from ranksvm.data.shard_files import open_files
from ranksvm.data.streams import FileFormatError

KINDS = [pa.float32(), pa.float64(), pa.int8(), pa.int32(), pa.int64(), pa.uint16(), pa.uint64()]
PLAIN = {"compression": "none", "use_dictionary": False}


def source_of(*paths: Path, n_threads: int = 1, **options) -> ParquetSource:
    return ParquetSource([str(path) for path in paths], n_threads=n_threads, **options)


def blocks(source: ParquetSource, cuts: list[int]) -> np.ndarray:
    bounds = [0, *sorted({cut for cut in cuts if cut < source.n_items}), source.n_items]
    return np.concatenate([source.read(begin, end) for begin, end in pairwise(bounds)])


def random_table(kinds, n_rows: int, nullable: bool, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    fields, arrays = [], []
    for j, kind in enumerate(kinds):
        values = rng.normal(size=n_rows) * 50.0
        if not pa.types.is_floating(kind):
            values = np.abs(values).astype(np.int64) % 100
        fields.append(pa.field(f"f{j}", kind, nullable=nullable))
        arrays.append(pa.array(values.astype(kind.to_pandas_dtype())))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=20),
    n_rows=st.integers(1, 300),
    nullable=st.booleans(),
    version=st.sampled_from(["1.0", "2.0"]),
    page=st.sampled_from([16, 200, 1 << 20]),
    least_page=st.sampled_from([0, 4096]),
    group=st.sampled_from([1, 7, 100, 1000]),
    checksum=st.booleans(),
    dtype=st.sampled_from([None, np.dtype(np.float32), np.dtype(np.float64)]),
    cuts=st.lists(st.integers(1, 300), max_size=4),
    n_threads=st.sampled_from([1, 2]),
    seed=st.integers(0, 1000),
)
def test_plain_pages_hold_what_pyarrow_reads(
    tmp_path_factory,
    kinds,
    n_rows,
    nullable,
    version,
    page,
    least_page,
    group,
    checksum,
    dtype,
    cuts,
    n_threads,
    seed,
):
    folder = tmp_path_factory.mktemp("pages")
    paths, tables = [folder / "0.parquet", folder / "1.parquet"], []
    for k, path in enumerate(paths):
        tables.append(random_table(kinds, n_rows + k, nullable, seed + k))
        pq.write_table(
            tables[-1],
            path,
            row_group_size=group,
            data_page_version=version,
            data_page_size=page,
            write_batch_size=5,
            write_page_checksum=checksum,
            **PLAIN,
        )
    source = source_of(*paths, dtype=dtype, n_threads=n_threads)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "_LEAST_PAGE", least_page)
        _compare(source, tables, cuts)
    assert source.is_plain or least_page


def _compare(source, tables, cuts) -> None:
    expected = np.column_stack(
        [
            np.concatenate([table.column(j).to_numpy() for table in tables]).astype(source.dtype)
            for j in range(source.n_features)
        ]
    )
    for _ in range(2):
        np.testing.assert_array_equal(blocks(source, cuts), expected)
    last = source.n_items - 1
    np.testing.assert_array_equal(source.read(last, last + 1), expected[last:])
    np.testing.assert_array_equal(source.read(0, 1), expected[:1])


@pytest.mark.parametrize(
    "change",
    [
        {"compression": "snappy"},
        {"use_dictionary": True},
        {"column_encoding": {"f0": "BYTE_STREAM_SPLIT", "f1": "PLAIN"}},
    ],
)
def test_other_pages_are_left_to_pyarrow(tmp_path, change):
    table = random_table([pa.float32(), pa.float32()], 200, True, 0)
    pq.write_table(table, tmp_path / "a.parquet", **PLAIN)
    pq.write_table(table, tmp_path / "b.parquet", **PLAIN | change)
    source = source_of(tmp_path / "a.parquet", tmp_path / "b.parquet")
    expected = np.column_stack([np.tile(table.column(j).to_numpy(), 2) for j in range(2)])
    np.testing.assert_array_equal(blocks(source, [70, 250]), expected)
    assert not source.is_plain


@pytest.mark.parametrize("kind", [pa.bool_(), pa.float16()])
def test_other_types_are_left_to_pyarrow(tmp_path, kind):
    values = np.array([0, 1, 1, 0]).astype(kind.to_pandas_dtype())
    pq.write_table(pa.table({"a": pa.array(values, kind)}), tmp_path / "a.parquet", **PLAIN)
    source = source_of(tmp_path / "a.parquet")
    np.testing.assert_array_equal(source.read(0, 4), values.astype(np.float32)[:, None])
    assert not source.is_plain


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_missing_values_are_found_where_they_are(tmp_path, version):
    values = [float(k) for k in range(300)]
    values[250] = None
    table = pa.table({"f0": np.arange(300.0), "f1": pa.array(values)})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, row_group_size=100, data_page_version=version, **PLAIN)
    source = source_of(path)
    source.read(0, 200)
    assert source.is_plain
    with pytest.raises(ValueError, match=r"row group 2, row 50 .*'f1': the value is missing"):
        source.read(200, 300)


def test_structs_beside_the_features_do_not_shift_them(tmp_path):
    table = pa.table(
        {
            "nested": pa.array([{"f0": 9.0, "z": 8.0}] * 5),
            "list": pa.array([[1.0, 2.0]] * 5),
            "f0": np.arange(5.0),
            "f1": np.arange(5.0) + 10.0,
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", **PLAIN)
    source = source_of(tmp_path / "a.parquet", columns=["f1", "f0"])
    expected = np.column_stack([np.arange(5.0) + 10.0, np.arange(5.0)])
    np.testing.assert_array_equal(source.read(0, 5), expected)
    assert source.is_plain


def damaged(path: Path, place: int) -> None:
    """Change a byte of a file."""
    content = bytearray(path.read_bytes())
    content[place] ^= 0x55
    path.write_bytes(content)


def test_checksums_are_compared_in_the_first_pass(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": np.ones(500)}), path, write_page_checksum=True, **PLAIN)
    place = pq.read_metadata(path).row_group(0).column(0).data_page_offset + 1000
    damaged(path, place)
    source = source_of(path)
    with pytest.raises(FileFormatError, match=r"cannot be read as Parquet: .*file again") as info:
        source.read(0, 500)
    assert info.value.file == str(path)


def test_checksums_are_compared_whatever_is_read_first(tmp_path):
    path = tmp_path / "a.parquet"
    values = pa.table({"a": np.random.default_rng(0).normal(size=4000)})
    options = {"use_dictionary": False, "write_page_checksum": True, "row_group_size": 1000}
    pq.write_table(values, path, column_encoding={"a": "BYTE_STREAM_SPLIT"}, **options)
    place = pq.read_metadata(path).row_group(1).column(0).data_page_offset + 500
    damaged(path, place)
    source = source_of(path)
    source.read(3999, 4000)
    with pytest.raises(FileFormatError, match="cannot be read as Parquet"):
        source.read(0, 4000)


@pytest.mark.parametrize("options", [{}, PLAIN])
def test_a_later_file_with_two_columns_of_one_name(tmp_path, options):
    pq.write_table(pa.table({"a": np.ones(5)}), tmp_path / "0.parquet", **options)
    twice = pa.Table.from_arrays([pa.array(np.ones(5)), pa.array(np.zeros(5))], names=["a", "a"])
    pq.write_table(twice, tmp_path / "1.parquet", **options)
    with pytest.raises(ValueError, match=r"1.parquet has several columns called 'a'; rename them"):
        source_of(tmp_path / "0.parquet", tmp_path / "1.parquet")


def test_every_damaged_byte_of_a_header_is_noticed_or_harmless(tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table({"a": np.arange(50.0)})
    pq.write_table(table, path, write_statistics=False, **PLAIN)
    begin = pq.read_metadata(path).row_group(0).column(0).data_page_offset
    content = path.read_bytes()
    values = np.arange(50.0).tobytes()
    for place in range(begin, content.index(values)):
        path.write_bytes(content)
        damaged(path, place)
        source = source_of(path)
        try:
            found = source.read(0, 50)
        except (FileFormatError, ValueError):
            continue
        np.testing.assert_array_equal(found[:, 0], np.arange(50.0))


@given(data=st.binary(max_size=600), may_be_null=st.booleans())
def test_a_header_of_any_bytes(data, may_be_null):
    try:
        found = parse_header(data, may_be_null)
    except NotPlainError:
        return
    assert found.n_values > 0


def test_a_header_nested_without_end():
    with pytest.raises(NotPlainError, match="cannot be read"):
        parse_header(b"\x1c" * 5000, False)


def test_errors_of_the_disk_name_the_file(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": np.ones(5)}), path, **PLAIN)
    source = source_of(path)

    def fails(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "preadv", fails)
    with pytest.raises(OSError, match=r"Input/output error") as info:
        source.read(0, 5)
    assert str(path) in str(info.value)


def test_one_page_for_a_whole_column_is_counted(tmp_path):
    values = {f"f{j}": np.random.default_rng(j).normal(size=400_000) for j in range(4)}
    options = {"use_dictionary": False, "compression": "zstd", "row_group_size": 10**6}
    for name, size in (("usual", 1 << 20), ("whole", 1 << 30)):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(
            pa.table(values), path, data_page_size=size, max_rows_per_page=10**6, **options
        )
    usual, whole = (
        source_of(tmp_path / f"{name}.parquet").reading_bytes(10**6) for name in ("usual", "whole")
    )
    assert usual < 12_000_000
    assert whole > 4 * 400_000 * 8


def test_a_file_replaced_by_another_of_the_same_size_and_time(tmp_path):
    path, other = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.write_table(pa.table({"a": np.zeros(50)}), path, **PLAIN)
    pq.write_table(pa.table({"a": np.ones(50)}), other, **PLAIN)
    status = path.stat()
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert other.stat().st_size == status.st_size
    source = source_of(path)
    source.read(0, 20)
    other.replace(path)
    with pytest.raises(FileFormatError, match="it was written again, or replaced"):
        source.read(20, 50)


def test_an_index_of_pandas_is_no_feature(tmp_path):
    pandas = pytest.importorskip("pandas")
    columns = {"label": [0, 1, 2], "query": [1, 1, 1], "a": [0.5, 1.5, 2.5]}
    frame = pandas.DataFrame(columns, index=[4, 2, 7])
    frame.to_parquet(tmp_path / "a.parquet")
    frame.rename_axis("row").to_parquet(tmp_path / "b.parquet")
    for name in ("a", "b"):
        data = open_files(tmp_path / f"{name}.parquet", y="label", qid="query")
        assert data.feature_names == ("a",)
    # It can be asked for by name.
    chosen = open_files(tmp_path / "b.parquet", y="label", qid="query", columns=["a", "row"])
    np.testing.assert_array_equal(chosen.X[np.arange(3)][:, 1], [4, 2, 7])
