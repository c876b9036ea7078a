"""The commands: what they take, what they say about themselves.

Nothing heavy is imported here: what a command needs is imported when it runs.
"""

from __future__ import annotations

from typing import Annotated

import typer

from ranksvm._files import naming
from ranksvm.cli.factor_options import FactorOptions, factor_options
from ranksvm.cli.kernel_options import KernelOptions, kernel_options
from ranksvm.cli.options import (
    By,
    Conventions,
    DataOptions,
    SolverOptions,
    by_default,
    command,
    data_options,
    solver_options,
)
from ranksvm.cli.output import STDOUT, Commands, UsageProblem, say
from ranksvm.cli.pair_options import PairOptions, pair_options

__all__ = ["app"]

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Ranking support vector machines: exact, certified, fast.",
    epilog="Example:\n\n[bold]ranksvm train train.txt --valid valid.txt -o model.safetensors[/]\n\n"
    "Data files are LETOR / SVMlight text (plain, .gz, .xz, .bz2, .zst) or tables (.csv, .tsv, "
    ".parquet); [bold]-[/] is stdin or stdout.\n\n"
    "Exit codes: 0 done, 1 unexpected error, 2 wrong usage, 3 unusable input, 4 tolerance not "
    "reached, 5 a package is missing, 130 interrupted.",
)

Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")]
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
    typer.Option("--force", help="Overwrite the output file even if it is not of the same kind."),
]
_DEFINITIONS = "Metric definitions: standard or LETOR's."
ConventionsOption = Annotated[Conventions, typer.Option(help=_DEFINITIONS)]


def _examples(*commands: str) -> str:
    """Return the end of a help text: command lines to copy, each on a line of its own."""
    heading = "Example:" if len(commands) == 1 else "Examples:"
    return "\n\n".join([heading, *(f"[bold]{line}[/]" for line in commands)])


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


@command(
    app,
    epilog=_examples(
        "ranksvm train S1.txt.gz S2.txt.gz --valid S4.txt.gz -o m.safetensors",
        "ranksvm train train.txt --kernel rbf --gamma 2^-5 -o m.safetensors",
        "ranksvm train items.txt --pairs pairs.txt -o m.safetensors",
    ),
    options=solver_options,
    kernel=kernel_options,
    factors=factor_options,
    pairs=pair_options,
    data=data_options,
)
def train(
    files: Annotated[
        list[str], typer.Argument(metavar="TRAIN", help="Data; several files are one set.")
    ],
    valid: Annotated[
        str | None,
        typer.Option(help="Validation data, to evaluate the model on.", show_default=False),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="Model file to write.", show_default=False),
    ] = None,
    force: Force = False,
    C: Annotated[
        float | None,
        typer.Option(
            "--C",
            "-C",
            help=f"Weight of the loss. {by_default(50)}",
            show_default=False,
            rich_help_panel="Model",
        ),
    ] = None,
    svmrank_c: Annotated[
        float | None,
        typer.Option(
            "--svmrank-c",
            help="C as SVM^rank's -c has it; sets --C, --loss hinge and --reduction.",
            show_default=False,
            rich_help_panel="Model",
        ),
    ] = None,
    svmrank_l: Annotated[
        int | None,
        typer.Option(
            "--svmrank-l",
            min=1,
            max=2,
            help=f"SVM^rank's -l (needs --svmrank-c). {by_default(1)}",
            show_default=False,
            rich_help_panel="Model",
        ),
    ] = None,
    metrics: Metrics = None,
    conventions: Annotated[
        Conventions | None,
        typer.Option(help=f"{_DEFINITIONS} {by_default('standard')}", show_default=False),
    ] = None,
    json: Json = False,
    *,
    options: SolverOptions,
    kernel: KernelOptions,
    factors: FactorOptions,
    pairs: PairOptions,
    data: DataOptions,
) -> int | None:
    """Train a model and save it."""
    from ranksvm.cli import learn

    if svmrank_l is not None and svmrank_c is None:
        raise UsageProblem("--svmrank-l needs --svmrank-c")
    svmrank = None if svmrank_c is None else (svmrank_c, svmrank_l or 1)
    wanted = learn.ModelOptions(C, svmrank, options, kernel, factors)
    rules = None if conventions is None else conventions.rules
    return learn.train(files, valid, output, metrics, rules, json, force, wanted, pairs, data)


