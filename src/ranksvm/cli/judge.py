"""The commands that judge: predict, evaluate, compare."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ranksvm._vectors import Array
from ranksvm.cli.inputs import (
    Items,
    is_model,
    read_any_model,
    read_items,
    read_scores,
    score_items,
)
from ranksvm.cli.options import DataOptions, Rules
from ranksvm.cli.output import UsageProblem, show_json, show_table
from ranksvm.cli.write import open_output

__all__ = ["compare", "default_metrics", "evaluate", "predict"]

# More grades than this are taken for real-valued utilities.
_MOST_GRADES = 32


def default_metrics(y: Array) -> tuple[str, ...]:
    """Metrics that make sense for the labels: of graded ones, or of any real numbers."""
    graded = bool((y >= 0.0).all() and (y < _MOST_GRADES).all() and (y == np.rint(y)).all())
    if graded:
        return ("ndcg@10", "map", "mrr", "pairwise_accuracy")
    return ("pairwise_accuracy", "kendall_tau")


def predict(
    model: str, files: Sequence[str], output: str, trec_run: bool, tag: str, data: DataOptions
) -> None:
    """Write scores."""
    if model == "-" and "-" in files:
        raise UsageProblem("MODEL and DATA cannot both come from stdin")
    record = read_any_model(model)
    items = read_items(files, data, labels=False, comments=trec_run)
    scores = score_items(record, items, data.jobs)
    with open_output(output) as file:
        if trec_run:
            _write_trec(file, items, scores, tag)
        else:
            file.write("".join(f"{score!r}\n" for score in scores.tolist()).encode())


def _write_trec(file: Any, items: Items, scores: Array, tag: str) -> None:
    from ranksvm.data.trec import write_run

    names = items.documents() or [None] * len(scores)
    docids = [str(row) if name is None else name for row, name in enumerate(names)]
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
    y: Array
    if run is not None:
        y, values, qid = _joined(files, run)
    else:
        items = read_items(files, data)
        y, qid = items.labels, items.qid
        if model is not None:
            values = score_items(read_any_model(model), items, data.jobs)
        else:
            assert scores is not None
            values = read_scores(scores, len(y))
    names = tuple(metrics or default_metrics(y))
    if per_query:
        from ranksvm.metrics import evaluate_queries

        table = evaluate_queries(y, values, qid, metrics=names, conventions=conventions)
        columns = {name: table.columns[name] for name in names}
        ids = [str(q) for q in table.ids.tolist()]
        if json:
            show_json({"qid": table.ids, "metrics": columns, "conventions": conventions})
        else:
            rows = [[q, *(float(columns[n][at]) for n in names)] for at, q in enumerate(ids)]
            show_table(["qid", *names], rows, exact=True)
        return
    from ranksvm.metrics import evaluate as judge

    found = judge(y, values, qid, metrics=names, conventions=conventions)
    if json:
        queries = 1 if qid is None else len(np.unique(qid))
        show_json(
            {"metrics": found, "conventions": conventions, "items": len(y), "queries": queries}
        )
    else:
        show_table(["metric", "value"], [[name, float(found[name])] for name in names])


def _joined(files: Sequence[str], run: str) -> tuple[Array, Array, Any]:
    """Labels, scores and queries of a TREC run under qrels."""
    from ranksvm.data.trec import join, read_qrels, read_run

    if len(files) != 1:
        raise UsageProblem("--run goes with one qrels file")
    y, scores, qid, _ = join(read_qrels(files[0]), read_run(run))
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
    items = read_items([file], data)
    y = items.labels
    scores = {
        name: score_items(read_any_model(path), items, data.jobs)
        if is_model(path)
        else read_scores(path, len(y))
        for name, path in _short_names(rankings).items()
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
        print(result)


def _short_names(paths: Sequence[str]) -> dict[str, str]:
    """Files by the last part of their names, as long as these differ."""
    short = [Path(path).name for path in paths]
    if len(set(short)) == len(paths):
        return dict(zip(short, paths, strict=True))
    if len(set(paths)) == len(paths):
        return {path: path for path in paths}
    raise UsageProblem("the same ranking is named twice")
