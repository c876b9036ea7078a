"""Screen, progress, JSON, exit codes.

Results go to stdout, everything else (progress, notes, warnings, errors) to stderr.  Progress is
shown on a terminal only: in a pipe, a file or a job's log nothing but results and errors appear.

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

import functools
import json
import math
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ParamSpec

import typer

from ranksvm._files import STDOUT, naming
from ranksvm._messages import PYTHON, Door, Message, Param, Row, told
from ranksvm._text import counted, printable

__all__ = [
    "DOOR",
    "NOT_CONVERGED",
    "STDOUT",
    "Advance",
    "UsageProblem",
    "as_usage",
    "check_stdout",
    "counted",
    "escaped_errors",
    "guarded",
    "note",
    "number",
    "progress",
    "say",
    "show_json",
    "show_table",
    "told_error",
    "warn",
]

UNEXPECTED, USAGE, BAD_INPUT, NOT_CONVERGED, MISSING_EXTRA, INTERRUPTED = 1, 2, 3, 4, 5, 130

P = ParamSpec("P")

# Sets how far a progress bar has come: (done, total or None, what is going on).
Advance = Callable[[float, float | None, str], None]


class UsageProblem(Exception):
    """Options that do not go together."""


@contextmanager
def escaped_errors() -> Iterator[None]:
    """Arguments that are refused come back in messages that we do not print: escape them."""
    try:
        yield
    except Exception as error:
        message = getattr(error, "message", None)
        if hasattr(error, "format_message") and isinstance(message, str):
            error.message = printable(message)  # type: ignore[attr-defined]
        raise


def guarded(command: Callable[P, int | None]) -> Callable[P, None]:
    """Turn the errors of a command into a line on stderr and an exit code."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        failed = functools.partial(_failed, debug=bool(kwargs.get("debug", False)))
        try:
            with _warnings_as_notes():
                code = command(*args, **kwargs) or 0
            with naming(STDOUT):
                sys.stdout.flush()
        except (typer.Exit, typer.Abort):
            raise
        except BrokenPipeError:  # whoever read our output has seen enough
            drop_output()
            code = 0
        except KeyboardInterrupt:
            code = failed("interrupted", INTERRUPTED)
        except UsageProblem as error:
            code = failed(str(error), USAGE)
        except ImportError as error:
            code = failed(str(error), MISSING_EXTRA)
        except MemoryError as error:
            told_why = str(error) not in ("", "std::bad_alloc")
            message = told_error(error) if told_why else "not enough memory for this input"
            code = failed(message, BAD_INPUT)
        except (ValueError, OverflowError) as error:
            code = failed(told_error(error), BAD_INPUT)
        except OSError as error:
            where = f"{error.filename}: " if error.filename is not None else ""
            if error.filename == STDOUT:
                drop_output()
            message = str(error.strerror or error)
            code = failed(f"{where}{message}", BAD_INPUT)
        except Exception as error:
            text = f"{type(error).__name__}: {error} (run again with --debug to see where)"
            code = failed(text, UNEXPECTED)
        if code:
            raise typer.Exit(code)

    return run


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        seen: set[str] = set()

        def show(message: Warning | str, *_: Any, **__: Any) -> None:
            if str(message) not in seen:  # every fold may say the same
                seen.add(str(message))
                warn(getattr(message, "message", str(message)))

        warnings.showwarning = show
        yield


def _failed(message: str, code: int, *, debug: bool) -> int:
    if debug:
        say(traceback.format_exc().rstrip("\n"), to_stderr=True)
    _say_line(f"ranksvm: error: {message}")
    return code


def told_error(error: BaseException) -> str:
    """Return the message of an error in the words of the command line."""
    return str(error.told(DOOR)) if hasattr(error, "told") else str(error)


def drop_output(stream: Any = None) -> None:
    """Forget what is left for stdout, or another stream: Python writes it at exit."""
    with suppress(AttributeError, OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), (stream or sys.stdout).fileno())


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


def _say_line(text: str) -> None:
    """Print one line on stderr, whatever is in it; if nobody can read it, work goes on."""
    try:
        say(printable(text), to_stderr=True)
        sys.stderr.flush()
    except OSError:
        drop_output(sys.stderr)


class _CommandLine:
    """Parameters as options, rows of X as items counted from 1."""

    def parameter(self, param: Param) -> str:
        from ranksvm.cli.options import flag_of

        if param.option is not None:
            return param.option
        flag, values = flag_of(param.name), param.values
        if flag is None:  # what there is no option for keeps its name
            return PYTHON.parameter(param)
        if not values or values[0] is True:
            return flag
        if values[0] is None:
            return f"no {flag}"
        shown = (f"{value:g}" if isinstance(value, float) else str(value) for value in values)
        return f"{flag} {' or '.join(shown)}"

    def row(self, row: Row) -> str:
        column = "" if row.column is None else f", column {row.column + 1}"
        return f"item {row.number + 1}{column}"


DOOR: Door = _CommandLine()


def note(message: str | Message) -> None:
    """Say something that is no result."""
    _say_line(f"ranksvm: {told(message, DOOR)}")


def warn(message: str | Message) -> None:
    """Say what may be wrong with a result."""
    note(Message("warning: {message}", message=message))


@contextmanager
def as_usage() -> Iterator[None]:
    """Values that the library refuses in this block were options."""
    try:
        yield
    except ValueError as error:
        raise UsageProblem(told_error(error)) from error


@contextmanager
def progress(what: str) -> Iterator[Advance]:
    """Show a progress bar on stderr when that is a terminal; else nothing."""
    if not sys.stderr.isatty():
        yield lambda done, total, text: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[text]}", markup=False),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(printable(what), total=None, text="")
        yield lambda done, total, text: bar.update(
            task, completed=done, total=total, text=printable(text)
        )


def show_json(content: Mapping[str, Any]) -> None:
    """One JSON object on stdout; what is not a number becomes null."""
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
    """Show a number in a table: counts in full, others with four digits."""
    if value is None:
        return "-"
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return "-"
    return f"{value:.4f}" if 1e-3 <= abs(value) < 1e4 or value == 0.0 else f"{value:.4g}"


def show_table(
    names: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    exact: bool = False,
    to_stderr: bool = False,
) -> None:
    """Aligned columns; off the terminal in plain text, or tab-separated and exact if asked."""
    stream = sys.stderr if to_stderr else sys.stdout
    names = [printable(name) for name in names]
    if exact and not stream.isatty():
        for line in [names, *([printable(_exact(value)) for value in row] for row in rows)]:
            say("\t".join(line), to_stderr=to_stderr)
        return
    cells = [[printable(number(value)) for value in row] for row in rows]
    right = [all(not isinstance(row[at], str) for row in rows) for at in range(len(names))]
    if stream.isatty():
        _show_rich(names, cells, right, to_stderr=to_stderr)
        return
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    for line in [names, ["-" * width for width in widths], *cells]:
        aligned = (
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        )
        say("  ".join(aligned).rstrip(), to_stderr=to_stderr)


def _show_rich(
    names: Sequence[str],
    cells: Sequence[Sequence[str]],
    right: Sequence[bool],
    *,
    to_stderr: bool,
) -> None:
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
    """Show a number to a program: nothing rounded."""
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)
