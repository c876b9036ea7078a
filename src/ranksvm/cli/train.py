"""The command train: train a model on labels or pairs of items, and save it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated, Any

import numpy as np
import typer

from ranksvm._checks import check_positive
from ranksvm._contents import MODEL
from ranksvm._text import counted, printable, progress
from ranksvm._threads import resolve_n_jobs
from ranksvm._vectors import Array
from ranksvm.cli.columns import read_held_out, score_items
from ranksvm.cli.evaluate import check_metrics, default_metrics, mean_metrics
from ranksvm.cli.inputs import (
    check_features,
    documents_of,
    only_one_stdin,
    read_data,
    without_missing,
)
from ranksvm.cli.model_options import Wanted, model_options
from ranksvm.cli.options import (
    DEFINITIONS,
    By,
    Conventions,
    DataOptions,
    Force,
    Json,
    Metrics,
    by_default,
    command,
    examples,
)
from ranksvm.cli.output import (
    NOT_CONVERGED,
    UsageProblem,
    as_usage,
    note,
    number,
    say,
    show_json,
    warn,
)
from ranksvm.cli.write import check_output, is_stdout, is_svmrank, save_model
from ranksvm.data.preferences import count_contradictions
from ranksvm.data.ranking_data import RankingData
from ranksvm.data.sources import name_of
from ranksvm.learners import REDUCTIONS, Fit, Settings, learner_of, make_problem
from ranksvm.models import Model

_pairs = partial(typer.Option, rich_help_panel="Pairs")


@dataclass(frozen=True)
class PairOptions:
    """Explicit pairs: where they are, how they name items, and whether the labels count as well."""

    pairs: Annotated[
        str | None,
        _pairs(
            metavar="FILE",
            help=r"Pairs to learn from instead of labels, one 'better worse \[weight]' per line.",
        ),
    ] = None
    pairs_by: Annotated[
        By | None,
        _pairs(help=f"How pairs name items: by row number or document id. {by_default('row')}"),
    ] = None
    pairs_zero_based: Annotated[
        bool,
        _pairs("--pairs-zero-based", help="Row numbers in --pairs start at 0 instead of 1."),
    ] = False
    with_labels: Annotated[
        bool,
        _pairs(
            "--with-labels", help="Learn from the labels as well; the pairs may contradict them."
        ),
    ] = False

    def __post_init__(self) -> None:
        for name in ("pairs_by", "pairs_zero_based", "with_labels"):
            if getattr(self, name) and self.pairs is None:
                raise UsageProblem(f"--{name.replace('_', '-')} needs --pairs")
        if self.pairs_zero_based and self.pairs_by == "docid":
            raise UsageProblem("--pairs-zero-based cannot be combined with --pairs-by docid")

    @property
    def uses_labels(self) -> bool:
        """Whether items are compared by their labels."""
        return self.pairs is None or self.with_labels


@command(
    epilog=examples(
        "ranksvm train S1.txt.gz S2.txt.gz --valid S4.txt.gz -o m.safetensors",
        "ranksvm train train.txt --kernel rbf --gamma 2^-5 -o m.safetensors",
        "ranksvm train items.txt --pairs pairs.txt -o m.safetensors",
    ),
    wanted=model_options(),
    explicit=PairOptions,
    data=DataOptions,
)
def app(
    files: Annotated[
        list[str],
        typer.Argument(metavar="TRAIN", help="Training data; several files are one set."),
    ],
    valid: Annotated[
        str | None, typer.Option(help="Validation data, to evaluate the model on.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Model file to write.")
    ] = None,
    force: Force = False,
    svmrank_c: Annotated[
        float | None,
        typer.Option(
            "--svmrank-c",
            help="SVM^rank's -c; sets --C, --loss and --reduction to match.",
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
            rich_help_panel="Model",
        ),
    ] = None,
    metrics: Metrics = None,
    conventions: Annotated[
        Conventions | None,
        typer.Option(help=f"{DEFINITIONS} {by_default('standard')}"),
    ] = None,
    json: Json = False,
    *,
    wanted: Wanted,
    explicit: PairOptions,
    data: DataOptions,
) -> int | None:
    """Train a model and save it."""
    if svmrank_l is not None and svmrank_c is None:
        raise UsageProblem("--svmrank-l needs --svmrank-c")
    if (metrics or conventions) and valid is None:
        raise UsageProblem("--metric and --conventions need --valid")
    settings, options = wanted.settings, without_missing(data)
    check_outputs(output, [*files, valid, explicit.pairs], json, force, settings)
    check_metrics(metrics)
    if "patience" in wanted.given and valid is None:
        raise UsageProblem("--patience needs --valid")
    if "n_factors" in wanted.given and explicit.pairs is not None:
        raise UsageProblem("--factors cannot be combined with --pairs")
    if svmrank_c is not None:
        settings = _hinge_for_svmrank(svmrank_c, wanted, explicit)

    items = _read_training(files, explicit, options)
    check_features(items)
    if svmrank_c is not None:
        from ranksvm.export.svmrank import from_svmrank_c

        C, reduction = from_svmrank_c(svmrank_c, items.groups, items.y, loss=svmrank_l or 1)
        settings = replace(settings, C=C, reduction=reduction)
    held_out, decides, solving = None, None, {}
    rules = conventions or "standard"
    if valid is not None:
        held_out = read_held_out(valid, items, options)
        # What cannot be evaluated is an error before the work.
        mean_metrics(held_out.truth, np.zeros(held_out.n_items), held_out.qid, metrics, rules)
        if "patience" in wanted.given:
            decides = (metrics or default_metrics(held_out.truth))[0]
            solving["validate"] = _validation(held_out, decides, rules)

    # Solvers import these when they start, which takes longer than a small fit.
    import scipy.linalg

    if "n_factors" in wanted.given:
        import scipy.optimize  # noqa: F401
    began = time.perf_counter()
    fit, model = fit_data(items, settings, options.jobs, **solving)
    seconds = time.perf_counter() - began
    if output is not None:
        save_model(output, model)
    valid_metrics = None
    if held_out is not None:
        scores = score_items(model, held_out, options.jobs)
        valid_metrics, _ = mean_metrics(held_out.truth, scores, held_out.qid, metrics, rules)
    report = {
        "data": {
            "source": items.origin.name,
            "items": items.n_items,
            "queries": items.groups.n_queries,
            "features": items.n_features,
            "pairs": fit.n_pairs,
            "explicit_pairs": model.facts.get("explicit_pairs", 0),
            "labels": items.y is not None,
        },
        "settings": asdict(settings),
        **model.describe(),
        **fit.report(),
        "objective": fit.objective,
        "gap": fit.gap,
        "relative_gap": fit.gap / fit.objective if fit.objective > 0.0 else 0.0,
        "status": fit.status.name.lower(),
        "early_stopping": decides,
        "iterations": fit.n_iter,
        "products": fit.n_products,
        "seconds": seconds,
        "valid": valid_metrics,
        "model": output,
    }
    if json:
        show_json(report)
    else:
        _show_training(report, learner_of(settings).words(report), to_stderr=is_stdout(output))
    return finish(fit)


def fit_data(
    data: RankingData, settings: Settings, jobs: int | None, **options: Any
) -> tuple[Fit, Model]:
    """Fit a model, with a bar that shows the gap; ``options`` go to ``solve``."""
    with progress("training") as advance:
        problem = make_problem(data, settings, n_threads=resolve_n_jobs(jobs))
        fit: Fit = problem.solve(
            callback=lambda row, _: advance(
                row.iteration, None, f"iteration {row.iteration}, gap {row.gap:.1e}"
            ),
            **options,
        )
    return fit, problem.model(fit)


def finish(fit: Fit) -> int | None:
    """Warn if the fit ended before its tolerance; return the exit code for that."""
    if fit.shortfall is None:
        return None
    warn(fit.shortfall)
    return NOT_CONVERGED


def _hinge_for_svmrank(c: float, wanted: Wanted, explicit: PairOptions) -> Settings:
    """Check what goes with --svmrank-c, and set the loss."""
    settings = wanted.settings
    kernel = getattr(settings, "kernel", None)
    if learner_of(settings).chosen_by is not None and kernel != "linear":
        what = f"--kernel {kernel}" if kernel is not None else "--factors"
        raise UsageProblem(f"--svmrank-c is for linear models, not for {what}")
    if explicit.pairs is not None:
        raise UsageProblem("--svmrank-c is about labels; with --pairs, give --C")
    if wanted.given & {"C", "loss", "reduction"}:
        raise UsageProblem("--svmrank-c sets --C, --loss and --reduction; give no others")
    with as_usage():
        check_positive("--svmrank-c", c)
        return replace(settings, loss="hinge")


def _read_training(
    files: Sequence[str], explicit: PairOptions, options: DataOptions
) -> RankingData:
    """Read the items, and the pairs if there are any; warn if pairs contradict each other."""
    by_document = explicit.pairs_by == "docid"
    data = read_data(files, options, labels=explicit.uses_labels, comments=by_document)
    if explicit.pairs is None:
        return data
    from ranksvm.data.pair_files import read_pairs

    preferences = read_pairs(
        explicit.pairs,
        n_items=data.n_items,
        docids=documents_of(data, "--pairs-by") if by_document else None,
        qid=data.qid,
        y=data.y,
        zero_based=explicit.pairs_zero_based,
        **options.limits,
    )
    source = name_of(explicit.pairs)
    if preferences.weight is not None and not preferences.weight.any():
        raise ValueError(f"{source}: all pairs have weight zero, so there is nothing to learn from")
    n_contradictions = count_contradictions(preferences)
    if n_contradictions:
        warn(f"{source} prefers {counted(n_contradictions, 'pair')} of items both ways; both count")
    return replace(data, y=data.y if explicit.uses_labels else None, preferences=preferences)


def _validation(
    held_out: RankingData, decides: str, conventions: Conventions
) -> Callable[[Array], float]:
    """Return a function from the weights of features to a metric on the validation file."""
    from ranksvm.maps.matrix import MatrixMap
    from ranksvm.metrics import parse_metric

    score_map, metric = MatrixMap(held_out.X), parse_metric(decides)

    def validate(coef: Array) -> float:
        scores = score_map.scores(coef)
        return metric(held_out.truth, scores, held_out.qid, conventions=conventions)

    validate(np.zeros(held_out.n_features))  # what is not defined is an error before the work
    return validate


def check_outputs(
    output: str | None, inputs: Sequence[str | None], json: bool, force: bool, settings: Settings
) -> None:
    """Check before the work where the input comes from and where the model goes."""
    only_one_stdin(*inputs)
    if output is not None and hasattr(settings, "kernel") and is_svmrank(output):
        raise UsageProblem(
            f"{output}: SVM^rank's format (.dat) is for linear models; give another name"
        )
    check_output(output, inputs, MODEL, force=force)
    if json and is_stdout(output):
        raise UsageProblem("the model and --json cannot both go to standard output")


def _show_training(report: Mapping[str, Any], words: str, *, to_stderr: bool) -> None:
    """Print a few lines about a fit; ``words`` is the line about its kind of model."""
    data, settings = report["data"], report["settings"]
    lines = [
        f"{data['source']}: {counted(data['items'], 'item')}, "
        f"{counted(data['queries'], 'query')}, {counted(data['features'], 'feature')}, "
        f"{_pairs_text(data)}",
        f"{settings['loss'].replace('_', ' ')}, {_reduction_text(settings['reduction'], data)}, "
        f"C = {settings['C']:.6g}",
        *([words] if words else []),
        f"objective {report['objective']:.8g}, certified relative gap "
        f"{report['relative_gap']:.1e}, {counted(report['iterations'], 'iteration')}, "
        f"{report['seconds']:.2f} s",
    ]
    if report["valid"]:
        lines.append(
            "validation: "
            + ", ".join(f"{name} {number(value)}" for name, value in report["valid"].items())
        )
    if report["model"] is None:
        lines.append("the model was not saved; -o MODEL saves it")
    elif not to_stderr:
        lines.append(f"model written to {report['model']}")
    for line in lines:
        if to_stderr:
            note(line)
        else:
            say(printable(line))


def _pairs_text(data: Mapping[str, Any]) -> str:
    if not data["labels"]:
        return counted(data["explicit_pairs"], "explicit pair")
    explicit = f", {data['explicit_pairs']:,} of them explicit" if data["explicit_pairs"] else ""
    return counted(data["pairs"], "pair") + explicit


def _reduction_text(reduction: str, data: Mapping[str, Any]) -> str:
    if reduction != "query_mean" or not data["explicit_pairs"]:
        return REDUCTIONS[reduction]
    if not data["labels"]:  # all listed pairs count as one query
        return REDUCTIONS["mean"]
    return f"{REDUCTIONS[reduction]}, of which the explicit pairs are one"
