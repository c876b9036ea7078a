"""Options that several commands share, as groups.

A group is a function: its parameters are the options, its result is what the command gets.  Under

    @command(epilog=..., data=data_options)
    def info(file: ..., *, data: DataOptions) -> int | None: ...

the command line of ``info`` has ``file``, the options of ``data_options`` and ``--debug``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

from ranksvm.cli.output import UsageProblem, guarded

__all__ = [
    "By",
    "Conventions",
    "ConventionsOption",
    "DataOptions",
    "Duplicates",
    "Force",
    "Format",
    "Json",
    "Metrics",
    "Missing",
    "Rules",
    "by_default",
    "command",
    "data_options",
    "examples",
    "flag_of",
    "format_named",
]


Rules = Literal["standard", "letor"]


class Conventions(StrEnum):
    """Metric definitions: standard or LETOR's."""

    standard = "standard"
    letor = "letor"

    @property
    def rules(self) -> Rules:
        """The name, as the metrics take it."""
        return "letor" if self is Conventions.letor else "standard"


class Format(StrEnum):
    """How a data file is written."""

    auto = "auto"
    letor = "letor"
    csv = "csv"
    tsv = "tsv"
    parquet = "parquet"


class By(StrEnum):
    """How items are named."""

    row = "row"
    docid = "docid"


class Missing(StrEnum):
    """What a missing feature value becomes."""

    error = "error"
    nan = "nan"
    zero = "zero"


class Duplicates(StrEnum):
    """What to do if a feature index occurs twice on a line."""

    error = "error"
    last = "last"
    sum = "sum"


COMPRESSED = (".gz", ".xz", ".bz2", ".zst")
SUFFIXES = {
    ".csv": Format.csv,
    ".tsv": Format.tsv,
    ".parquet": Format.parquet,
    ".pq": Format.parquet,
}


def by_default(value: object) -> str:
    """Return how a help text tells a default that the command line does not know itself."""
    return rf"[dim]\[default: {value}][/]"


def examples(*commands: str) -> str:
    """Return the end of a help text: command lines to copy, each on a line of its own."""
    heading = "Example:" if len(commands) == 1 else "Examples:"
    return "\n\n".join([heading, *(f"[bold]{line}[/]" for line in commands)])


# Options for parameters of the library; those of models are in their settings.
FLAGS = {
    "Cs": "--C-grid",
    "checkpoint": "--resume",
    "conventions": "--conventions",
    "duplicates": "--duplicates",
    "force": "--force",
    "gammas": "--gamma-grid",
    "max_line_bytes": "--max-line-bytes",
    "missing": "--missing",
    "n_jobs": "--jobs",
    "n_permutations": "--permutations",
    "n_splits": "--folds",
    "qid": "--qid-column",
    "y": "--label-column",
    "zero_based": "--zero-based",
}


def flag_of(parameter: str) -> str | None:
    """Return what the command line calls a parameter of the library; None if it has no option."""
    from ranksvm.cli.model_options import model_flags

    return FLAGS.get(parameter) or model_flags().get(parameter)


Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        "-m",
        help="ndcg@10, map, mean_ndcg, p@5, mrr, err@10, pairwise_accuracy, kendall_tau, auc ...; "
        "may be repeated.",
        show_default=False,
    ),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Overwrite the output file even if it contains something else."),
]
DEFINITIONS = "Metric definitions: standard or LETOR's."
ConventionsOption = Annotated[Conventions, typer.Option(help=DEFINITIONS)]

_INPUT = "Input"
_IN_TABLE: dict[str, Any] = {"show_default": False, "rich_help_panel": _INPUT}


@dataclass(frozen=True)
class DataOptions:
    """How data files are to be read, and with how many threads the work is done.

    A column that was not named is looked for under its usual name, and may be missing.
    """

    format: Format = Format.auto
    label_column: str | None = None
    qid_column: str | None = None
    docid_column: str | None = None
    ignore_qid: bool = False
    missing: Missing = Missing.error
    duplicates: Duplicates = Duplicates.error
    zero_based: bool | None = None
    max_line_bytes: int | None = None
    jobs: int | None = None
    may_keep_missing: bool = True  # whether --missing nan is worth a mention

    @property
    def limits(self) -> dict[str, Any]:
        """What those who read text are told about it; nothing if nothing was said."""
        return {} if self.max_line_bytes is None else {"max_line_bytes": self.max_line_bytes}

    def format_of(self, path: str) -> Format:
        """Format of one file: the one asked for, or by its name."""
        return self.format if self.format is not Format.auto else format_named(path)


