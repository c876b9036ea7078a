"""Options that several commands share, as groups.

A group is a callable, usually a dataclass: its parameters are the options, its result is what the
command gets.  Under

    @command(epilog=..., data=DataOptions)
    def app(file: ..., *, data: DataOptions) -> int | None: ...

the command line has ``file``, the options of ``DataOptions`` and ``--debug``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

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


def by_default(value: object) -> str:
    """Return the end of a help text: a default that typer does not see."""
    return rf"[dim]\[default: {value}][/]"


def examples(*commands: str) -> str:
    """Return the end of a help page: command lines to copy, each on a line of its own."""
    heading = "Example:" if len(commands) == 1 else "Examples:"
    return "\n\n".join([heading, *(f"[bold]{line}[/]" for line in commands)])


Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
_metric = partial(typer.Option, "--metric", "-m", metavar="METRIC")
_METRICS = (
    "Metric: ndcg@10, mean_ndcg, map, p@5, recall@100, mrr, err@10, auc, pairwise_accuracy, "
    "kendall_tau, ndcg_linear@10 (gains y, for real-valued or large labels) ...; repeat for "
    "several. "
)
_BY_LABELS = "{}; for labels that are not grades {}"
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
DEFINITIONS = "Metric definitions: standard or LETOR's."
ConventionsOption = Annotated[Conventions, typer.Option(help=DEFINITIONS)]

_input = partial(typer.Option, rich_help_panel="Input")
_weights = partial(typer.Option, metavar="NAME", rich_help_panel="Weights")
_base = partial(_input, "--zero-based/--one-based")
_BASE = "Whether feature indices start at 0 or 1. "
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
        help="Read Parquet, LETOR or .npy files in pieces, within this memory, such as 4GB. "
        "(For .npy files, --label-column and --qid-column name other .npy files.) With an exact "
        "kernel: memory for kernel values. "
        f"{by_default('all data in memory; 4GB for kernel values')}",
    ),
]
Cache = Annotated[
    str | None,
    _input(
        metavar="DIR",
        help="With --memory: folder for the binary form of LETOR text. "
        f"{by_default('beside the text')}",
    ),
]
# For commands that choose the features of a table.
Features = Annotated[
    list[str] | None,
    _input(
        metavar="NAMES",
        help="Columns of a table to use as features: a,b,price*. "
        f"{by_default('all that have no other meaning')}",
    ),
]
Drop = Annotated[
    list[str] | None, _input(metavar="NAMES", help="Columns of a table to leave out: title,url*.")
]
# For commands that need every value.
FilledMissing = Annotated[Filled, _input(help="How to treat missing feature values.")]


@dataclass(frozen=True)
class DataOptions:
    """How data files are read, and the number of threads; options of every command with data.

    A column that was not named is looked for under its usual name, and may be missing.
    """

    format: Annotated[Format, _input(help="Input format; auto decides by the file name.")] = "auto"
    label_column: Annotated[
        str | None,
        _input(metavar="NAME", help=f"Column of a table with the labels. {by_default('label')}"),
    ] = None
    qid_column: Annotated[
        str | None,
        _input(metavar="NAME", help=f"Column of a table with the query ids. {by_default('qid')}"),
    ] = None
    docid_column: Annotated[
        str | None,
        _input(
            metavar="NAME",
            help=f"Column of a table with the document ids. {by_default('docid')}",
        ),
    ] = None
    ignore_qid: Annotated[
        bool, _input("--ignore-qid", help="Ignore query ids; treat all items as one query.")
    ] = False
    missing: Annotated[
        Missing,
        _input(help="How to treat missing feature values; nan keeps them. Models cannot use them."),
    ] = "error"
    duplicates: Annotated[
        Duplicates, _input(help="How to treat a feature index that occurs twice on a line.")
    ] = "error"
    zero_based: Annotated[bool | None, _base(help=_BASE + by_default("--one-based"))] = None
    max_line_bytes: Annotated[
        int | None,
        _input(min=1, help=f"Maximum length of a line in bytes. {by_default(16777216)}"),
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
        str | None, _weights(help="Column of a table with the weights of the items.")
    ] = None
    query_weight_column: Annotated[
        str | None,
        _weights(
            help="Column of a table with the weights of the queries: the same for all items of one."
        ),
    ] = None
    missing: Annotated[
        Learned,
        _input(
            help="How to treat missing feature values; impute fills in the median of the column, "
            "and adds a feature that says where (tables only)."
        ),
    ] = "error"  # type: ignore[assignment]
    min_frequency: Annotated[
        str | None,
        _input(
            metavar="N",
            help="Values of a category that fewer items have (or a smaller share of them, such as "
            "0.01) get no feature. " + by_default("1"),
        ),
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
        run.__doc__ = function.__doc__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        app = typer.Typer(**TYPER_SETTINGS)
        app.command(cls=_Command, epilog=epilog)(run)
        return app

    return decorate


def _options(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters that are options or arguments of the command line."""
    return [
        p.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for p in inspect.signature(function, eval_str=True).parameters.values()
        if hasattr(p.annotation, "__metadata__")
    ]
