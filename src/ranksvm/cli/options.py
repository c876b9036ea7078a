"""Options that several commands share, as groups.

A group is a callable, usually a dataclass: its parameters are the options, its result is what the
command gets.  Under

    @command(epilog=..., data=DataOptions)
    def app(file: ..., *, data: DataOptions) -> int | None: ...

the command line has ``file``, the options of ``DataOptions`` and ``--debug``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from typer.core import TyperCommand

from ranksvm._contents import COMPRESSED, TABLES
from ranksvm.cli.output import UsageProblem, as_usage, guarded

Conventions = Literal["standard", "letor"]
Format = Literal["auto", "letor", "csv", "tsv", "parquet"]
By = Literal["row", "docid"]  # how items are named
Missing = Literal["error", "nan", "zero"]
Filled = Literal["error", "zero"]
Learned = Literal["error", "zero", "impute"]
Duplicates = Literal["error", "last", "sum"]


_DEFAULT = r"[dim]\[default: "  # begins the default in a help text
# The part of a help page, the last one, for what few users need.
ADVANCED = "Advanced"


def by_default(value: object) -> str:
    """Return the end of a help text: a default that typer does not see."""
    return rf"{_DEFAULT}{value}][/]"


def examples(*commands: str) -> str:
    """Return the end of a help page: command lines to copy, each on a line of its own."""
    heading = "Example:" if len(commands) == 1 else "Examples:"
    return "\n".join([heading, *(f"[bold]{line}[/]" for line in commands)])


Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
_metric = partial(typer.Option, "--metric", "-m", metavar="METRIC")
_METRICS = "Metric, such as ndcg@10; repeat for several. "
_BY_LABELS = "{}; not grades: {}"
Metrics = Annotated[
    list[str] | None,
    _metric(
        help=_METRICS
        + by_default(
            _BY_LABELS.format(
                "ndcg@10, map, mrr, pairwise_accuracy", "pairwise_accuracy, kendall_tau"
            )
        )
    ),
]
ComparedMetrics = Annotated[
    list[str] | None,
    _metric(help=_METRICS + by_default(_BY_LABELS.format("ndcg@10", "pairwise_accuracy"))),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file of another kind.")]
DEFINITIONS = "Metric definitions."
ConventionsOption = Annotated[Conventions, typer.Option(help=DEFINITIONS)]

_input = partial(typer.Option, rich_help_panel="Input")
_rare = partial(typer.Option, rich_help_panel=ADVANCED)
_table = partial(typer.Option, rich_help_panel="Tables")
_base = partial(_input, "--zero-based/--one-based")
_BASE = "Whether indices start at 0 or 1. "
# For commands that read a model.
BaseOfModel = Annotated[
    bool | None,
    _base(help=_BASE + by_default("as in the model's training data, else --one-based")),
]
# For commands that can read data in pieces.
Memory = Annotated[
    str | None,
    _input(
        metavar="SIZE",
        help="Memory for files in pieces or kernel values: 4GB. "
        + by_default("all data in memory; 4GB for kernel values"),
    ),
]
Cache = Annotated[
    str | None,
    _rare(
        metavar="DIR",
        help=f"With --memory: folder for caches. {by_default('beside the text')}",
    ),
]
# For commands that choose the features of a table.
Features = Annotated[
    list[str] | None,
    _table(
        metavar="NAMES",
        help=f"Columns to use as features: a,b,price*. {by_default('all')}",
    ),
]
Drop = Annotated[
    list[str] | None, _table(metavar="NAMES", help="Columns to leave out: title,url*.")
]
# For commands that need every value.
FilledMissing = Annotated[Filled, _input(help="If a value is missing.")]


@dataclass(frozen=True)
class DataOptions:
    """How data files are read, and the number of threads; options of every command with data.

    A column that was not named is looked for under its usual name, and may be missing.
    """

    format: Annotated[Format, _rare(help="Format: auto (by name), letor, csv, tsv, parquet.")] = (
        "auto"
    )
    label_column: Annotated[
        str | None,
        _input(
            metavar="NAME",
            help=f"Column (or .npy) with the labels. {by_default('label')}",
        ),
    ] = None
    qid_column: Annotated[
        str | None,
        _input(metavar="NAME", help=f"Column (or .npy) with the query ids. {by_default('qid')}"),
    ] = None
    docid_column: Annotated[
        str | None,
        _rare(
            metavar="NAME",
            help=f"Column of a table with the document ids. {by_default('docid')}",
        ),
    ] = None
    ignore_qid: Annotated[
        bool, _input("--ignore-qid", help="Ignore query ids; treat all items as one query.")
    ] = False
    missing: Annotated[
        Missing,
        _input(help="If a value is missing: error, zero, or nan, which models cannot use."),
    ] = "error"
    duplicates: Annotated[Duplicates, _rare(help="If an index is twice on a line.")] = "error"
    zero_based: Annotated[bool | None, _base(help=_BASE + by_default("--one-based"))] = None
    max_line_bytes: Annotated[
        int | None,
        _rare(help=f"Maximum length of a line in bytes. {by_default(16777216)}"),
    ] = None
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            help=f"Number of threads. {by_default('all cores that the process may use')}",
        ),
    ] = None
    # Options of some commands only.
    memory: str | None = None
    cache: str | None = None
    features: list[str] | None = None
    drop: list[str] | None = None
    weight_column: str | None = None
    query_weight_column: str | None = None
    min_frequency: str | None = None
    # Not options: where a model found labels and ids in its training set; whether text may become
    # features.
    usual: Mapping[str, str] | None = None
    may_encode: bool = False
    may_keep_missing: bool = True  # not an option: whether errors mention --missing nan

    def __post_init__(self) -> None:
        if self.jobs == 0:
            raise UsageProblem("--jobs must not be 0; leave it out to use all cores")
        if self.max_line_bytes is not None:
            from ranksvm._checks import check_integer

            with as_usage():
                check_integer("max_line_bytes", self.max_line_bytes)
        if self.memory is not None:
            from ranksvm._memory import parse_memory

            with as_usage():
                parse_memory("memory_budget", self.memory)
        elif self.cache is not None:
            raise UsageProblem("--cache needs --memory")

    @property
    def limits(self) -> dict[str, Any]:
        """Arguments for the readers of text; empty if no option was given."""
        return {} if self.max_line_bytes is None else {"max_line_bytes": self.max_line_bytes}

    @property
    def named_columns(self) -> dict[str, str]:
        """The columns of a table that options name: "label", "qid", "docid" and weights."""
        given = {
            "label": self.label_column,
            "qid": self.qid_column,
            "docid": self.docid_column,
            "weight": self.weight_column,
            "query_weight": self.query_weight_column,
        }
        return {key: name for key, name in given.items() if name is not None}

    @property
    def columns(self) -> dict[str, str]:
        """Where labels, query ids and document ids are looked for in a table."""
        usual = {"label": "label", "qid": "qid", "docid": "docid", **(self.usual or {})}
        return {**usual, **self.named_columns}

    @property
    def frequency(self) -> Any:
        """The number of items, or their share, that --min-frequency gives; a text if neither."""
        text = self.min_frequency
        if text is None:
            return None
        try:
            return int(text) if text.isdecimal() else float(text)
        except ValueError:
            return text

    @property
    def of_tables(self) -> list[str]:
        """The options that were given, and that only tables have."""
        names = ("features", "drop", "weight_column", "query_weight_column", "min_frequency")
        found = [f"--{name.replace('_', '-')}" for name in names if getattr(self, name)]
        return [*found, *(["--missing impute"] if self.imputes else [])]

    @property
    def imputes(self) -> bool:
        """Whether missing values are filled in with what is learned from the others."""
        return str(self.missing) == "impute"

    def format_of(self, path: str) -> Format:
        """Return the format of a file: the one asked for, or the one of its name."""
        return format_named(path) if self.format == "auto" else self.format


@dataclass(frozen=True)
class TrainingOptions(DataOptions):
    """How training data are read: which columns are features, and what is made of them."""

    features: Features = None
    drop: Drop = None
    weight_column: Annotated[
        str | None, _table(metavar="NAME", help="Column with weights of items.")
    ] = None
    query_weight_column: Annotated[
        str | None, _table(metavar="NAME", help="Column with weights of queries.")
    ] = None
    missing: Annotated[
        Learned,
        _input(help="If values are missing; impute takes the median (tables)."),
    ] = "error"  # type: ignore[assignment]
    min_frequency: Annotated[
        str | None,
        _table(metavar="N", help=f"Least items (or share) of a category. {by_default('1')}"),
    ] = None
    memory: Memory = None
    cache: Cache = None
    may_encode: bool = True
    may_keep_missing: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_frequency is not None:
            from ranksvm.learners.settings import check_frequency

            with as_usage():
                check_frequency(self.frequency)


@dataclass(frozen=True)
class RankingOptions(DataOptions):
    """How data are read for a model, or for scores."""

    zero_based: BaseOfModel = None


@dataclass(frozen=True)
class EvaluationOptions(RankingOptions):
    """How data are read for an evaluation."""

    memory: Memory = None
    cache: Cache = None


@dataclass(frozen=True)
class LookOptions(DataOptions):
    """How data are read to be described."""

    features: Features = None
    drop: Drop = None


@dataclass(frozen=True)
class ConversionOptions(LookOptions):
    """How data are read to be written in another format."""

    memory: Annotated[
        str | None,
        _input(
            metavar="SIZE",
            help="Convert CSV, TSV or LETOR text to Parquet piece by piece, within this memory, "
            f"such as 4GB. {by_default('all data in memory')}",
        ),
    ] = None


@dataclass(frozen=True)
class ItemOptions(DataOptions):
    """How items are read for a model to score them."""

    missing: FilledMissing = "error"
    memory: Memory = None
    cache: Cache = None
    may_keep_missing: bool = False
    zero_based: BaseOfModel = None


def format_named(path: str) -> Format:
    """Return the format that a file name stands for, compressed or not."""
    *before, last = Path(path).suffixes[-2:] or [""]
    suffix = before[0] if before and last.lower() in COMPRESSED else last
    return TABLES.get(suffix.lower(), "letor")


TYPER_SETTINGS: dict[str, Any] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": "rich",
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
_DEBUG = inspect.Parameter(
    "debug",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool, typer.Option("--debug", help="Show the traceback if there is an error.")
    ],
)


def untyped(parameters: list[Any]) -> list[Any]:
    """Return the parameters of a command; its help does not show types of flags and arguments."""
    for one in parameters:
        if getattr(one, "is_flag", True):  # an argument has no such attribute
            one.display_type_rich = lambda ctx: None
    return parameters


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return untyped(super().get_params(ctx))


def command(
    *, epilog: str, **groups: Callable[..., Any]
) -> Callable[[Callable[..., int | None]], typer.Typer]:
    """Make a function a command, with groups of options for some of its arguments.

    Parameters
    ----------
    epilog : str
        End of the help text.
    **groups
        By argument of the function: a callable that takes options and returns the argument.
    """

    def decorate(function: Callable[..., int | None]) -> typer.Typer:
        shared = {name: _options(group) for name, group in groups.items()}

        def run(**given: Any) -> None:
            code = None
            with guarded(given.pop("debug")):
                for name, group in groups.items():
                    given[name] = group(**{p.name: given.pop(p.name) for p in shared[name]})
                code = function(**given)
            if code:
                raise typer.Exit(code)

        parameters = [*_options(function), *(p for part in shared.values() for p in part), _DEBUG]
        parameters = [_with_help(one) for one in parameters]
        parameters.sort(key=_is_rare)  # their part of the help page is the last one
        run.__doc__ = function.__doc__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        app = typer.Typer(**TYPER_SETTINGS)
        app.command(cls=_Command, epilog=epilog)(run)
        return app

    return decorate


def _with_help(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return an option with a help text for people.

    Types are short, because long ones leave no room for the text: N for a whole number, X for any,
    NAME for one of several names, which the text has.  Every option says its default; a flag is off
    by default.
    """
    kind, info = parameter.annotation.__origin__, copy(parameter.annotation.__metadata__[0])
    kinds = [one for one in (get_args(kind) or (kind,)) if one is not type(None)]
    if get_origin(kind) is Literal:
        kinds = [kind]
    if isinstance(info, typer.models.ArgumentInfo) or bool in kinds:
        return parameter
    names = get_args(kinds[0]) if get_origin(kinds[0]) is Literal else ()
    if info.metavar is None:
        info.metavar = "NAME" if names else {int: "N", float: "X"}.get(kinds[0])
    text, begins, default = (info.help or "").partition(_DEFAULT)
    if not all(_mentions(text, name) for name in names):
        text = f"{text.rstrip(' .')}: {', '.join(names)}. "
    if not begins:
        value = "none" if parameter.default is None else parameter.default
        text, default = f"{text.rstrip()} ", by_default(value).removeprefix(_DEFAULT)
        info.show_default = False
    info.help = f"{text}{_DEFAULT}{default}" if default else text.rstrip()
    return parameter.replace(annotation=Annotated[kind, info])


def _mentions(text: str, name: str) -> bool:
    """Return whether a text has a name as a word of its own."""
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None


def _is_rare(parameter: inspect.Parameter) -> bool:
    """Return whether the help page has an option at the end."""
    return any(
        getattr(info, "rich_help_panel", None) == ADVANCED
        for info in parameter.annotation.__metadata__
    )


def _options(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters that are options or arguments of the command line."""
    return [
        p.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for p in inspect.signature(function, eval_str=True).parameters.values()
        if hasattr(p.annotation, "__metadata__")
    ]
