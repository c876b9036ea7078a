"""The commands about files: info, convert."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from ranksvm.cli.inputs import Items, Opened, look_at, read_any_model, read_items
from ranksvm.cli.options import COMPRESSED, DataOptions, Format, Missing, format_named
from ranksvm.cli.output import UsageProblem, note, number, show_json, show_table
from ranksvm.cli.write import (
    DATA_FILES,
    MODEL_FILE,
    check_output,
    is_stdout,
    open_output,
    write_record,
)
from ranksvm.model_io import ModelRecord
from ranksvm.training.kernel_record import KERNEL_KINDS

__all__ = ["convert", "info"]

# Distinct labels that are counted one by one.
_MOST_LABELS = 10
# Models that have a weight for every feature.
WEIGHT_KINDS = ("linear", "factorized")


def info(file: str, top: int, json: bool, data: DataOptions) -> None:
    """Show a data file or a model."""
    opened = look_at(file)
    found = _about_model(opened, top) if opened.is_model else _about_data(opened, data)
    if json:
        show_json(found)
        return
    rows = [[name.replace("_", " "), _shown(value)] for name, value in found.items()]
    show_table(["", file], [row for row in rows if row[1] is not None])


def _shown(value: Any) -> str | None:
    """One cell; mappings become lists of ``key: value``."""
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_shown(part)}" for key, part in value.items())
    if isinstance(value, list):
        return " ".join(str(_shown(part)) for part in value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return f"{value:,.0f}"
    return None if value is None else number(value)


def _about_data(opened: Opened, data: DataOptions) -> dict[str, Any]:
    items = read_items([opened.path], data, labels=False, comments=True, file=opened.file)
    groups = items.groups
    X = items.X
    sparse = hasattr(X, "indptr")
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
        "document_ids": items.documents() is not None,
    }


def _about_labels(items: Items) -> dict[str, Any]:
    if items.y is None:
        return {"labels": None}
    from ranksvm.backends.native import NativeBackend
    from ranksvm.pairs.order import PairOrder

    values, counts = np.unique(items.y, return_counts=True)
    groups = items.groups
    pairs = NativeBackend(PairOrder(items.y, groups)).pairs
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
    record = read_any_model(opened)
    objective, gap = record.facts.get("objective"), record.facts.get("gap")
    about = {
        "kind": f"{record.kind} model",
        "features": record.n_features,
        **ABOUT[record.kind](record),
        "objective": objective,
        "gap": gap,
        "relative_gap": (
            gap / objective
            if isinstance(objective, float) and isinstance(gap, float) and objective > 0.0
            else None
        ),
    }
    return {
        **about,
        **{
            name: value
            for name, value in record.facts.items()
            if name not in about and name != "n_features"
        },
        "parameters": dict(record.params),
        **(_largest_weights(record, top) if record.kind in WEIGHT_KINDS else {}),
    }


def _about_linear(record: ModelRecord) -> dict[str, Any]:
    return {"features_used": int(np.count_nonzero(record.arrays["coef"]))}


def _about_factorized(record: ModelRecord) -> dict[str, Any]:
    n_items, n_factors = record.arrays["factors"].shape
    return {**_about_linear(record), "factors": n_factors, "items_with_factors": n_items}


def _about_kernel(record: ModelRecord) -> dict[str, Any]:
    kernel = record.params.get("kernel")
    what = "support_items" if "support" in record.arrays else "components"
    return {
        "kernel": kernel,
        "gamma": None if kernel == "linear" else record.facts.get("gamma"),
        "approximation": record.params.get("approximation"),
        what: int(record.arrays["coef"].size),
    }


ABOUT: dict[str, Callable[[ModelRecord], dict[str, Any]]] = {
    "linear": _about_linear,
    "factorized": _about_factorized,
    **dict.fromkeys(KERNEL_KINDS, _about_kernel),
}


def _largest_weights(record: ModelRecord, top: int) -> dict[str, Any]:
    coef = record.arrays["coef"]
    first = 0 if record.facts.get("zero_based") is True else 1
    names = record.feature_names or [str(j + first) for j in range(len(coef))]
    largest = np.argsort(-np.abs(coef), kind="stable")[: max(0, top)]
    return {
        "largest_weights": {names[j]: float(coef[j]) for j in largest if coef[j] != 0.0},
    }


def convert(source: str, target: str, force: bool, data: DataOptions) -> None:
    """Write what was read in another format."""
    opened = look_at(source)
    if opened.is_model:
        check_output(target, [source], MODEL_FILE, force=force)
        write_record(target, read_any_model(opened))
        return
    if Path(target).suffix.lower() == ".safetensors":
        raise UsageProblem(f"{source} holds data, and {target} is a name for a model")
    form = format_named(target)
    if form is not Format.letor and Path(target).suffix.lower() in COMPRESSED:
        raise UsageProblem(
            f"{target}: tables are not written compressed; Parquet is smaller than CSV by itself"
        )
    check_output(target, [source], DATA_FILES[form], force=force)
    items = read_items([source], data, comments=True, file=opened.file)
    if form is Format.letor:
        _to_letor(items, target, data)
    else:
        if items.comments is not None and items.documents() is None:
            note("comments that name no document (docid = ...) have no place in a table")
        from ranksvm.cli.tables import write_table

        write_table(items, target, form)


def _to_letor(items: Items, target: str, data: DataOptions) -> None:
    from ranksvm.data.svmlight import save_letor

    comments: Any = items.comments
    documents = items.documents()
    if comments is None and documents is not None:
        comments = [None if docid is None else f"docid = {docid}" for docid in documents]
    with open_output(target) if is_stdout(target) else nullcontext(target) as place:
        save_letor(
            place,
            items.X,
            items.labels,
            items.qid,
            comments=comments,
            zero_based=bool(data.zero_based),
            missing="NULL" if data.missing is Missing.nan else "error",
        )
