"""The command info: what is in a data file or a model."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer

from ranksvm._sparse import is_sparse
from ranksvm.cli.inputs import Opened, look_at, read_any_model, read_data
from ranksvm.cli.leaderboard import CANDIDATE, candidate_row
from ranksvm.cli.options import DataOptions, Json, LookOptions, command, examples
from ranksvm.cli.output import number, say, show_json, show_table
from ranksvm.data.ranking_data import RankingData
from ranksvm.data.table_encoding import FACT
from ranksvm.models.model import Model

# Distinct labels that are counted one by one.
_MOST_LABELS = 10
# Facts about models that the table gives another name.
_NAMES = {
    "n_iter": "iterations",
    "n_products": "products with X",
    "n_pairs": "pairs",
    "n_items": "items",
    "n_queries": "queries",
    "zero_based": "indices from 0",
}


@command(
    epilog=examples("ranksvm info train.txt", "ranksvm info m.safetensors"),
    data=LookOptions,
)
def app(
    file: Annotated[str, typer.Argument(metavar="FILE|MODEL", help="Data file or model.")],
    top: Annotated[
        int,
        typer.Option(
            min=0, help="Number of largest weights, or best candidates, of a model to show."
        ),
    ] = 10,
    json: Json = False,
    *,
    data: DataOptions,
) -> None:
    """Describe a data file or a model."""
    opened = look_at(file)
    found = _about_model(opened, top) if opened.is_model else _about_data(opened, data)
    if json:
        show_json(found)
        return
    selection = dict(found.get("selection") or {})
    leaderboard = selection.pop("leaderboard", [])
    rows = [
        [_NAMES.get(name, name.replace("_", " ")), _shown(value)]
        for name, value in {**found, "selection": selection or None}.items()
    ]
    show_table(["", file], [row for row in rows if row[1] is not None])
    if leaderboard and top:
        say("")
        show_table(
            [*CANDIDATE, selection["metric"], "time"],
            [candidate_row(row) for row in leaderboard[:top]],
        )


def _shown(value: Any) -> str | None:
    """One cell; mappings become lists of ``key: value``."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_shown(part)}" for key, part in value.items())
    if isinstance(value, list):
        if not value:
            return "none"
        parts = [str(_shown(part)) for part in value]
        return ("; " if any(" " in part for part in parts) else " ").join(parts)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return f"{value:,.0f}"
    return None if value is None else number(value)


def _about_data(opened: Opened, options: DataOptions) -> dict[str, Any]:
    items = read_data([opened.source], options, labels=False, comments=True)
    groups = items.groups
    X = items.X
    sparse = is_sparse(X)
    n_cells = X.shape[0] * X.shape[1]
    values = X.data if sparse else X
    finite = values[np.isfinite(values)]
    some = {"initial": 0.0} if sparse and len(values) < n_cells else {}  # the zeros not stored
    used = np.unique(X.indices).size if sparse else int((X != 0.0).any(axis=0).sum())
    return {
        "kind": "data",
        "items": groups.n_items,
        "queries": None if items.qid is None else groups.n_queries,
        "items_per_query": {
            "smallest": int(groups.sizes.min()),
            "median": float(np.median(groups.sizes)),
            "largest": int(groups.sizes.max()),
        },
        "features": int(X.shape[1]),
        "features_used": int(used),
        "storage": "CSR" if sparse else "dense",
        "density": int(np.count_nonzero(values)) / max(1, n_cells),
        "smallest_value": float(finite.min(**some)) if finite.size or some else None,
        "largest_value": float(finite.max(**some)) if finite.size or some else None,
        "missing_values": int(np.isnan(values).sum()),
        **_about_labels(items),
        "document_ids": items.docids is not None,
    }


def _about_labels(items: RankingData) -> dict[str, Any]:
    if items.y is None:
        return {"labels": None}
    from ranksvm.backends.native import NativeBackend
    from ranksvm.pairs.order import PairOrder

    values, counts = np.unique(items.y, return_counts=True)
    pairs = NativeBackend(PairOrder(items.y, items.groups)).pairs
    labels: dict[str, Any] = (
        {
            repr(int(value) if value == int(value) else float(value)): int(count)
            for value, count in zip(values, counts, strict=True)
        }
        if len(values) <= _MOST_LABELS
        else {
            "distinct": len(values),
            "smallest": float(values[0]),
            "largest": float(values[-1]),
        }
    )
    return {
        "labels": labels,
        "pairs": int(sum(pairs)),
        "queries_without_pairs": int(sum(n == 0 for n in pairs)),
    }


def _about_model(opened: Opened, top: int) -> dict[str, Any]:
    from ranksvm.learners.fit import relative_gap

    model = read_any_model(opened)
    objective, gap = model.facts.get("objective"), model.facts.get("gap")
    about = {
        "kind": f"{model.kind} model",
        "features": model.n_features,
        **({} if model.encoding is None else model.encoding.describe()),
        **model.describe(),
        "objective": objective,
        "gap": gap,
        "relative_gap": (
            relative_gap(objective, gap)
            if isinstance(objective, float) and isinstance(gap, float)
            else None
        ),
    }
    return {
        **about,
        **{
            name: value
            for name, value in model.facts.items()
            if name not in about and name not in ("n_features", FACT)
        },
        "parameters": dict(model.params),
        **_largest_weights(model, top),
    }


def _largest_weights(model: Model, top: int) -> dict[str, Any]:
    coef = model.column_weights
    if coef is None:
        return {}
    first = 0 if model.facts.get("zero_based") is True else 1
    largest = [int(j) for j in np.argsort(-np.abs(coef), kind="stable")[:top] if coef[j] != 0.0]
    found: dict[str, float] = {}
    for j in largest:
        name = model.column_name(j, first)
        if name in found:  # a feature may be called like a feature of the query
            name = f"{name}, column {j + first}"
        found[name] = float(coef[j])
    return {"largest_weights": found}
