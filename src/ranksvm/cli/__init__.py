"""The command ``ranksvm``: from a LETOR file to a tuned, saved, evaluated model.

app.py        the commands with their options; imports nothing heavy, so that help is there at once
inputs.py     files to arrays: data in any format, scores, models
output.py     screen, progress, JSON, exit codes
learn.py      train, tune
judge.py      predict, evaluate, compare
files.py      info, convert
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command; ends the process with an exit code (see ``ranksvm --help``)."""
    try:
        from ranksvm.cli.app import app
    except ImportError as error:
        if error.name not in ("typer", "rich"):
            raise
        print(
            f"ranksvm: the command line needs {error.name}: pip install 'ranksvm[cli]'",
            file=sys.stderr,
        )
        sys.exit(5)
    app(args=None if argv is None else list(argv), prog_name="ranksvm")
