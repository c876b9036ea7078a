"""Options that several commands share, as groups.

A group is a function: its parameters are the options, its result is what the command gets.  Under

    @command(app, data=data_options)
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
    "DataOptions",
    "Duplicates",
    "Format",
    "Missing",
    "Rules",
    "SolverOptions",
    "by_default",
    "command",
    "data_options",
    "format_named",
    "solver_options",
    "value_of",
]


Rules = Literal["standard", "letor"]


class Loss(StrEnum):
    """Loss per pair."""

    squared_hinge = "squared_hinge"
    hinge = "hinge"


class Reduction(StrEnum):
    """What the sum over pairs is divided by."""

    mean = "mean"
    sum = "sum"
    query_mean = "query_mean"


class Solver(StrEnum):
    """Optimisation algorithm."""

    auto = "auto"
    newton = "newton"
    bundle = "bundle"
    smoothed_newton = "smoothed_newton"


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


_INPUT = "Input"
_MODEL = "Model"
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
        typer.Option(help="Input format; auto goes by file name.", rich_help_panel=_INPUT),
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
            help="Missing feature values; nan keeps them (info, convert, evaluate --scores).",
            rich_help_panel=_INPUT,
        ),
    ] = Missing.error,
    duplicates: Annotated[
        Duplicates,
        typer.Option(help="If a feature index occurs twice on a line.", rich_help_panel=_INPUT),
    ] = Duplicates.error,
    zero_based: Annotated[
        bool | None,
        typer.Option(
            "--zero-based/--one-based",
            help="Whether feature indices begin at 0 or 1. "
            + by_default("as in the model's training data, else 1"),
            show_default=False,
            rich_help_panel=_INPUT,
        ),
    ] = None,
    max_line_bytes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=f"Longest allowed line, in bytes. {by_default(16777216)}",
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


@dataclass(frozen=True)
class SolverOptions:
    """Parameters of the model but for C; None where nothing was said."""

    loss: str | None
    reduction: str | None
    solver: str
    tol: float | None
    max_iter: int | None


def solver_options(
    loss: Annotated[
        Loss | None,
        typer.Option(
            help=f"Loss per pair. {by_default('squared_hinge')}",
            show_default=False,
            rich_help_panel=_MODEL,
        ),
    ] = None,
    reduction: Annotated[
        Reduction | None,
        typer.Option(
            help=f"How the losses of pairs are combined. {by_default('mean')}",
            show_default=False,
            rich_help_panel=_MODEL,
        ),
    ] = None,
    solver: Annotated[
        Solver, typer.Option(help="Optimisation algorithm.", rich_help_panel=_MODEL)
    ] = Solver.auto,
    tol: Annotated[
        float | None,
        typer.Option(
            help=f"Stop at this certified relative gap. {by_default('1e-4')}",
            show_default=False,
            rich_help_panel=_MODEL,
        ),
    ] = None,
    max_iter: Annotated[
        int | None,
        typer.Option(
            help=f"Maximum number of iterations. {by_default(1000)}",
            show_default=False,
            rich_help_panel=_MODEL,
        ),
    ] = None,
) -> SolverOptions:
    """Options of the commands that train."""
    return SolverOptions(
        value_of(loss),
        value_of(reduction),
        solver.value,
        tol,
        max_iter,
    )


def value_of(choice: StrEnum | None) -> str | None:
    """Return the name of a choice, if there is one."""
    return None if choice is None else choice.value


def _debug_option(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> bool:
    return debug


def command(
    app: typer.Typer, *, epilog: str, **groups: Callable[..., Any]
) -> Callable[[Callable[..., int | None]], Callable[..., int | None]]:
    """Register a function as a command, with groups of options for some of its arguments."""

    def register(function: Callable[..., int | None]) -> Callable[..., int | None]:
        own = [p for p in _parameters(function) if p.name not in groups]
        shared = {name: _parameters(group) for name, group in groups.items()}

        def run(*, debug: bool, **given: Any) -> int | None:
            del debug  # `guarded` has seen it
            for name, group in groups.items():
                given[name] = group(**{p.name: given.pop(p.name) for p in shared[name]})
            return function(**given)

        parameters = [*own, *(p for part in shared.values() for p in part)]
        parameters += _parameters(_debug_option)
        run.__name__ = function.__name__
        run.__doc__ = function.__doc__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        app.command(epilog=epilog)(guarded(run))
        return function

    return register


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(function, include_extras=True)
    return [
        p.replace(annotation=hints[p.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for p in inspect.signature(function).parameters.values()
    ]
