"""The command evaluate: metrics of a ranking, against the labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from ranksvm._vectors import Array
from ranksvm.cli.columns import score_items
from ranksvm.cli.inputs import (
    base_of,
    labels_of,
    only_one_stdin,
    read_any_model,
    read_data,
    read_scores,
    without_missing,
)
from ranksvm.cli.options import (
    Conventions,
    ConventionsOption,
    DataOptions,
    Json,
    Metrics,
    Rules,
    command,
    data_options,
    examples,
)
from ranksvm.cli.output import UsageProblem, as_usage, show_json, show_table

__all__ = ["Judged", "app", "check_metrics", "default_metrics", "judge"]

# More grades than this are taken for real-valued utilities.
_MOST_GRADES = 32


def default_metrics(y: Array) -> tuple[str, ...]:
    """Metrics that make sense for the labels: of graded ones, or of any real numbers."""
    graded = bool((y >= 0.0).all() and (y < _MOST_GRADES).all() and (y == np.rint(y)).all())
    if graded:
        return ("ndcg@10", "map", "mrr", "pairwise_accuracy")
    return ("pairwise_accuracy", "kendall_tau")


def check_metrics(metrics: Sequence[str] | None) -> None:
    """Names of metrics are looked at before the work."""
    if metrics:
        from ranksvm.metrics import parse_metric

        with as_usage():
            for name in metrics:
                parse_metric(name)


class Judged(NamedTuple):
    """Metrics of a ranking, and over how many queries each is a mean."""

    values: dict[str, float | None]
    counted: dict[str, int]


def judge(
    y: Array, scores: Array, qid: Any, metrics: Sequence[str] | None, conventions: Rules
) -> Judged:
    """Take metrics of a ranking; None for one of the default ones that no query defines."""
    from ranksvm.metrics import evaluate_queries, parse_metric

    names = metrics or default_metrics(y)
    table = evaluate_queries(y, scores, qid, metrics=names, conventions=conventions)
    counted = {name: int((~np.isnan(column)).sum()) for name, column in table.columns.items()}
    values = {
        name: None if not metrics and not counted[name] else parse_metric(name).mean(column)
        for name, column in table.columns.items()
    }
    return Judged(values, counted)


@command(
    epilog=examples("ranksvm evaluate test.txt --model m.safetensors -m ndcg@10 -m map"),
    data=data_options,
)
def app(
    files: Annotated[
        list[str], typer.Argument(metavar="DATA", help="Labeled data; with --run, TREC qrels.")
    ],
    scores: Annotated[
        str | None, typer.Option(help="File of scores, one per line.", show_default=False)
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Model to score the items with.", show_default=False)
    ] = None,
    run: Annotated[
        str | None, typer.Option(help="TREC run; DATA is then a qrels file.", show_default=False)
    ] = None,
    metrics: Metrics = None,
    conventions: ConventionsOption = Conventions.standard,
    per_query: Annotated[
        bool, typer.Option("--per-query", help="Print one line per query.")
    ] = False,
    json: Json = False,
    *,
    data: DataOptions,
) -> None:
    """Evaluate a ranking against the labels."""
    rules = conventions.rules
    if sum(given is not None for given in (scores, model, run)) != 1:
        raise UsageProblem("give one of --scores, --model and --run")
    only_one_stdin(*files, scores, model, run)
    check_metrics(metrics)
    if model is not None:
        data = without_missing(data)
    y: Array
    if run is not None:
        if data != DataOptions(jobs=data.jobs, max_line_bytes=data.max_line_bytes):
            raise UsageProblem("--run reads TREC files, and options about other data do not apply")
        y, values, qid = _joined(files, run, data)
    else:
        found_model = None if model is None else read_any_model(model)
        items = read_data(
            files,
            data,
            features=None if found_model is None else found_model.feature_names,
            zero_based=None if found_model is None else base_of(found_model),
        )
        y, qid = labels_of(items), items.qid
        if found_model is not None:
            values = score_items(found_model, items, data.jobs)
        else:
            assert scores is not None
            values = read_scores(scores, len(y), **data.limits)
    if per_query:
        _by_query(y, values, qid, metrics, rules, json)
        return
    found = judge(y, values, qid, metrics, rules)
    if json:
        queries = 1 if qid is None else len(np.unique(qid))
        show_json(
            {
                "metrics": found.values,
                "counted": found.counted,
                "conventions": rules,
                "items": len(y),
                "queries": queries,
            }
        )
    else:
        rows = [[name, value, found.counted[name]] for name, value in found.values.items()]
        show_table(["metric", "value", "queries"], rows)


def _by_query(
    y: Array, scores: Array, qid: Any, metrics: Sequence[str] | None, conventions: Rules, json: bool
) -> None:
    from ranksvm.metrics import evaluate_queries

    names = tuple(metrics or default_metrics(y))
    table = evaluate_queries(y, scores, qid, metrics=names, conventions=conventions)
    if json:
        show_json({"qid": table.ids, "metrics": table.columns, "conventions": conventions})
        return
    rows = [[str(row.pop("qid")), *row.values()] for row in table.rows()]
    show_table(["qid", *table.columns], rows, exact=True)


def _joined(files: Sequence[str], run: str, data: DataOptions) -> tuple[Array, Array, Any]:
    """Labels, scores and queries of a TREC run under qrels."""
    from ranksvm.data.trec import join, read_qrels, read_run

    if len(files) != 1:
        raise UsageProblem("--run needs exactly one qrels file")
    y, scores, qid, _ = join(read_qrels(files[0], **data.limits), read_run(run, **data.limits))
    return y, scores, qid
