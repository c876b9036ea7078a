"""A file is replaced as a whole or not at all."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import ranksvm
from ranksvm import _files
from ranksvm._files import atomic_write
from ranksvm.data import load_letor, read_pairs
from ranksvm.data.trec import read_qrels, read_run
from ranksvm.export import read_svmrank

POSIX = pytest.mark.skipif(os.name != "posix", reason="permissions and links as on POSIX")
NOT_ROOT = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere"
)


class Stop(Exception):
    pass


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_paths_and_strings(tmp_path):
    path = tmp_path / "file"
    with atomic_write(path) as file:
        file.write(b"\x00old\r\n")
    assert path.read_bytes() == b"\x00old\r\n"
    with atomic_write(str(path)) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"
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


# --- Temporary files -----------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from ranksvm._files import atomic_write
with atomic_write(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def kill_a_writer(path: Path) -> str:
    """Kill a process while it writes; returns the name of what it leaves behind."""
    before = set(names(path.parent))
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    (left,) = set(names(path.parent)) - before
    return left


@POSIX
@pytest.mark.parametrize("bits", [0o600, 0o640, 0o644])
def test_a_temporary_file_is_never_more_open_than_its_target(tmp_path, bits):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(bits)
    old = os.umask(0o022)
    try:
        with atomic_write(path) as file:
            file.write(b"secret")
            (temporary,) = set(names(tmp_path)) - {"file"}
            assert stat.S_IMODE((tmp_path / temporary).stat().st_mode) == bits
    finally:
        os.umask(old)


@POSIX
@pytest.mark.skipif(not hasattr(os, "fchown") or os.geteuid() != 0, reason="needs root")
def test_owner_and_group_stay(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o660)
    os.chown(path, 12345, 23456)
    with atomic_write(path) as file:
        file.write(b"new")
    status = path.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (12345, 23456, 0o660)

    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    with atomic_write(path) as file:  # our group is not that of the file
        file.write(b"newer")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@POSIX
def test_what_a_killed_writer_leaves_is_cleared_by_the_next(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    left = kill_a_writer(path)
    assert path.read_bytes() == b"old"
    assert stat.S_IMODE((tmp_path / left).stat().st_mode) == stat.S_IMODE(path.stat().st_mode)
    other = kill_a_writer(tmp_path / "file2")
    with atomic_write(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == sorted([other, "file"])


@POSIX
def test_files_of_living_writers_and_other_names_stay(tmp_path, monkeypatch):
    path = tmp_path / "file"
    strange = [
        ".file.tmp", ".file.0123abcd.tmp", f".file.{_files._HOST}-0123abcg.tmp", ".file.x",
        f".file2.{_files._HOST}-0123abcd.tmp", f"file.{_files._HOST}-0123abcd.tmp",
    ]  # fmt: skip
    for name in strange:
        (tmp_path / name).touch()
    target = tmp_path / "precious"
    target.write_bytes(b"precious")
    (tmp_path / f".file.{_files._HOST}-00000000.tmp").symlink_to(target)
    os.link(target, tmp_path / f".file.{_files._HOST}-00000001.tmp")
    os.mkfifo(tmp_path / f".file.{_files._HOST}-00000002.tmp")
    (tmp_path / f".file.{_files._HOST}-00000003.tmp").mkdir()
    before = names(tmp_path)
    with atomic_write(path) as first:
        first.write(b"first")
        with atomic_write(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert target.read_bytes() == b"precious"
    assert names(tmp_path) == sorted([*before, "file"])


@POSIX
def test_what_another_host_left_stays_for_a_day(tmp_path):
    path = tmp_path / "file"
    left = tmp_path / ".file.0123abcd-0123abcd.tmp"
    assert _files._HOST != "0123abcd"
    left.touch()
    path.touch()
    for age, there in ((0, True), (80_000, True), (100_000, False)):
        os.utime(left, (time.time() - age,) * 2)
        with atomic_write(path) as file:
            file.write(b"x")
        assert left.exists() == there


@POSIX
def test_a_file_that_is_cleared_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    path = tmp_path / "file"
    lock, cleared = _files.try_lock, []

    def clear_first(descriptor):
        if not cleared:
            (name,) = names(tmp_path)
            cleared.append(name)
            os.unlink(tmp_path / name)
        return lock(descriptor)

    monkeypatch.setattr(_files, "try_lock", clear_first)
    with atomic_write(path) as file:
        file.write(b"x")
    assert cleared
    assert names(tmp_path) == ["file"]


# --- Errors --------------------------------------------------------------------------------------


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_errors_of_writing_name_the_file():
    full = pytest.raises(OSError, match="No space left on device; free some space")
    with full as caught, atomic_write("/dev/full") as file:
        file.write(b"x" * 100_000)
    assert (caught.value.filename, caught.value.errno) == ("/dev/full", 28)


def test_errors_inside_that_are_not_about_the_file_stay_what_they_are(tmp_path):
    other = pytest.raises(OSError, match="about something else")
    with other as caught, atomic_write(tmp_path / "file"):
        raise OSError(5, "about something else")
    assert caught.value.filename is None


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_errors_of_every_step_name_the_file(tmp_path, monkeypatch, step):
    def fail(*_):
        raise OSError(5, "Input/output error")

    path = tmp_path / "file"
    monkeypatch.setattr(os, step, fail)
    failing = pytest.raises(OSError, match="Input/output error; the disk")
    with failing as caught, atomic_write(path) as file:
        file.write(b"x")
    assert caught.value.filename == str(path)
    assert names(tmp_path) == []


UNREADABLE = "/proc/self/mem"  # reading from its beginning is an Input/output error


@pytest.mark.skipif(not os.path.exists(UNREADABLE), reason="no file that fails to be read")
@pytest.mark.parametrize(
    "read",
    [load_letor, read_qrels, read_run, read_pairs, ranksvm.load, read_svmrank],
    ids=lambda read: read.__name__,
)
def test_errors_of_reading_name_the_file(read):
    with pytest.raises(OSError, match="Input/output error; the disk") as caught:
        read(UNREADABLE)
    assert caught.value.filename == UNREADABLE


def test_an_empty_name_and_a_file_in_place_of_a_directory(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.touch()
    with pytest.raises(IsADirectoryError), atomic_write(""):
        pass
    says = pytest.raises(NotADirectoryError, match="is a file, not a directory")
    with says, atomic_write(plain / "x"):
        pass


def test_an_error_closes_the_file_while_it_is_held(tmp_path: Path) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_text("1 0 a\n")
    threads = threading.active_count()
    with pytest.raises(ValueError, match="expected 4 columns") as held:
        read_qrels(bad)
    assert threading.active_count() == threads
    assert held.value is not None
