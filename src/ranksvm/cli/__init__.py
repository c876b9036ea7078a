"""The command ``ranksvm``: train, tune, save and evaluate models from the shell.

app.py            the commands by name; each has a module of that name, imported when it runs
options.py        options that several commands share
model_options.py  options of models, made from the parameters of all kinds of models
inputs.py         reads data sets, scores and models
tables.py         CSV, TSV and Parquet files
columns.py        matches the columns of items with those of a model; scores items
write.py          output files, and what they may replace
output.py         screen, JSON, exit codes; messages with the names of options
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from ranksvm._files import STDOUT, naming

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command; ends the process with an exit code (see ``ranksvm --help``)."""
    _take_places_of_closed_streams()
    try:
        from ranksvm.cli.app import app

        with naming(STDOUT):
            app(args=None if argv is None else list(argv), prog_name="ranksvm")
    except ImportError as error:
        if error.name not in ("typer", "rich"):
            raise
        _end(f"the command line needs {error.name}: pip install 'ranksvm[cli]'", 5)
    except KeyboardInterrupt:
        _end("interrupted", 130)
    except OSError as error:  # of a stdout that takes nothing
        _end(f"{STDOUT}: {error.strerror or error}", 3)


def _take_places_of_closed_streams() -> None:
    """Keep files that are opened later from taking the descriptor of a closed standard stream.

    Writing to a closed stdout stays an error, since results would be lost.  Messages to a closed
    stderr are dropped.
    """
    streams = (("stdin", os.O_RDONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY))
    for number, (name, flags) in enumerate(streams):
        if getattr(sys, name) is not None:
            continue
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)  # takes the lowest number that is free
        if name != "stdin":
            file = open(number, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, file)


def _end(message: str, code: int) -> NoReturn:
    print(f"ranksvm: error: {message}", file=sys.stderr)
    # What is left in the buffers is not written a second time.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(code)
