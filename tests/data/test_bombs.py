"""Small files that stand for gigabytes, and text that is none: refused early, in little memory."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import subprocess
import sys

import pytest
from blocks import load_in_blocks

from ranksvm.data import (
    FileFormatError,
    LetorError,
    load_letor,
    read_pairs,
    read_qrels,
    read_run,
)
from ranksvm.data.streams import MOST_MEMORY
from ranksvm.data.trec import TrecError

zstandard = pytest.importorskip("zstandard")

MIB = 1 << 20


def zstd_bomb(byte: bytes, n_blocks: int) -> bytes:
    """A frame of blocks that repeat a byte 128 Ki times each, in four bytes."""
    window = bytes([(20 - 10) << 3])  # 1 MiB
    blocks = [
        (last | 1 << 1 | (1 << 17) << 3).to_bytes(3, "little") + byte
        for last in [0] * (n_blocks - 1) + [1]
    ]
    return b"\x28\xb5\x2f\xfd\x00" + window + b"".join(blocks)


# A gigabyte each: 64 members of 16 MiB, as the programs write them, or one frame of zstd.
BOMBS = {
    "gzip": lambda byte: gzip.compress(byte * 16 * MIB, 1) * 64,
    "bzip2": lambda byte: bz2.compress(byte * 16 * MIB) * 64,
    "xz": lambda byte: lzma.compress(byte * 16 * MIB, preset=0) * 64,
    "zstd": lambda byte: zstd_bomb(byte, 8192),
}
# Reads a file in every way and prints what was said, and the megabytes that it took.
READ = """
import resource, sys
import ranksvm.cli.tables
from ranksvm.cli.inputs import read_data
from ranksvm.cli.options import DataOptions, Format
from ranksvm.data import load_letor, read_pairs, read_qrels, read_run

def table(path):
    return read_data([path], DataOptions(format="csv"))

def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

with open(sys.argv[1], "w") as file:
    file.write("label,a\\n1,2\\n")
table(sys.argv[1])  # loads everything
before = memory()
for path in sys.argv[2:]:
    for read in (load_letor, read_pairs, read_qrels, read_run, table):
        try:
            read(path)
        except ValueError as error:
            print(path, read.__name__, error, sep="|")
print(memory() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted as Linux does")
def test_bombs_take_little_memory(tmp_path):
    paths = []
    for kind, make in BOMBS.items():
        for name, byte in {"nul": b"\0", "blank": b" "}.items():
            paths.append(tmp_path / f"{kind}-{name}")
            paths[-1].write_bytes(make(byte))
            assert paths[-1].stat().st_size < 5 * MIB
    done = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path / "good"), *map(str, paths)],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    *said, megabytes = done.stdout.splitlines()
    assert len(said) == 5 * len(paths)
    for line in said:
        path, _, message = line.split("|")
        problem = "found a NUL byte" if path.endswith("nul") else "the line is longer than "
        assert f"{path}, line 1" in message
        assert problem in message
    assert int(megabytes) < 300  # a line of 16 MiB, a few times; the bombs are of 1024 MiB each


@pytest.mark.parametrize("kind", BOMBS)
def test_lines_of_nothing_take_no_memory(kind):
    import tracemalloc

    compress = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}
    compress["zstd"] = zstandard.ZstdCompressor().compress
    content = compress[kind](b"#" * 99 + b"\n" * 2 * MIB) * 16 + compress[kind](b"1 1:2\n")
    tracemalloc.start()
    try:
        assert load_letor(io.BytesIO(content)).n_items == 1
        assert tracemalloc.get_traced_memory()[1] < 24 * MIB
    finally:
        tracemalloc.stop()


READERS = {
    load_letor: (LetorError, b"1 1:2\n"),
    read_pairs: (FileFormatError, b"1 2\n"),
    read_qrels: (TrecError, b"1 0 %d 1\n"),
    read_run: (TrecError, b"1 Q0 %d 1 2 t\n"),
}


@pytest.mark.parametrize("read", READERS)
def test_a_nul_is_an_error_with_its_place(read):
    error, line = READERS[read]
    lines = [line % row if b"%" in line else line for row in range(100_000)]
    lines[77_000] = lines[77_000][:3] + b"\0" + lines[77_000][3:]
    with pytest.raises(error, match="found a NUL byte: this is not a text file") as caught:
        read(io.BytesIO(b"".join(lines)))
    assert (caught.value.line, caught.value.column) == (77_001, 4)


