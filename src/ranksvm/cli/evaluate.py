"""The command evaluate: metrics of a ranking, against the labels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import numpy as np
import typer

from ranksvm._vectors import Array
from ranksvm.cli.columns import score_items
from ranksvm.cli.inputs import (
    only_one_stdin,
    read_data,
    read_scores,
    read_with_model,
    without_missing,
)
from ranksvm.cli.options import (
    Conventions,
    ConventionsOption,
    EvaluationOptions,
    Json,
    Metrics,
    command,
    examples,
)
from ranksvm.cli.output import UsageProblem, as_usage, show_json, show_table

_file = partial(typer.Option, metavar="FILE")


def check_metrics(metrics: Sequence[str] | None) -> None:
    """Check the names of metrics before the work."""
    if metrics:
        from ranksvm.metrics.registry import parse_metric

        with as_usage():
            for name in metrics:
                parse_metric(name)


def mean_metrics(
    y: Array, scores: Array, qid: Any, metrics: Sequence[str] | None, conventions: Conventions
) -> tuple[dict[str, float | None], dict[str, int]]:
    """Return the metrics of a ranking, and over how many queries each is a mean.

    A default metric that no query defines is None; one that was asked for is an error.
    """
    from ranksvm.metrics.evaluate import evaluate_queries
    from ranksvm.metrics.registry import parse_metric

    columns = evaluate_queries(y, scores, qid, metrics or None, conventions=conventions).columns
    counts = {name: int((~np.isnan(column)).sum()) for name, column in columns.items()}
    values = {
        name: parse_metric(name).mean(column) if metrics or counts[name] else None
        for name, column in columns.items()
    }
    return values, counts


@command(
    epilog=examples("ranksvm evaluate test.txt --model m.safetensors -m ndcg@10 -m map"),
    data=EvaluationOptions,
)
def app(
    files: Annotated[
        list[str], typer.Argument(metavar="DATA", help="Labeled data; with --run, TREC qrels.")
    ],
    scores: Annotated[str | None, _file(help="File of scores, one per line.")] = None,
    model: Annotated[str | None, _file(help="Model to score the items with.")] = None,
    run: Annotated[str | None, _file(help="TREC run; DATA is then a qrels file.")] = None,
    metrics: Metrics = None,
    conventions: ConventionsOption = "standard",
    per_query: Annotated[
        bool, typer.Option("--per-query", help="Print one line per query.")
    ] = False,
    json: Json = False,
    *,
    data: EvaluationOptions,
) -> None:
    """Evaluate a ranking against the labels."""
    if sum(given is not None for given in (scores, model, run)) != 1:
        raise UsageProblem("give exactly one of --scores, --model or --run")
    only_one_stdin(*files, scores, model, run)
    check_metrics(metrics)
    y: Array
    qid: Any
    if run is not None:
        from ranksvm.data.trec import read_qrels, read_run
        from ranksvm.data.trec_join import join

        if data != EvaluationOptions(jobs=data.jobs, max_line_bytes=data.max_line_bytes):
            raise UsageProblem("--run reads TREC files, and options about other data do not apply")
        if len(files) != 1:
            raise UsageProblem("--run needs exactly one qrels file")
        qrels = read_qrels(files[0], **data.limits)
        y, values, qid, _ = join(qrels, read_run(run, **data.limits))
    elif model is not None:
        ranker, items = read_with_model(model, files, without_missing(data), labels=True)
        y, qid, values = items.truth, items.qid, score_items(ranker, items, data.jobs)
    else:
        items = read_data(files, data, features=())  # only labels and ids matter
        y, qid = items.truth, items.qid
        values = read_scores(str(scores), items.n_items, **data.limits)
    if per_query:
        from ranksvm.metrics.evaluate import evaluate_queries

        table = evaluate_queries(y, values, qid, metrics or None, conventions=conventions)
        if json:
            show_json({"qid": table.ids, "metrics": table.columns, "conventions": conventions})
        else:
            rows = [[str(row.pop("qid")), *row.values()] for row in table.rows()]
            show_table(["qid", *table.columns], rows, exact=True)
        return
    means, counts = mean_metrics(y, values, qid, metrics, conventions)
    if json:
        show_json(
            {
                "metrics": means,
                "counted": counts,
                "conventions": conventions,
                "items": len(y),
                "queries": 1 if qid is None else len(np.unique(qid)),
            }
        )
    else:
        rows = [[name, value, counts[name]] for name, value in means.items()]
        show_table(["metric", "value", "queries"], rows)