@command(
    app,
    epilog=_examples(
        "ranksvm tune train.txt --folds 5 --metric ndcg@10 -o m.safetensors",
        "ranksvm tune train.txt --kernel rbf --gamma-grid 2^-7,2^-5 --resume search.jsonl",
    ),
    options=solver_options,
    kernel=kernel_options,
    data=data_options,
)
def tune(
    files: Annotated[
        list[str], typer.Argument(metavar="TRAIN", help="Data; several files are one set.")
    ],
    valid: Annotated[
        str | None,
        typer.Option(help="Data to choose C on, instead of folds.", show_default=False),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            min=2, help=f"Number of folds; no query is split. {by_default(5)}", show_default=False
        ),
    ] = None,
    grid: Annotated[
        str | None,
        typer.Option(
            "--C-grid",
            help="Values (0.1,1,10 or 2^-5,2^0) or a range from:to:how_many, evenly in log C. "
            + by_default("19 powers of 2 around the default C; with --kernel, 10 powers of 4"),
            show_default=False,
        ),
    ] = None,
    gamma_grid: Annotated[
        str | None,
        typer.Option(
            "--gamma-grid",
            help="Values of the kernel's gamma, given as for --C-grid. "
            + by_default("5 powers of 4 around scale"),
            show_default=False,
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Checkpoint file: save finished work and continue from it (needs --kernel).",
            show_default=False,
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            "-m",
            help=f"Metric that decides. {by_default('pairwise_accuracy')}",
            show_default=False,
        ),
    ] = None,
    conventions: ConventionsOption = Conventions.standard,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="Model file to write, refitted at the best values on all of TRAIN.",
            show_default=False,
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
    *,
    options: SolverOptions,
    kernel: KernelOptions,
    data: DataOptions,
) -> int | None:
    """Choose C, and gamma of a kernel, on folds or on a validation file, and refit."""
    from ranksvm.cli import tune as tuning

    grids = tuning.Grids(grid, gamma_grid, resume)
    rules = conventions.rules
    return tuning.tune(
        files, valid, folds, grids, metric, rules, output, json, force, options, kernel, data
    )


@command(
    app,
    epilog=_examples("ranksvm predict model.safetensors test.txt -o scores.txt"),
    data=data_options,
)
def predict(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Model file (ranksvm or SVM^rank).")
    ],
    files: Annotated[list[str], typer.Argument(metavar="DATA", help="Items to score.")],
    output: Annotated[
        str, typer.Option("--output", "-o", help="File to write the scores to.")
    ] = "-",
    force: Force = False,
    trec_run: Annotated[
        bool, typer.Option("--trec-run", help="A TREC run instead of one score a line.")
    ] = False,
    tag: Annotated[str, typer.Option(help="Name of the TREC run.")] = "ranksvm",
    *,
    data: DataOptions,
) -> None:
    """Score items: one number a line, in the order of the data, or a TREC run."""
    from ranksvm.cli import judge

    judge.predict(model, files, output, trec_run, tag, force, data)


@command(
    app,
    epilog=_examples("ranksvm evaluate test.txt --model m.safetensors -m ndcg@10 -m map"),
    data=data_options,
)
def evaluate(
    files: Annotated[
        list[str], typer.Argument(metavar="DATA", help="Labels; with --run, TREC qrels.")
    ],
    scores: Annotated[
        str | None, typer.Option(help="File of scores, one a line.", show_default=False)
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Model to score with.", show_default=False)
    ] = None,
    run: Annotated[
        str | None, typer.Option(help="TREC run; DATA is then a qrels file.", show_default=False)
    ] = None,
    metrics: Metrics = None,
    conventions: ConventionsOption = Conventions.standard,
    per_query: Annotated[bool, typer.Option("--per-query", help="One line a query.")] = False,
    json: Json = False,
    *,
    data: DataOptions,
) -> None:
    """Judge a ranking by its labels."""
    from ranksvm.cli import judge

    judge.evaluate(files, scores, model, run, metrics, conventions.rules, per_query, json, data)


