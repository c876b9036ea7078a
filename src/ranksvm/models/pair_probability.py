"""The probability that one item is better than another, from the difference of their scores.

    P(A is better than B) = 1 / (1 + exp(-slope (s_A - s_B)))

A model has the fact ``pair_probability``: a mapping with the slope, or with the reason why there is
none.  :mod:`ranksvm.learners.calibration` finds the slope.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ranksvm._vectors import Array

FACT = "pair_probability"


def probability(slope: float, difference: Array) -> Array:
    """Return the probabilities for differences of scores; infinite ones give 0 or 1."""
    with np.errstate(over="ignore"):
        found: Array = 1.0 / (1.0 + np.exp(-slope * difference))
    return found


def log_loss(found: Array, weight: Array | None = None) -> float:
    """Return the weighted mean of -log of the probabilities that the better items have."""
    with np.errstate(divide="ignore"):
        losses = -np.log(found)
    return float(np.average(losses, weights=weight))


def slope_in(facts: Mapping[str, Any]) -> float:
    """Return the slope; raise a ValueError that says why there is none, and what to do."""
    known = facts.get(FACT)
    if known is None:
        if "explicit_pairs" in facts:
            why = "it was not calibrated"
        else:
            why = "it was fitted to labels, which do not say how often people agree with them"
    elif "slope" in known:
        return float(known["slope"])
    else:
        why = known["reason"]
    raise ValueError(f"this model knows no probabilities of pairs: {why}. {_remedy(str(why))}")


def check_fact(known: Any) -> None:
    """Raise a ValueError unless a fact is valid."""
    if not isinstance(known, Mapping) or ("slope" in known) == ("reason" in known):
        raise ValueError(
            f"{FACT} in the facts must have either a slope or a reason; got {reprlib.repr(known)}"
        )
    if "reason" in known:
        if not isinstance(known["reason"], str):
            raise ValueError(
                f"the reason of {FACT} in the facts must be a string; got "
                f"{reprlib.repr(known['reason'])}"
            )
        return
    slope = known["slope"]
    if not isinstance(slope, float) or not (math.isfinite(slope) and slope >= 0.0):
        raise ValueError(
            f"the slope of {FACT} in the facts must be a finite number >= 0; got "
            f"{reprlib.repr(slope)}"
        )


def _remedy(why: str) -> str:
    if "calibrate=False" in why:
        return "Fit it again with calibrate=True."
    if "group" in why:
        return "Give it more pairs of other items, or groups that are smaller."
    return "Fit it to pairs: fit_pairs(X, better, worse), or fit_pairs(chosen=A, rejected=B)."
