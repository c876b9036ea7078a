"""A file is replaced as a whole or not at all."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ranksvm._files import atomic_write

POSIX = pytest.mark.skipif(os.name != "posix", reason="permissions and links as on POSIX")
NOT_ROOT = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere"
)


class Stop(Exception):
    pass


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_bytes_and_text(tmp_path):
    path = tmp_path / "file"
    with atomic_write(path) as file:
        file.write(b"\x00old")
    assert path.read_bytes() == b"\x00old"
    with atomic_write(str(path), "w") as file:
        file.write("né\r\nw\n")
    assert path.read_bytes() == "né\r\nw\n".encode()
    with atomic_write(path, "w", encoding="latin-1", newline="\r\n") as file:
        file.write("é\n")
    assert path.read_bytes() == b"\xe9\r\n"
    assert names(tmp_path) == ["file"]


def test_the_old_file_is_there_until_the_end(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with atomic_write(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
        assert len(names(tmp_path)) == 2
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("kind", [Stop, KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("existing", [True, False])
def test_an_exception_leaves_everything_as_it_was(tmp_path, kind, existing):
    path = tmp_path / "file"
    if existing:
        path.write_bytes(b"old")

    def fail():
        with atomic_write(path) as file:
            file.write(b"half")
            raise kind

    with pytest.raises(kind):
        fail()
    assert names(tmp_path) == (["file"] if existing else [])
    if existing:
        assert path.read_bytes() == b"old"


def test_a_full_disk_leaves_everything_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"), atomic_write(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_a_file_that_was_closed_inside_does_not_take_the_place(tmp_path):
    path = tmp_path / "file"
    with pytest.raises(ValueError, match="closed"), atomic_write(path) as file:
        file.close()
    assert names(tmp_path) == []


@POSIX
@pytest.mark.parametrize("bits", [0o600, 0o640, 0o755])
def test_permissions_of_an_existing_file_stay(tmp_path, bits):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(bits)
    with atomic_write(path) as file:
        file.write(b"new")
    assert stat.S_IMODE(path.stat().st_mode) == bits


@POSIX
def test_a_new_file_gets_the_permissions_of_any_new_file(tmp_path):
    code = (
        "import os, sys; from ranksvm._files import atomic_write; os.umask(0o027)\n"
        "with atomic_write(sys.argv[1]) as f: f.write(b'x')"
    )
    path = tmp_path / "file"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@POSIX
def test_links_stay_and_their_target_is_replaced(tmp_path):
    real = tmp_path / "real" / "file"
    real.parent.mkdir()
    link = tmp_path / "link"
    link.symlink_to(real)  # dangling at first
    for content in (b"first", b"second"):
        with atomic_write(link) as file:
            file.write(content)
        assert link.is_symlink()
        assert real.read_bytes() == content
    assert names(tmp_path) == ["link", "real"]
    assert names(real.parent) == ["file"]


def test_relative_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with atomic_write("file") as file:
        file.write(b"x")
    assert names(tmp_path) == ["file"]


def test_the_longest_names(tmp_path):
    path = tmp_path / ("é" * 127)
    with atomic_write(path) as file:
        file.write(b"x")
    assert path.read_bytes() == b"x"
    assert len(names(tmp_path)) == 1


def test_a_missing_directory(tmp_path):
    path = tmp_path / "missing" / "file"
    with pytest.raises(FileNotFoundError, match=r"no directory '.*missing'; create it") as caught:
        atomic_write(path).__enter__()
    assert caught.value.filename == str(path)


def test_a_file_where_a_directory_should_be(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises((NotADirectoryError, FileNotFoundError)):
        atomic_write(tmp_path / "file" / "inside").__enter__()


def test_a_directory_where_a_file_should_be(tmp_path):
    with pytest.raises(IsADirectoryError, match="this is a directory"):
        atomic_write(tmp_path).__enter__()


@POSIX
@NOT_ROOT
def test_protected_places(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o444)
    with pytest.raises(PermissionError, match="write-protected"):
        atomic_write(path).__enter__()
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(PermissionError, match="new files are not allowed"):
            atomic_write(tmp_path / "other").__enter__()
    finally:
        tmp_path.chmod(0o755)


def test_other_modes_are_refused(tmp_path):
    with pytest.raises(ValueError, match="mode must be"):
        atomic_write(tmp_path / "file", "ab").__enter__()


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="no /dev/null")
def test_devices_are_written_directly():
    with atomic_write("/dev/null") as file:
        file.write(b"x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@POSIX
def test_a_pipe_is_written_directly(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    got = []
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()))
    reader.start()
    with atomic_write(path) as file:
        file.write(b"through")
    reader.join()
    assert got == [b"through"]
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="no /dev/stdout")
@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1"])
def test_standard_output_is_appended_to_also_when_it_is_a_file(tmp_path, name):
    code = (
        "import sys; from ranksvm._files import atomic_write; print('before')\n"
        "with atomic_write(sys.argv[1]) as f: f.write(b'inside\\n')\n"
        "print('after')"
    )
    path = tmp_path / "out"
    path.write_text("first\n")
    with path.open("ab") as out:
        subprocess.run([sys.executable, "-c", code, name], stdout=out, check=True)
    assert path.read_text() == "first\nbefore\ninside\nafter\n"
    piped = subprocess.run([sys.executable, "-c", code, name], stdout=subprocess.PIPE, check=True)
    assert piped.stdout == b"before\ninside\nafter\n"


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="no /dev/fd")
def test_a_descriptor_that_is_not_open():
    with pytest.raises(OSError, match="not open"):
        atomic_write("/dev/fd/987").__enter__()
