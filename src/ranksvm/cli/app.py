"""The commands by name.

Nothing heavy is imported here: the module of a command is imported when the command runs, so that
``ranksvm --help`` is there at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from ranksvm.cli.options import TYPER_SETTINGS, untyped
from ranksvm.cli.output import errors_in_one_line, say

# What every command does; the module of a command has its name.
COMMANDS = {
    "train": "Train a model; -o saves it.",
    "tune": "Choose C, and gamma of a kernel, by cross-validation or on a validation file.",
    "predict": "Score items with a model.",
    "evaluate": "Evaluate a ranking against the labels.",
    "compare": "Test whether one ranking is significantly better than another.",
    "explain": "Show what puts one item above another.",
    "info": "Describe a data file or a model.",
    "convert": "Convert between LETOR text and tables, or between model files.",
    "demo": "Train on two small sets and show what was learned.",
}


class Commands(TyperGroup):
    """The commands together; an error is one line, escaped."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, text in COMMANDS.items():  # what lists of commands and suggestions show
            self.add_command(TyperCommand(name, help=text))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is to run."""
        name, found, rest = super().resolve_command(ctx, args)
        if name in COMMANDS:
            found = typer.main.get_command(import_module(f"ranksvm.cli.{name}").app)
            found.name = name
        return name, found, rest

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options that go before the command."""
        return untyped(super().get_params(ctx))

    make_context = errors_in_one_line()(TyperGroup.make_context)
    invoke = errors_in_one_line()(TyperGroup.invoke)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    **{**TYPER_SETTINGS, "add_completion": True},
    help="Ranking support vector machines: exact, certified, fast.",
    epilog="Example:\n\n[bold]ranksvm train train.txt --valid valid.txt -o model.safetensors[/]\n\n"
    "Data files are LETOR / SVMlight text (plain, .gz, .xz, .bz2, .zst) or tables (.csv, .tsv, "
    ".parquet); [bold]-[/] is stdin or stdout.\n\n"
    "Exit codes: 0 done, 1 unexpected error, 2 wrong usage, 3 unusable input, 4 tolerance not "
    "reached, 5 a package is missing, 130 interrupted.",
)


def _version(value: bool) -> None:
    if value:
        from ranksvm._version import library_version

        say(f"ranksvm {library_version()}")
        raise typer.Exit()


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    del version
