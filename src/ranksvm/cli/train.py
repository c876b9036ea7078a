"""The command train: train a model on labels or pairs of items, and save it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from typing import Annotated, Any

import numpy as np
import typer

from ranksvm._checks import check_positive
from ranksvm._contents import MODEL
from ranksvm._messages import Param
from ranksvm._text import counted, printable, progress
from ranksvm._threads import resolve_n_jobs
from ranksvm._vectors import Array
from ranksvm.cli.columns import read_held_out, score_items, show_shards
from ranksvm.cli.evaluate import check_metrics, mean_metrics
from ranksvm.cli.inputs import check_features, only_one_stdin
from ranksvm.cli.model_options import ModelOptions, chooser, flag_of, model_options
from ranksvm.cli.options import (
    ADVANCED,
    DEFINITIONS,
    Conventions,
    DataOptions,
    Force,
    Json,
    Metrics,
    TrainingOptions,
    by_default,
    command,
    examples,
)
from ranksvm.cli.output import (
    COMMAND_LINE,
    NOT_CONVERGED,
    UsageProblem,
    as_usage,
    note,
    number,
    say,
    show_json,
    warn,
)
from ranksvm.cli.pair_options import PairOptions, pairs_across_queries, read_with_pairs
from ranksvm.cli.write import (
    check_output,
    is_regular,
    is_same,
    is_stdout,
    is_svmrank,
    save_model,
)
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners import learner_of, make_problem
from ranksvm.learners.calibration import with_probability
from ranksvm.learners.fit import Fit
from ranksvm.learners.linear_model import LinearModel
from ranksvm.learners.problem import RankProblem
from ranksvm.learners.resume import FitState
from ranksvm.learners.settings import REDUCTIONS, WITH_ROUNDS, Settings
from ranksvm.learners.views import with_view
from ranksvm.models.model import Model
from ranksvm.solvers.base import Callback, TraceRow


@command(
    epilog=examples(
        "ranksvm train S1.txt.gz S2.txt.gz --valid S4.txt.gz -o m.safetensors",
        "ranksvm train items.txt --pairs pairs.txt -o m.safetensors",
    ),
    chosen=model_options(),
    explicit=PairOptions,
    data=TrainingOptions,
)
def app(
    files: Annotated[
        list[str],
        typer.Argument(metavar="TRAIN", help="Training data; several files are one set."),
    ],
    valid: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Validation data, to evaluate the model on."),
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Model file to write.")
    ] = None,
    force: Force = False,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Checkpoint (.npz) to save to and continue from.",
            rich_help_panel=ADVANCED,
        ),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="HOST",
            help="Dask cluster to train on: its address, or local:N.",
            rich_help_panel=ADVANCED,
        ),
    ] = None,
    svmrank_c: Annotated[
        float | None,
        typer.Option(
            "--svmrank-c",
            help="SVM^rank's -c; sets --C, --loss, --reduction.",
            rich_help_panel=ADVANCED,
        ),
    ] = None,
    svmrank_l: Annotated[
        int | None,
        typer.Option(
            "--svmrank-l",
            help=f"SVM^rank's -l, 1 or 2; needs --svmrank-c. {by_default(1)}",
            rich_help_panel=ADVANCED,
        ),
    ] = None,
    metrics: Metrics = None,
    conventions: Annotated[
        Conventions | None,
        typer.Option(help=f"{DEFINITIONS} {by_default('standard')}", rich_help_panel=ADVANCED),
    ] = None,
    json: Json = False,
    *,
    chosen: ModelOptions,
    explicit: PairOptions,
    data: DataOptions,
) -> int | None:
    """Train a model; -o saves it."""
    if svmrank_l is not None and svmrank_c is None:
        raise UsageProblem("--svmrank-l needs --svmrank-c")
    if svmrank_l not in (None, 1, 2):
        raise UsageProblem(f"--svmrank-l must be 1 or 2; got {svmrank_l}")
    if (metrics or conventions) and valid is None:
        raise UsageProblem("--metric and --conventions need --valid")
    settings, options = with_memory(with_tables(chosen.settings, data), data)
    learner = learner_of(settings)
    stopper = learner.early_stopping if learner.early_stopping in chosen.given else None
    inputs = [*files, valid, explicit.pairs]
    check_outputs(output, inputs, json, force, settings)
    if resume is not None:
        check_resume(resume, inputs, output)
        if learner.search is None:  # fits of this kind cannot start anywhere
            raise UsageProblem(f"--resume cannot be combined with {chooser(learner)}")
    check_metrics(metrics)
    if stopper is not None and valid is None:
        raise UsageProblem(f"{flag_of(stopper)} needs --valid")
    if explicit.pairs is not None and not learner.uses_pairs:
        raise UsageProblem(f"{chooser(learner)} cannot be combined with --pairs")
    if svmrank_c is not None:
        settings = _hinge_for_svmrank(svmrank_c, chosen, explicit)

    with ExitStack() as stack:
        items = _read_training(files, explicit, options, settings, dask, stack)
        check_features(items)
        if svmrank_c is not None:
            from ranksvm.export.svmrank import from_svmrank_c

            C, reduction = from_svmrank_c(svmrank_c, items.groups, items.y, loss=svmrank_l or 1)
            settings = replace(settings, C=C, reduction=reduction)
        held_out, decides, solving = None, None, {}
        rules = conventions or "standard"
        if valid is not None:
            held_out = read_held_out(valid, items, options, settings.view)
            # What cannot be evaluated is an error before the work.
            mean_metrics(held_out.truth, np.zeros(held_out.n_items), held_out.qid, metrics, rules)
            if stopper is not None:
                from ranksvm.metrics.evaluate import default_metrics

                decides = (metrics or default_metrics(held_out.truth))[0]
                threads = resolve_n_jobs(options.jobs)
                seen = with_view(held_out, settings.view, n_threads=threads)
                solving["validate"] = _validation(seen, decides, rules)

        # Solvers import this when they start, which takes longer than a small fit.
        import scipy.linalg  # noqa: F401

        began = time.perf_counter()
        state = None if resume is None else FitState.of(resume, items, settings)
        fit, model = fit_data(
            items, settings, options.jobs, state=state, calibrate=output is not None, **solving
        )
        seconds = time.perf_counter() - began
        if output is not None:
            save_model(output, model)
        if state is not None:
            state.finish(fit)
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
                "pairs_across_queries": pairs_across_queries(items),
                "labels": items.y is not None,
            },
            "settings": asdict(settings),
            **model.describe(),
            "constant_features": model.facts.get("constant_features", 0),
            **fit.report(),
            "objective": fit.objective,
            "gap": fit.gap,
            "relative_gap": fit.relative_gap,
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
            _show_training(report, learner.summary(report), to_stderr=is_stdout(output))
        return finish(fit)


def fit_data(
    data: RankingData,
    settings: Settings,
    jobs: int | None,
    *,
    state: FitState | None = None,
    calibrate: bool = False,
    **options: Any,
) -> tuple[Fit, Model]:
    """Fit a model, with a bar that shows the gap; ``options`` go to ``solve``.

    ``calibrate``: whether a model of explicit pairs shall know probabilities.
    """
    if state is not None and state.n_iter:
        note(f"{state.path}: continuing after {counted(state.n_iter, 'iteration')}")
    with training_bar(data) as callback:
        problem = make_problem(data, settings, n_threads=resolve_n_jobs(jobs))
        if state is not None:
            fit = state.solve(problem, callback, **options)
        else:
            fit = problem.solve(callback=callback, **options)
        model = problem.model(fit)
        if calibrate and data.preferences is not None and isinstance(problem, RankProblem):
            model = with_probability(model, data, problem, fit, calibrate=True)
    return fit, model


@contextmanager
def training_bar(data: RankingData) -> Iterator[Callback]:
    """Show the gap of a fit while it runs; yields the callback for the fit.

    With data in shards, the bar shows the current pass over the shards.
    """
    text = "first pass"
    with progress("training") as advance:

        def after_iteration(row: TraceRow, _: Array) -> None:
            nonlocal text
            where = f"round {row.round}, " if row.round else ""
            text = f"{where}iteration {row.iteration}, gap {row.gap:.1e}"
            advance(row.iteration, None, text)

        show_shards(data.X, lambda done, total, shard: advance(done, total, f"{text}, {shard}"))
        yield after_iteration


def with_memory(settings: Settings, options: DataOptions) -> tuple[Settings, DataOptions]:
    """Apply --memory: the data is read in pieces, or the kernel matrix is limited."""
    if options.memory is None:
        return settings, options
    if hasattr(settings, "memory_budget"):
        settings = replace(settings, memory_budget=options.memory)  # type: ignore[call-arg]
    elif not settings.works_in_shards:
        what = chooser(learner_of(settings), settings)
        raise UsageProblem(f"--memory cannot be combined with {what}")
    if settings.works_in_shards:
        return settings, options
    if options.cache is not None:
        what = chooser(learner_of(settings), settings)
        raise UsageProblem(f"--cache cannot be combined with {what}, which reads all data at once")
    return settings, replace(options, memory=None)


def with_tables(settings: Settings, options: DataOptions) -> Settings:
    """Return settings that say what becomes of the columns of a table."""
    missing = "impute" if options.imputes else "error"
    return replace(settings, missing=missing, min_frequency=options.frequency)


def finish(fit: Fit) -> int | None:
    """Warn if the fit ended before its tolerance; return the exit code for that."""
    if fit.shortfall is None:
        return None
    warn(fit.shortfall)
    return NOT_CONVERGED


def _hinge_for_svmrank(c: float, chosen: ModelOptions, explicit: PairOptions) -> Settings:
    """Check what goes with --svmrank-c, and set the loss."""
    settings = chosen.settings
    if not settings.is_linear_svm:
        what = chooser(learner_of(settings), settings)
        raise UsageProblem(f"--svmrank-c is for linear models, not for {what}")
    if explicit.pairs is not None:
        raise UsageProblem("--svmrank-c is about labels; with --pairs, give --C")
    if settings.pair_weight != "uniform":
        what = Param("pair_weight", settings.pair_weight).render(COMMAND_LINE)
        raise UsageProblem(
            f"--svmrank-c cannot be combined with {what}: SVM^rank counts all pairs alike. Give --C"
        )
    if chosen.given & {"C", "loss", "reduction"}:
        raise UsageProblem("--svmrank-c sets --C, --loss and --reduction; give no others")
    with as_usage():
        check_positive("svmrank_c", c)
        # SVM^rank takes features as they are.
        scaling = settings.scaling if "scaling" in chosen.given else None
        return replace(settings, loss="hinge", scaling=scaling)


def _read_training(
    files: Sequence[str],
    explicit: PairOptions,
    options: DataOptions,
    settings: Settings,
    dask: str | None,
    stack: ExitStack,
) -> RankingData:
    """Read the items, and the pairs if there are any.

    With ``dask``, the items are read by the workers of a cluster, which ``stack`` closes.
    """
    if explicit.pairs is not None and dask is not None:
        raise UsageProblem("--pairs cannot be combined with --dask: pairs name rows in memory")
    if dask is not None:
        if options.memory is not None:
            raise UsageProblem("--dask cannot be combined with --memory")
        if not settings.works_in_shards:
            what = chooser(learner_of(settings), settings)
            raise UsageProblem(
                f"--dask cannot be combined with {what}: it is for linear models and kernel "
                "approximations"
            )
        from ranksvm.cli.clusters import open_cluster, read_on_cluster

        return read_on_cluster(stack.enter_context(open_cluster(dask)), files, options)
    return read_with_pairs(files, explicit, options, settings)


def _validation(
    held_out: RankingData, decides: str, conventions: Conventions
) -> Callable[[Array], float]:
    """Return a function from the weights of features to a metric on the validation file."""
    from ranksvm.maps.matrix import MatrixMap
    from ranksvm.metrics.registry import parse_metric

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
    if force and output is None:
        raise UsageProblem("--force needs --output")
    is_linear = issubclass(learner_of(settings).model, LinearModel)
    if output is not None and is_svmrank(output) and (settings.view or not is_linear):
        what = ", without --query-features" if is_linear else ""
        raise UsageProblem(
            f"{output}: SVM^rank's format (.dat) is for linear models{what}; give another name"
        )
    if output is not None and is_svmrank(output) and settings.scaling == "quantile":
        raise UsageProblem(
            f"{output}: SVM^rank's format (.dat) has one weight per feature, which --scaling "
            "quantile is not; choose another scaling, or give another name"
        )
    check_output(output, inputs, MODEL, force=force)
    if json and is_stdout(output):
        raise UsageProblem("the model and --json cannot both go to standard output")


def check_resume(resume: str, inputs: Sequence[str | None], output: str | None) -> None:
    """Check before the work that a checkpoint can be written."""
    if is_stdout(resume) or not is_regular(resume):
        raise UsageProblem(f"--resume needs a file, which the next run can read; got {resume}")
    same = output is not None and os.path.realpath(resume) == os.path.realpath(output)
    if output is not None and (same or is_same(output, resume)):
        raise UsageProblem(f"{output} cannot be both the model and the file of --resume")
    check_output(resume, inputs, called="--resume")


def _scaling_text(report: Mapping[str, Any]) -> str:
    """Say how the features were scaled, and how many have one value only."""
    text = "" if report.get("scaling") is None else f", {report['scaling']} scaling"
    constant = report["constant_features"]
    return text + (f", {counted(constant, 'constant feature')} left out" if constant else "")


def _show_training(report: Mapping[str, Any], summary: str, *, to_stderr: bool) -> None:
    """Print a few lines about a fit; ``summary`` is the line about its kind of model."""
    data, settings = report["data"], report["settings"]
    lines = [
        f"{data['source']}: {counted(data['items'], 'item')}, "
        f"{counted(data['queries'], 'query')}, {counted(data['features'], 'feature')}, "
        f"{_pairs_text(data)}",
        f"{settings['loss'].replace('_', ' ')}, {_reduction_text(settings['reduction'], data)}"
        f"{_weight_text(settings)}, C = {settings['C']:.6g}{_scaling_text(report)}",
        *([summary] if summary else []),
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


def _weight_text(settings: Mapping[str, Any]) -> str:
    """Say what multiplies the weights of pairs, and in how many rounds."""
    name = settings["pair_weight"]
    if name == "uniform":
        return ""
    rounds = settings["n_reweight"] if name in WITH_ROUNDS else 0
    return f" weighted by {name}" + (f", {counted(rounds + 1, 'round')}" if rounds else "")


def _pairs_text(data: Mapping[str, Any]) -> str:
    if not data["labels"]:
        return counted(data["explicit_pairs"], "explicit pair")
    explicit = f", {data['explicit_pairs']:,} of them explicit" if data["explicit_pairs"] else ""
    return counted(data["pairs"], "pair") + explicit


def _reduction_text(reduction: str, data: Mapping[str, Any]) -> str:
    words = REDUCTIONS[reduction]
    if reduction != "query_mean" or not data["pairs_across_queries"]:
        return words
    if data["pairs_across_queries"] == data["pairs"]:  # they form one query
        return REDUCTIONS["mean"]
    return f"{words}, of which the pairs across queries are one"
