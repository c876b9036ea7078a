"""The rank of the Lagrange multipliers of a ranking SVM.

The multiplier of a pair is a function of the difference of its two scores: for the squared hinge
2 C max(0, 1 - s_b + s_w), for the hinge about C wherever the pair is violated.  A matrix with the
entries 1 - s_b + s_w has rank two; replacing negative entries and those that are not pairs by zero
raises the rank.  :func:`multiplier_spectrum` measures by how much.
"""

from __future__ import annotations

import warnings
from typing import Any

from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from ranksvm._checks import check_choice
from ranksvm._threads import resolve_n_jobs
from ranksvm.estimators.inputs import training_data
from ranksvm.estimators.linear import LinearRankSVM
from ranksvm.learners.linear import LinearProblem, LinearSettings
from ranksvm.learners.multipliers import (
    MULTIPLIER_TERMS,
    MultiplierSpectrum,
    multiplier_point,
    multiplier_terms,
    spectrum_of,
)

MOST_ITEMS = 5_000


def multiplier_spectrum(
    X: Any,
    y: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    C: float = 5.0,
    loss: str = "squared_hinge",
    reduction: str = "mean",
    scaling: str | None = "auto",
    seed: int = 0,
    n_jobs: int | None = None,
) -> MultiplierSpectrum:
    """Fit a linear model and compute the singular values of its Lagrange multipliers.

    Parameters
    ----------
    X, y, qid
        As for :meth:`ranksvm.LinearRankSVM.fit`.
    C : float, default=5.0
        Weight of the loss.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        Loss of a pair.  For "hinge", whose multipliers are not unique, those of the hinge with a
        rounded corner are used.
    reduction : {"sum", "mean", "query_mean"}, default="mean"
        As for :class:`ranksvm.LinearRankSVM`.
    scaling : {"auto", "standard", "minmax", "robust", "quantile"} or None, default="auto"
        As for :class:`ranksvm.LinearRankSVM`.
    seed : int, default=0
        Seed of the random permutation of the multipliers, for comparison.
    n_jobs : int or None, default=None
        Number of threads; None or -1 uses all cores that the process may use.

    Returns
    -------
    MultiplierSpectrum
    """
    model = LinearRankSVM(
        C, loss=loss, reduction=reduction, scaling=scaling, tol=1e-6, n_jobs=n_jobs
    )
    settings = model._settings(LinearSettings)
    check_choice("loss", loss, MULTIPLIER_TERMS)
    data = training_data(model, X, y, qid)
    assert data.y is not None
    largest = int(data.groups.sizes.max())
    if largest > MOST_ITEMS:
        raise ValueError(
            f"the multipliers of a query are computed as a matrix, for at most {MOST_ITEMS:,} "
            f"items; the largest query has {largest:,}. Drop it, or sample its items."
        )
    problem = LinearProblem(data, settings, n_threads=resolve_n_jobs(n_jobs))
    fit = problem.solve()
    if fit.shortfall is not None:
        warnings.warn(f"multiplier_spectrum: {fit.shortfall}", ConvergenceWarning, stacklevel=2)
    scores = multiplier_point(problem.objective(C), fit.point, loss).scores
    # The shares do not depend on C or on query weights.
    terms = multiplier_terms(loss, 1.0)
    return spectrum_of(data.y, scores, data.groups, terms, seed)
