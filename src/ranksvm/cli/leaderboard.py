"""Candidates of a search as rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Columns; the metric and the time follow.
CANDIDATE = ("model", "pair weights", "gamma", "C")


def candidate_row(row: Mapping[str, Any]) -> list[Any]:
    """Return the cells of a candidate, given its row of the leaderboard."""
    parts = [row["kernel"], row["scaling"] or "not scaled", *row["query_features"]]
    return [
        ", ".join(parts),
        row["pair_weight"],
        "" if row["gamma"] is None else f"{row['gamma']:.3g}",
        f"{row['C']:.4g}",
        row["score"],
        f"{row['seconds']:.2f} s",
    ]
