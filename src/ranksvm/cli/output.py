"""Screen, JSON, exit codes.

Results go to stdout, everything else (progress, notes, warnings, errors) to stderr.  Progress is
shown on a terminal only: a pipe, a file or the log of a job gets nothing but results and errors.

Everything that commands print goes through :func:`say`, which escapes what a terminal would obey;
JSON has escapes of its own.

Exit codes:

    0    done
    1    an error that should not have happened; --debug shows where
    2    wrong usage: an unknown option, a missing argument
    3    the input cannot be used: no such file, a bad line, nothing to compare
    4    done, but the fit ended before its tolerance (the model is written all the same)
    5    an optional package is missing; the message says which
    130  interrupted
"""

from __future__ import annotations

import json
import math
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import typer

from ranksvm._files import STDOUT, naming
from ranksvm._messages import PYTHON, Formatter, Param, Row, render
from ranksvm._text import format_table, printable

UNEXPECTED, USAGE, BAD_INPUT, NOT_CONVERGED, MISSING_EXTRA, INTERRUPTED = 1, 2, 3, 4, 5, 130


class UsageProblem(Exception):
    """Options that do not go together."""


# Options that do not follow from the name of the parameter alone.
_OPTIONS = {
    (None, "docids"): "--pairs-by docid",
    (None, "qid='ignore'"): "--ignore-qid",
    (None, "qid=None"): "--ignore-qid",
    (None, "keep_features=True"): "no --drop-features",
    (None, "keep_features=False"): "--drop-features",
    (None, "scaling=None"): "--scaling none",
    ("read_pairs", "zero_based=True"): "--pairs-zero-based",
}


class _CommandLine(Formatter):
    """Parameters as options, rows of X as items counted from 1."""

    def parameter(self, param: Param) -> str:
        from ranksvm.cli.model_options import flag_of

        option = _OPTIONS.get((param.function, str(param)))
        if option is not None:
            return option
        flag, values = flag_of(param.name), param.values
        if flag is None:  # not an option: keeps its name
            return PYTHON.parameter(param)
        if not values or values[0] is True:
            return flag
        if values[0] in (None, ()):
            return f"no {flag}"
        return f"{flag} {' or '.join(map(_as_given, values))}"

    def row(self, row: Row) -> str:
        column = "" if row.column is None else f", column {row.column + 1}"
        return f"item {row.number + 1}{column}"


def _as_given(value: Any) -> str:
    """Return a value of an option as it is written on the command line."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


COMMAND_LINE = _CommandLine()


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Print the errors of typer like those of commands: escaped, on one line."""
    try:
        yield
    except Exception as error:
        # An error that is the help page, for a command without arguments, stays as it is.
        if not hasattr(error, "format_message") or type(error).__name__ == "NoArgsIsHelpError":
            raise
        where = getattr(getattr(error, "ctx", None), "command_path", "ranksvm")
        message = " ".join(error.format_message().replace("Value error, ", "").split())
        note(f"error: {message.rstrip('.')} (see {where} --help)")
        raise typer.Exit(USAGE) from None


@contextmanager
def guarded(debug: bool) -> Iterator[None]:
    """Turn the errors of a command into a line on stderr and an exit code."""
    try:
        with _warnings_as_notes():
            yield
        with naming(STDOUT):
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has seen enough
        _drop_output(sys.stdout)
    except (Exception, KeyboardInterrupt) as error:
        code, message = _diagnosis(error)
        if getattr(error, "filename", None) == STDOUT:
            _drop_output(sys.stdout)
        if debug:
            say(traceback.format_exc().rstrip("\n"), to_stderr=True)
        note(f"error: {message}")
        raise typer.Exit(code) from None


