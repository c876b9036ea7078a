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

from ranksvm.cli.output import guarded

__all__ = [
    "Conventions",
    "DataOptions",
    "Format",
    "Missing",
    "Rules",
    "SolverOptions",
    "command",
    "data_options",
    "solver_options",
]


Rules = Literal["standard", "letor"]


class Loss(StrEnum):
    """Loss of a pair."""

    squared_hinge = "squared_hinge"
    hinge = "hinge"


class Reduction(StrEnum):
    """What the sum over pairs is divided by."""

    mean = "mean"
    sum = "sum"
    query_mean = "query_mean"


class Solver(StrEnum):
    """Who minimises."""

    auto = "auto"
    newton = "newton"
    bundle = "bundle"
    smoothed_newton = "smoothed_newton"


class Conventions(StrEnum):
    """Whose definitions of the metrics."""

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


class Missing(StrEnum):
    """What a missing feature value becomes."""

    error = "error"
    nan = "nan"
    zero = "zero"


SUFFIXES = {
    ".csv": Format.csv,
    ".tsv": Format.tsv,
    ".parquet": Format.parquet,
    ".pq": Format.parquet,
}
_INPUT = "Input"
_MODEL = "Model"


@dataclass(frozen=True)
class DataOptions:
    """How data files are to be read, and with how many threads the work is done."""

    format: Format = Format.auto
    label_column: str = "label"
    qid_column: str = "qid"
    docid_column: str = "docid"
    missing: Missing = Missing.error
    zero_based: bool = False
    jobs: int | None = None

    def format_of(self, path: str) -> Format:
        """Format of one file: the one asked for, or by its name."""
        if self.format is not Format.auto:
            return self.format
        return SUFFIXES.get(Path(path).suffix.lower(), Format.letor)


def data_options(
    format: Annotated[
        Format,
        typer.Option(help="Of the data; auto goes by the name.", rich_help_panel=_INPUT),
    ] = Format.auto,
    label_column: Annotated[
        str, typer.Option(help="Labels, in a table.", rich_help_panel=_INPUT)
    ] = "label",
    qid_column: Annotated[
        str, typer.Option(help="Query ids, in a table.", rich_help_panel=_INPUT)
    ] = "qid",
    docid_column: Annotated[
        str, typer.Option(help="Document ids, in a table.", rich_help_panel=_INPUT)
    ] = "docid",
    missing: Annotated[
        Missing, typer.Option(help="Missing feature values.", rich_help_panel=_INPUT)
    ] = Missing.error,
    zero_based: Annotated[
        bool, typer.Option("--zero-based", help="Indices begin at 0.", rich_help_panel=_INPUT)
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", help="Threads; all cores by default.", show_default=False),
    ] = None,
) -> DataOptions:
    """Options of every command that reads data."""
    return DataOptions(
        format=format,
        label_column=label_column,
        qid_column=qid_column,
        docid_column=docid_column,
        missing=missing,
        zero_based=zero_based,
        jobs=jobs,
    )


@dataclass(frozen=True)
class SolverOptions:
    """Parameters of the model but for C."""

    loss: str
    reduction: str
    solver: str
    tol: float
    max_iter: int


def solver_options(
    loss: Annotated[Loss, typer.Option(help="Of a pair.", rich_help_panel=_MODEL)] = (
        Loss.squared_hinge
    ),
    reduction: Annotated[
        Reduction,
        typer.Option(help="What the sum over pairs is divided by.", rich_help_panel=_MODEL),
    ] = Reduction.mean,
    solver: Annotated[
        Solver, typer.Option(help="Who minimises.", rich_help_panel=_MODEL)
    ] = Solver.auto,
    tol: Annotated[
        float, typer.Option(help="Certified relative gap at the end.", rich_help_panel=_MODEL)
    ] = 1e-4,
    max_iter: Annotated[
        int, typer.Option(help="Iterations at most.", rich_help_panel=_MODEL)
    ] = 1000,
) -> SolverOptions:
    """Options of the commands that train."""
    return SolverOptions(loss.value, reduction.value, solver.value, tol, max_iter)


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
