"""The command compare: paired tests of rankings over queries.

The rankings are scores or models for a file of labeled data, or TREC runs with their judgments.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from ranksvm._text import counted, listed
from ranksvm._vectors import Array
from ranksvm.cli.columns import score_items
from ranksvm.cli.evaluate import check_metrics
from ranksvm.cli.inputs import (
    base_of,
    input_names,
    look_at,
    only_one_stdin,
    read_any_model,
    read_data,
    read_scores,
    remembering,
    without_missing,
)
from ranksvm.cli.options import (
    ComparedMetrics,
    ConventionsOption,
    DataOptions,
    Json,
    RankingOptions,
    command,
    examples,
)
from ranksvm.cli.output import UsageProblem, note, say, show_json
from ranksvm.data.ranking_data import Origin
from ranksvm.data.shard_memory import scoring_memory
from ranksvm.models.model import Model


@command(
    epilog=examples(
        "ranksvm compare test.txt bm25.txt model.safetensors -m ndcg@10",
        "ranksvm compare old.run new.run --qrels qrels.txt -m ndcg_linear@10 -m map",
    ),
    data=RankingOptions,
)
def app(
    file: Annotated[
        str, typer.Argument(metavar="DATA", help="Labeled data; with --qrels, the first run.")
    ],
    rankings: Annotated[
        list[str],
        typer.Argument(
            metavar="RANKING",
            help="Two or more files of scores, or models; with --qrels, the other runs.",
        ),
    ],
    qrels: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="TREC qrels; DATA and RANKING are then TREC runs."),
    ] = None,
    metrics: ComparedMetrics = None,
    conventions: ConventionsOption = "standard",
    permutations: Annotated[
        int, typer.Option(min=1, help="Number of random permutations of the test.")
    ] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    json: Json = False,
    *,
    data: DataOptions,
) -> None:
    """Test whether one ranking is significantly better than another: paired over queries."""
    only_one_stdin(file, *rankings, qrels)
    check_metrics(metrics)
    found = (
        _read_rankings(file, rankings, data)
        if qrels is None
        else _read_runs(qrels, [file, *rankings], data)
    )
    from ranksvm.metrics.compare import compare as compare_rankings
    from ranksvm.metrics.evaluate import default_metrics

    result = compare_rankings(
        found.y,
        found.scores,
        found.qid,
        metrics=tuple(metrics or default_metrics(found.y)[:1]),
        conventions=conventions,
        n_permutations=permutations,
        random_state=seed,
    )
    if json:
        show_json(result.to_dict())
    else:
        say(str(result))


class _Rankings(NamedTuple):
    """Labels and query ids of items, and their scores by name of the ranking."""

    y: Any
    qid: Any
    scores: dict[str, Array]


def _read_rankings(file: str, rankings: Sequence[str], data: DataOptions) -> _Rankings:
    """Read labeled data, and scores or models for them."""
    if len(rankings) < 2:
        raise UsageProblem("give two or more rankings to compare")
    named = _short_names(rankings)
    looked = {name: look_at(path) for name, path in named.items() if path != "-"}
    for name, one in looked.items():
        if one.is_run:
            raise UsageProblem(
                f"{name} is a TREC run: give only runs, and their judgments with --qrels FILE"
            )
    models = {name: read_any_model(one) for name, one in looked.items() if one.is_model}
    if models:
        data = without_missing(data)
    based = data.zero_based if data.zero_based is not None else base_of(*models.values())
    fit = scoring_memory(*(model.view for model in models.values()))
    data = remembering(data, *models.values())
    plain = [model for model in models.values() if model.encoding is None]
    items = read_data([file], data, zero_based=based, fit=fit, features=_shared_names(plain))
    scores = {}
    for name, path in named.items():
        if name in models and models[name].encoding is not None:
            scores[name] = _scores_of_table(models[name], file, data)
        elif name in models:
            scores[name] = score_items(models[name], items, data.jobs)
        else:
            source = looked[name].source if name in looked else path
            scores[name] = read_scores(source, items.n_items, **data.limits)
    return _Rankings(items.truth, items.qid, scores)


def _shared_names(models: Sequence[Model]) -> list[str] | None:
    """Return all columns of a table that models know by name; None if one knows no names."""
    if any(model.feature_names is None for model in models):
        return None
    return list(dict.fromkeys(name for model in models for name in model.feature_names or ()))


def _scores_of_table(model: Model, file: str, data: DataOptions) -> Array:
    """Return the scores of a model with categories, which needs the columns of the table."""
    if file == "-":
        raise UsageProblem("models with categories read the table again, so it must be a file")
    like = Origin.of_facts(model.facts)
    items = read_data([file], data, labels=False, features=input_names(model), like=like)
    return score_items(model, items, data.jobs)


def _read_runs(qrels: str, runs: Sequence[str], data: DataOptions) -> _Rankings:
    """Read TREC runs and their judgments."""
    from ranksvm.data.trec import read_qrels, read_run
    from ranksvm.data.trec_join import join_runs

    if data != RankingOptions(jobs=data.jobs, max_line_bytes=data.max_line_bytes):
        raise UsageProblem("--qrels reads TREC files, and options about other data do not apply")
    named = _short_names(runs)
    looked = {name: look_at(path) for name, path in named.items()}
    for name, one in looked.items():
        if one.is_model:
            raise UsageProblem(
                f"{name} is a model, and --qrels compares TREC runs: write its run with ranksvm "
                "predict --trec-run, or compare it on labeled data, without --qrels"
            )
    judged = read_qrels(qrels, **data.limits)
    joined = join_runs(
        judged, {name: read_run(one.source, **data.limits) for name, one in looked.items()}
    )
    for name, lacking in joined.missing.items():
        if lacking:
            queries = counted(len(lacking), "judged query")
            note(
                f"{name} lacks {queries} that another run has, left out of the comparison: "
                f"{listed(lacking)}"
            )
    return _Rankings(joined.y, joined.qid, joined.scores)


def _short_names(paths: Sequence[str]) -> dict[str, str]:
    """Files by the last part of their names, as long as these differ."""
    short = [Path(path).name for path in paths]
    if len(set(short)) == len(paths):
        return dict(zip(short, paths, strict=True))
    if len(set(paths)) == len(paths):
        return {path: path for path in paths}
    raise UsageProblem("the same ranking is named twice")
