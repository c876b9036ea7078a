"""Output files, which are written completely or not at all, and what they may replace.

One rule for all commands: an input of the same command is never replaced, and another file only by
what it is itself (see :mod:`ranksvm.data.targets`), or with ``--force``.  A suffix that means
another format is refused; any other (``model.v2``, ``model_C0.5``) is just part of the name.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ranksvm._contents import MODEL, SCORES, FileKind
from ranksvm._files import STDOUT, atomic_write, check_target, naming
from ranksvm._messages import render
from ranksvm.cli.output import COMMAND_LINE, UsageProblem, check_stdout, say
from ranksvm.data.sources import name_of
from ranksvm.data.targets import check_replaces
from ranksvm.models.files import write_model
from ranksvm.models.model import Model


def is_stdout(path: str | None) -> bool:
    """Return whether a path means standard output."""
    return path in ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


def is_regular(path: str) -> bool:
    """Return whether a path is a file or directory, or does not exist yet; not a pipe or device."""
    return os.path.isfile(path) or os.path.isdir(path) or not os.path.exists(path)


def check_output(
    path: str | None,
    inputs: Sequence[str | None],
    kind: FileKind | None = None,
    *,
    force: bool = False,
    called: str = "output",
) -> None:
    """Check before the work whether its result can be written, and what it would replace.

    Parameters
    ----------
    path : str or None
        Where the result goes, if anywhere.
    inputs : sequence of (str or None)
        Files of the same command, which are never replaced.
    kind : FileKind or None
        What is written; None if the writer itself checks what is there.
    force : bool
        Whether a file that holds something else may be replaced.
    called : str
        What messages call the file.
    """
    if path is None:
        return
    if is_stdout(path):
        check_stdout()
        if kind is MODEL and sys.stdout.isatty():
            raise UsageProblem("a model is binary: redirect standard output, or name a file")
    elif not path:
        raise UsageProblem("the name of the output file is empty")
    else:
        check_target(path)
    for source in inputs:
        if source is not None and is_same(path, source):
            raise UsageProblem(_about_input(path, source, called))
    if kind is None or is_stdout(path) or not is_regular(path):
        return
    suffix = kind.wrong_suffix(path)
    if suffix is not None:
        advice = kind.advice
        if kind is SCORES and suffix == ".gz":
            advice += f", or a pipe: ranksvm predict ... | gzip > {path}"
        raise UsageProblem(f"{path}: {kind.plural} are not written as {suffix}. {advice}")
    if not force:
        try:
            check_replaces(path, kind)
        except FileExistsError as error:
            raise UsageProblem(render(error, COMMAND_LINE)) from None


def _about_input(path: str, source: str, called: str) -> str:
    """Return the message that an output is also an input of the command."""
    if not is_stdout(path):
        return f"{called} {path} is also an input; choose another name"
    status = _status(1)
    emptied = ", which `>` has already emptied" if status is None or not status.st_size else ""
    shown = name_of(source)
    return f"standard output is redirected to the input {shown}{emptied}. Write to another file"


def is_same(path: str, source: str) -> bool:
    """Return whether an output and an input are the same file, under whatever names."""
    one = _status(1 if is_stdout(path) else path)
    other = _status(0 if source == "-" else source)
    if one is None or other is None or not stat.S_ISREG(one.st_mode):
        return False
    return os.path.samestat(one, other)


def _status(file: str | int) -> os.stat_result | None:
    try:
        return os.stat(file)
    except (OSError, ValueError):
        return None


@contextmanager
def open_output(path: str) -> Iterator[Any]:
    """Open a file that is replaced when the block ends without an error; "-" is stdout."""
    if not is_stdout(path):
        with atomic_write(path) as file:
            yield file
        return
    yield _StandardOutput()
    with naming(STDOUT):
        sys.stdout.flush()


class _StandardOutput:
    """Standard output for bytes; on a terminal, control characters are escaped."""

    closed = False

    def write(self, data: bytes) -> int:
        if sys.stdout.isatty():
            say(bytes(data).decode("utf-8", "surrogateescape").removesuffix("\n"))
        else:
            with naming(STDOUT):
                sys.stdout.buffer.write(data)
        return len(data)

    def flush(self) -> None:
        with naming(STDOUT):
            sys.stdout.flush()


def is_svmrank(path: str) -> bool:
    """Return whether a file name means SVM^rank's format."""
    return path.lower().endswith(".dat")


def save_model(path: str, model: Model) -> None:
    """Write a model: SVM^rank's format when the name ends in ``.dat``, else ours."""
    if is_svmrank(path):
        from ranksvm.export.svmrank import write_svmrank

        write_svmrank(path, model)
    elif is_stdout(path):
        with open_output(path) as file:
            write_model(file, model)
    else:
        write_model(path, model)