def format_named(path: str) -> Format:
    """Format by the name of a file, compressed or not."""
    *before, last = Path(path).suffixes[-2:] or [""]
    suffix = before[0] if before and last.lower() in COMPRESSED else last
    return SUFFIXES.get(suffix.lower(), Format.letor)


def data_options(
    format: Annotated[
        Format,
        typer.Option(help="Input format; auto decides by the file name.", rich_help_panel=_INPUT),
    ] = Format.auto,
    label_column: Annotated[
        str | None,
        typer.Option(help=f"Column of a table with the labels. {by_default('label')}", **_IN_TABLE),
    ] = None,
    qid_column: Annotated[
        str | None,
        typer.Option(
            help=f"Column of a table with the query ids. {by_default('qid')}", **_IN_TABLE
        ),
    ] = None,
    docid_column: Annotated[
        str | None,
        typer.Option(
            help=f"Column of a table with the document ids. {by_default('docid')}", **_IN_TABLE
        ),
    ] = None,
    ignore_qid: Annotated[
        bool,
        typer.Option(
            "--ignore-qid",
            help="Ignore query ids; treat all items as one query.",
            rich_help_panel=_INPUT,
        ),
    ] = False,
    missing: Annotated[
        Missing,
        typer.Option(
            help="How to treat missing feature values; nan keeps them (only for info, convert and "
            "evaluate --scores).",
            rich_help_panel=_INPUT,
        ),
    ] = Missing.error,
    duplicates: Annotated[
        Duplicates,
        typer.Option(
            help="How to treat a feature index that occurs twice on a line.", rich_help_panel=_INPUT
        ),
    ] = Duplicates.error,
    zero_based: Annotated[
        bool | None,
        typer.Option(
            "--zero-based/--one-based",
            help="Whether feature indices start at 0 or 1. "
            + by_default("as in the model's training data, else 1"),
            show_default=False,
            rich_help_panel=_INPUT,
        ),
    ] = None,
    max_line_bytes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=f"Maximum length of a line in bytes. {by_default(16777216)}",
            show_default=False,
            rich_help_panel=_INPUT,
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", "-j", help=f"Number of threads. {by_default('all cores')}", show_default=False
        ),
    ] = None,
) -> DataOptions:
    """Options of every command that reads data."""
    if jobs == 0:
        raise UsageProblem("--jobs must not be 0; leave it out to use all cores")
    return DataOptions(
        format=format,
        label_column=label_column,
        qid_column=qid_column,
        docid_column=docid_column,
        ignore_qid=ignore_qid,
        missing=missing,
        duplicates=duplicates,
        zero_based=zero_based,
        max_line_bytes=max_line_bytes,
        jobs=jobs,
    )


def _debug_option(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback if there is an error.")
    ] = False,
) -> bool:
    return debug


Group = Callable[..., Any] | tuple[list[inspect.Parameter], Callable[[dict[str, Any]], Any]]


def command(*, epilog: str, **groups: Group) -> Callable[[Callable[..., int | None]], typer.Typer]:
    """Make a function a command, with groups of options for some of its arguments.

    Parameters
    ----------
    epilog : str
        End of the help text.
    **groups
        By argument of the function: a function whose parameters are options and whose result is the
        argument, or options and a function from their values.
    """

    def made(function: Callable[..., int | None]) -> typer.Typer:
        own = [p for p in _parameters(function) if p.name not in groups]
        shared = {
            name: group[0] if isinstance(group, tuple) else _parameters(group)
            for name, group in groups.items()
        }

        def run(*, debug: bool, **given: Any) -> int | None:
            del debug  # `guarded` has seen it
            for name, group in groups.items():
                values = {p.name: given.pop(p.name) for p in shared[name]}
                given[name] = group[1](values) if isinstance(group, tuple) else group(**values)
            return function(**given)

        parameters = [*own, *(p for part in shared.values() for p in part)]
        parameters += _parameters(_debug_option)
        run.__name__ = function.__name__
        run.__doc__ = function.__doc__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        app = typer.Typer(
            add_completion=False,
            pretty_exceptions_enable=False,
            rich_markup_mode="rich",
            context_settings={"help_option_names": ["-h", "--help"]},
        )
        app.command(name=function.__name__, epilog=epilog)(guarded(run))
        return app

    return made


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(function, include_extras=True)
    return [
        p.replace(annotation=hints[p.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for p in inspect.signature(function).parameters.values()
    ]
