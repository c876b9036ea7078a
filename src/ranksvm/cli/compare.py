"""The command compare: paired tests of rankings over queries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ranksvm.cli.columns import score_items
from ranksvm.cli.evaluate import check_metrics
from ranksvm.cli.inputs import (
    base_of,
    look_at,
    only_one_stdin,
    read_any_model,
    read_data,
    read_scores,
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
from ranksvm.cli.output import UsageProblem, say, show_json


@command(
    epilog=examples("ranksvm compare test.txt bm25.txt model.safetensors -m ndcg@10"),
    data=RankingOptions,
)
def app(
    file: Annotated[str, typer.Argument(metavar="DATA", help="Labeled data.")],
    rankings: Annotated[
        list[str],
        typer.Argument(metavar="RANKING", help="Two or more files of scores, or models."),
    ],
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
    if len(rankings) < 2:
        raise UsageProblem("give two or more rankings to compare")
    only_one_stdin(file, *rankings)
    check_metrics(metrics)
    named = _short_names(rankings)
    looked = {name: look_at(path) for name, path in named.items() if path != "-"}
    models = {name: read_any_model(one) for name, one in looked.items() if one.is_model}
    if models:
        data = without_missing(data)
    based = data.zero_based if data.zero_based is not None else base_of(*models.values())
    items = read_data([file], data, zero_based=based)
    scores = {}
    for name, path in named.items():
        if name in models:
            scores[name] = score_items(models[name], items, data.jobs)
        else:
            source = looked[name].source if name in looked else path
            scores[name] = read_scores(source, items.n_items, **data.limits)
    from ranksvm.metrics.compare import compare as compare_rankings
    from ranksvm.metrics.evaluate import default_metrics

    result = compare_rankings(
        items.truth,
        scores,
        items.qid,
        metrics=tuple(metrics or default_metrics(items.truth)[:1]),
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