def _diagnosis(error: BaseException) -> tuple[int, Any]:
    """Return the exit code and the message for an error."""
    match error:
        case KeyboardInterrupt():
            return INTERRUPTED, "interrupted"
        case UsageProblem():
            return USAGE, error
        case ImportError():
            return MISSING_EXTRA, error
        case MemoryError() if str(error) in ("", "std::bad_alloc"):
            return BAD_INPUT, "not enough memory for this input"
        case MemoryError() | ValueError() | OverflowError():
            return BAD_INPUT, render(error, COMMAND_LINE)
        case OSError():
            where = "" if error.filename is None else f"{error.filename}: "
            return BAD_INPUT, f"{where}{error.strerror or error}"
    name = type(error).__name__
    return UNEXPECTED, f"{name}: {error} (run again with --debug to see where)"


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        seen: set[str] = set()

        def show(message: Warning | str, *_: Any, **__: Any) -> None:
            if str(message) not in seen:  # every fold may say the same
                seen.add(str(message))
                warn(message)

        warnings.showwarning = show
        yield


@contextmanager
def as_usage() -> Iterator[None]:
    """Turn a ValueError of the library into wrong usage: the values in this block are options."""
    try:
        yield
    except ValueError as error:
        raise UsageProblem(render(error, COMMAND_LINE)) from error


def _drop_output(stream: Any) -> None:
    """Drop what is left in the buffer of a stream, which Python would write at exit."""
    with suppress(AttributeError, OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def check_stdout() -> None:
    """Raise an OSError if stdout is closed."""
    with suppress(AttributeError, ValueError):  # it may be no file
        descriptor = sys.stdout.fileno()
        with naming(STDOUT):
            os.write(descriptor, b"")


def say(text: str, *, to_stderr: bool = False) -> None:
    """Print lines, with tabs between their cells; other control characters are escaped."""
    stream = sys.stderr if to_stderr else sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    lines = (
        "\t".join(printable(cell, encoding) for cell in line.split("\t"))
        for line in text.split("\n")
    )
    with naming("standard error" if to_stderr else STDOUT):
        print("\n".join(lines), file=stream)


def note(message: Any) -> None:
    """Print one line on stderr; if nobody can read it, work goes on."""
    try:
        say(printable(f"ranksvm: {render(message, COMMAND_LINE)}"), to_stderr=True)
        sys.stderr.flush()
    except OSError:
        _drop_output(sys.stderr)


def warn(message: Any) -> None:
    """Print a note about what may be wrong with a result."""
    note(f"warning: {render(message, COMMAND_LINE)}")


def show_json(content: Mapping[str, Any]) -> None:
    """Print one JSON object on stdout; what is not a finite number becomes null."""
    say(json.dumps(_plain(content)).replace("\x7f", "\\u007f"))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | None) else str(value)


def number(value: Any) -> str:
    """Format a number for a table: counts in full, others with four digits."""
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if value is None or not math.isfinite(value):
        return "-"
    return f"{value:.4f}" if 1e-3 <= abs(value) < 1e4 or value == 0.0 else f"{value:.4g}"


def show_table(
    names: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    exact: bool = False,
    to_stderr: bool = False,
) -> None:
    """Print aligned columns; ``exact``: tab-separated and not rounded unless on a terminal."""
    stream = sys.stderr if to_stderr else sys.stdout
    names = [printable(name) for name in names]
    if exact and not stream.isatty():
        lines = [names, *([printable(_exact(value)) for value in row] for row in rows)]
        say("\n".join(map("\t".join, lines)), to_stderr=to_stderr)
        return
    cells = [[printable(number(value)) for value in row] for row in rows]
    right = [all(not isinstance(row[at], str) for row in rows) for at in range(len(names))]
    if not stream.isatty():
        say(format_table(names, cells, right), to_stderr=to_stderr)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for name, to_right in zip(names, right, strict=True):
        table.add_column(name, justify="right" if to_right else "left")
    for line in cells:
        table.add_row(*line)
    with naming("standard error" if to_stderr else STDOUT):
        Console(markup=False, highlight=False, stderr=to_stderr).print(table)


def _exact(value: Any) -> str:
    """Format a number for a program, without rounding."""
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)