def test_what_is_wrong_before_a_nul_comes_first():
    with pytest.raises(LetorError, match="expected a number") as caught:
        load_letor(io.BytesIO(b"1 1:2\n1 1:x\n\0\n"))
    assert caught.value.line == 2


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("end", [b"\n", b""])
def test_the_limit_of_a_line(read, end):
    error, line = READERS[read]
    first = line % 1 if b"%" in line else line
    second = (line % 2 if b"%" in line else line).rstrip(b"\n")
    if read is load_letor:
        second += b" " * 200
    second += b" " * (500 - len(second))
    text = first * (read in (load_letor, read_pairs)) + b"\n" * 3 + second + end
    number = 4 + text.startswith(first)
    read(io.BytesIO(text), max_line_bytes=500)
    with pytest.raises(error, match=r"longer than 499 bytes\. .* raise max_line_bytes") as caught:
        read(io.BytesIO(text), max_line_bytes=499)
    assert caught.value.line == number
    for wrong in (0, -1, 1.5, None):
        with pytest.raises(ValueError, match="max_line_bytes must be a positive integer"):
            read(io.BytesIO(text), max_line_bytes=wrong)


@pytest.mark.parametrize("block_bytes", [1, 7, 1 << 22])
def test_long_lines_within_the_limit(block_bytes):
    text = b"".join(b"1 %s\n" % (b" " * n) for n in (0, 700, 10, 998, 0, 300))
    data = load_in_blocks(io.BytesIO(text), max_line_bytes=1000, block_bytes=block_bytes)
    assert data.n_items == 6
    with pytest.raises(LetorError) as caught:
        load_in_blocks(io.BytesIO(text), max_line_bytes=999, block_bytes=block_bytes)
    assert caught.value.line == 4


def test_the_command_has_the_limit(good, run, tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"1 qid:1 1:2\n0 qid:1 1:1" + b" " * 100 + b"\n")
    good("info", path)
    code, _, err = run("info", path, "--max-line-bytes", 50)
    assert code == 3
    assert "a.txt, line 2: the line is longer than 50 bytes. If that is" in err
    table = tmp_path / "a.csv"
    table.write_bytes(b"label,qid,a\n1,1,2\n0,1,1" + b" " * 100 + b"\n")
    code, _, err = run("info", table, "--max-line-bytes", 50)
    assert (code, "a.csv, line 3: the line is longer than 50 bytes" in err) == (3, True)
    table.write_bytes(b"label,qid,a\n1,1,2\n0,\0,1\n")
    code, _, err = run("info", table)
    assert (code, "a.csv, line 3, column 3: found a NUL byte" in err) == (3, True)
    for name, text in {"qrels": b"1 0 d 1\n", "run": b"1 Q0 d 1 2 t\n"}.items():
        (tmp_path / name).write_bytes(text)
    options = ("--run", tmp_path / "run", "--max-line-bytes")
    good("evaluate", tmp_path / "qrels", *options, 20)
    code, _, err = run("evaluate", tmp_path / "qrels", *options, 10)
    assert (code, "run, line 1: the line is longer than" in err) == (3, True)


def test_windows_and_dictionaries_beyond_what_the_programs_use():
    text = b"1 1:2\n" * 50_000
    large = {"dict_size": 2 * MOST_MEMORY, "id": lzma.FILTER_LZMA2, "preset": 0}
    header = b"\x28\xb5\x2f\xfd\x00" + bytes([(29 - 10) << 3])
    for content in (
        lzma.compress(text, filters=[large]),
        header + zstd_bomb(b" ", 2)[6:],
    ):
        with pytest.raises(
            FileFormatError, match="needs more than 128 MiB of memory to decompress"
        ):
            load_letor(io.BytesIO(content))
    for content in (
        lzma.compress(text, preset=9),
        zstandard.ZstdCompressor(level=22).compress(text),
        header[:5]
        + bytes([(27 - 10) << 3])
        + zstandard.ZstdCompressor(level=1, write_content_size=False).compress(text)[6:],
    ):
        assert load_letor(io.BytesIO(content)).n_items == 50_000


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("size", [False, True])
@pytest.mark.parametrize("n_lines", [1, 1000, 60_000])
def test_frames_of_zstd(checksum, size, n_lines):
    """All headers, with and without checksum; several frames, and frames without data between."""
    text = b"".join(b"%d 1:%d\n" % (row % 3, row) for row in range(n_lines))
    compressor = zstandard.ZstdCompressor(write_checksum=checksum, write_content_size=size)
    frame = compressor.compress(text)
    skipped = b"\x52\x2a\x4d\x18\x05\x00\x00\x00later"
    streamed = compressor.compressobj()
    parts = [streamed.compress(text), streamed.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)]
    parts += [streamed.compress(text), streamed.flush()]
    data = load_in_blocks(io.BytesIO(frame + skipped + b"".join(parts) + frame), block_bytes=1000)
    assert data.n_items == 4 * n_lines
    assert data.X[:, 0].tolist() == 4 * list(range(n_lines))
    cuts = range(5, len(frame)) if n_lines == 1 else (5, 6, len(frame) // 2, len(frame) - 1)
    for cut in cuts:
        with pytest.raises(FileFormatError, match="is truncated: its zstd data ends too early"):
            load_letor(io.BytesIO(frame[:cut]))
