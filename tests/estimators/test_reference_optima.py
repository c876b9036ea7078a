"""Known optima on real sets, and defaults that need no tuning.  Skipped where the data is not."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from conftest import load_cadata, load_letor

from ranksvm import LinearRankSVM
from ranksvm.data import RankingData

# (train, test) of each set; of a LETOR set, fold 1.
LETOR = ("MQ2008", "OHSUMED")
SETS = (*LETOR, "cadata")


@cache
def load(directory: Path, name: str) -> tuple[RankingData, RankingData]:
    if name == "cadata":
        return load_cadata(directory)
    return load_letor(directory, name, "123"), load_letor(directory, name, "5")


@pytest.mark.parametrize(("name", "optimum"), [("MQ2008", 29.896913), ("OHSUMED", 322.177717)])
def test_squared_hinge_on_letor(data_directory: Path, name: str, optimum: float) -> None:
    """Squared hinge, sum over pairs, C = 2^-10, as found by LIBLINEAR's RankSVM."""
    data, _ = load(data_directory, name)
    model = LinearRankSVM(2.0**-10, reduction="sum", tol=1e-9, scaling=None).fit(*data)
    assert model.status_ == "converged"
    assert model.objective_ == pytest.approx(optimum, abs=1e-6)
    assert model.objective_ - model.gap_ <= optimum + 1e-6


def test_squared_hinge_on_cadata(data_directory: Path) -> None:
    """The reference optimum is of another permutation: 63949.5, to the spread of samples."""
    data, _ = load(data_directory, "cadata")
    model = LinearRankSVM(2.0**-10, reduction="sum", tol=1e-8, scaling=None).fit(*data)
    assert model.status_ == "converged"
    assert model.objective_ == pytest.approx(63949.5, rel=0.01)


@pytest.mark.parametrize("name", SETS)
def test_newton_and_bundle_agree_on_real_data(data_directory: Path, name: str) -> None:
    data, _ = load(data_directory, name)
    newton, bundle = (
        LinearRankSVM(2.0**-10, reduction="sum", tol=1e-6, solver=solver, scaling=None).fit(*data)
        for solver in ("newton", "bundle")
    )
    assert newton.objective_ - bundle.objective_ <= newton.gap_
    assert bundle.objective_ - newton.objective_ <= bundle.gap_
    assert newton.objective_ == pytest.approx(bundle.objective_, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_defaults_score_nearly_as_well_as_the_best_C(data_directory: Path, name: str) -> None:
    """On held-out data, over a grid from far too small to far too large, in all reductions."""
    train, test = load(data_directory, name)
    default = LinearRankSVM().fit(*train).score(*test)
    scores = {}
    for reduction in ("mean", "query_mean"):
        for exponent in range(-6, 17, 2):
            model = LinearRankSVM(2.0**exponent, reduction=reduction, tol=1e-3)
            scores[reduction, exponent] = model.fit(*train).score(*test)
    best = max(scores.values())
    assert default >= 0.985 * best, scores
    assert min(scores.values()) < best  # the grid does make a difference