@command(
    app,
    epilog=_examples("ranksvm compare test.txt bm25.txt model.safetensors -m ndcg@10"),
    data=data_options,
)
def compare(
    file: Annotated[str, typer.Argument(metavar="DATA", help="Labels.")],
    rankings: Annotated[
        list[str],
        typer.Argument(metavar="RANKING", help="Two or more files of scores, or models."),
    ],
    metrics: Metrics = None,
    conventions: ConventionsOption = Conventions.standard,
    permutations: Annotated[
        int, typer.Option(min=1, help="Number of random permutations of the test.")
    ] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    json: Json = False,
    *,
    data: DataOptions,
) -> None:
    """Tell whether one ranking is really better: paired tests over queries."""
    from ranksvm.cli import judge

    judge.compare(file, rankings, metrics, conventions.rules, permutations, seed, json, data)


@command(
    app,
    epilog=_examples(
        "ranksvm explain m.safetensors test.txt 3 7",
        "ranksvm explain m.safetensors test.txt D12 D40 --by docid --qid 5",
    ),
    data=data_options,
)
def explain(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Model file (ranksvm or SVM^rank).")
    ],
    file: Annotated[str, typer.Argument(metavar="DATA", help="Where the two items are.")],
    i: Annotated[str, typer.Argument(metavar="I", help="One item: its number, from 1.")],
    j: Annotated[str, typer.Argument(metavar="J", help="The other.")],
    top: Annotated[int, typer.Option(min=0, help="Largest parts to show.")] = 10,
    by: Annotated[By, typer.Option(help="What I and J are: numbers or document ids.")] = By.row,
    qid: Annotated[
        str | None,
        typer.Option(help="Query of the documents, if several have both.", show_default=False),
    ] = None,
    json: Json = False,
    *,
    data: DataOptions,
) -> None:
    """Show what puts one item above another: bars to the right pull I up, to the left J."""
    from ranksvm.cli import explain as explaining

    explaining.explain(model, file, i, j, top, by, qid, json, data)


@command(
    app,
    epilog=_examples("ranksvm info train.txt", "ranksvm info m.safetensors"),
    data=data_options,
)
def info(
    file: Annotated[str, typer.Argument(metavar="FILE|MODEL", help="Data, or a model.")],
    top: Annotated[int, typer.Option(min=0, help="Largest weights of a model to show.")] = 10,
    json: Json = False,
    *,
    data: DataOptions,
) -> None:
    """Show what is in a data file or a model."""
    from ranksvm.cli import files

    files.info(file, top, json, data)


@command(
    app,
    epilog=_examples(
        "ranksvm convert train.csv train.txt.gz", "ranksvm convert model.dat model.safetensors"
    ),
    data=data_options,
)
def convert(
    source: Annotated[str, typer.Argument(metavar="FROM", help="Data, or a model.")],
    target: Annotated[
        str,
        typer.Argument(
            metavar="TO", help="Output file; the suffix sets the format (.dat: SVM^rank's model)."
        ),
    ],
    force: Force = False,
    *,
    data: DataOptions,
) -> None:
    """Convert between LETOR text and tables, or between model files."""
    from ranksvm.cli import files

    files.convert(source, target, force, data)


@command(app, epilog=_examples("ranksvm demo --queries 300"))
def demo(
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    queries: Annotated[
        int, typer.Option(min=30, help="Number of queries of the LETOR-like set.")
    ] = 600,
) -> int | None:
    """Train on two small sets and show what was learned."""
    from ranksvm import demo as demonstration

    with naming(STDOUT):
        return demonstration.main(["--seed", str(seed), "--queries", str(queries)])
