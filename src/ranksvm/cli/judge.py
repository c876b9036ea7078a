"""The commands that judge: predict, evaluate, compare."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ranksvm._vectors import Array
from ranksvm.cli.inputs import (
    Items,
    base_of,
    look_at,
    only_one_stdin,
    read_any_model,
    read_items,
    read_scores,
    without_missing,
)
from ranksvm.cli.options import DataOptions, Rules
from ranksvm.cli.output import UsageProblem, as_usage, say, show_json, show_table
from ranksvm.cli.scoring import score_items
from ranksvm.cli.write import SCORE_FILE, check_output, open_output

__all__ = ["Judged", "check_metrics", "compare", "default_metrics", "evaluate", "judge", "predict"]

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


def predict(
    model: str,
    files: Sequence[str],
    output: str,
    trec_run: bool,
    tag: str,
    force: bool,
    data: DataOptions,
) -> None:
    """Write scores."""
    only_one_stdin(model, *files)
    check_output(output, [model, *files], SCORE_FILE, force=force)
    data = without_missing(data)
    if trec_run and (not tag or len(tag.split()) != 1):
        raise UsageProblem(f"--tag {tag!r}: a tag is one word")
    record = read_any_model(model)
    items = read_items(
        files,
        data,
        labels=False,
        comments=trec_run,
        features=record.feature_names,
        zero_based=base_of(record),
    )
    scores = score_items(record, items, data.jobs)
    with open_output(output) as file:
        if trec_run:
            _write_trec(file, items, scores, tag)
        else:
            file.write("".join(f"{score!r}\n" for score in scores.tolist()).encode())


def _write_trec(file: Any, items: Items, scores: Array, tag: str) -> None:
    from ranksvm.data.trec import write_run

    names = items.documents() or [None] * len(scores)
    docids = [str(number) if name is None else name for number, name in enumerate(names, 1)]
    qid = items.qid if items.qid is not None else np.zeros(len(scores), dtype=np.int64)
    write_run(file, qid, docids, scores, tag=tag)


def evaluate(
    files: Sequence[str],
    scores: str | None,
    model: str | None,
    run: str | None,
    metrics: Sequence[str] | None,
    conventions: Rules,
    per_query: bool,
    json: bool,
    data: DataOptions,
) -> None:
    """Judge one ranking."""
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
        record = None if model is None else read_any_model(model)
        items = read_items(
            files,
            data,
            features=None if record is None else record.feature_names,
            zero_based=None if record is None else base_of(record),
        )
        y, qid = items.labels, items.qid
        if record is not None:
            values = score_items(record, items, data.jobs)
        else:
            assert scores is not None
            values = read_scores(scores, len(y), **data.limits)
    if per_query:
        _by_query(y, values, qid, metrics, conventions, json)
        return
    found = judge(y, values, qid, metrics, conventions)
    if json:
        queries = 1 if qid is None else len(np.unique(qid))
        show_json(
            {
                "metrics": found.values,
                "counted": found.counted,
                "conventions": conventions,
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


def compare(
    file: str,
    rankings: Sequence[str],
    metrics: Sequence[str] | None,
    conventions: Rules,
    permutations: int,
    seed: int,
    json: bool,
    data: DataOptions,
) -> None:
    """Compare rankings, each with each."""
    if len(rankings) < 2:
        raise UsageProblem("give two or more rankings to compare")
    only_one_stdin(file, *rankings)
    check_metrics(metrics)
    named = _short_names(rankings)
    looked = {name: look_at(path) for name, path in named.items() if path != "-"}
    records = {name: read_any_model(one) for name, one in looked.items() if one.is_model}
    if records:
        data = without_missing(data)
    based = data.zero_based if data.zero_based is not None else base_of(*records.values())
    items = read_items([file], data, zero_based=based)
    y = items.labels
    scores = {
        name: score_items(records[name], items, data.jobs)
        if name in records
        else read_scores(path, len(y), looked[name].file if name in looked else None, **data.limits)
        for name, path in named.items()
    }
    from ranksvm.metrics import compare as compare_rankings

    result = compare_rankings(
        y,
        scores,
        items.qid,
        metrics=tuple(metrics or default_metrics(y)[:1]),
        conventions=conventions,
        n_permutations=permutations,
        random_state=seed,
    )
    if json:
        show_json(result.to_dict())
    else:
        say(str(result))


def _short_names(paths: Sequence[str]) -> dict[str, str]:
    """Files by the last part of their names, as long as these differ."""
    short = [Path(path).name for path in paths]
    if len(set(short)) == len(paths):
        return dict(zip(short, paths, strict=True))
    if len(set(paths)) == len(paths):
        return {path: path for path in paths}
    raise UsageProblem("the same ranking is named twice")
