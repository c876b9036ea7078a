"""What :class:`ranksvm.AutoRankSVM` tries, and in which order.

A *family* is a kernel on one view of the features: scaled in one way, with or without ranks within
the query.  A *space* is a family with one gamma; all its candidates, for every pair weight and C,
share their features, landmarks and kernel values.

Gammas and Cs are on a lattice: gamma is a power of 4 times "scale", C a power of 4.  The search
begins in the middle.  It then looks at the neighbors of the best gamma of a family, and goes on
until both of them are worse: a grid that grows while the best lies on its edge.  The path over C of
a space grows in the same way (:mod:`ranksvm.model_selection.auto_cells`).

Time goes first to what promises most: linear models, which are cheap and tell which views are good;
then one space of every other family, those with the most promising views first; then the neighbors,
those of the best family first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ranksvm._sparse import is_sparse
from ranksvm.data.query_view import QueryView
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners.kernel import KernelSettings
from ranksvm.learners.kernel_space import gamma_of
from ranksvm.learners.linear import LinearSettings
from ranksvm.learners.settings import Settings
from ranksvm.learners.views import seen_data
from ranksvm.pairs.gains import is_graded

STEP = 4.0  # from one gamma or C to the next
# Powers of STEP: the gamma to begin with, relative to "scale", and the last ones to try.
FIRST_GAMMA = -1
LOWEST_GAMMA, HIGHEST_GAMMA = -6, 4
# The Cs of a path to begin with.  Weights of standardized features are small, coefficients of
# kernel features large.
LINEAR_CS = (-4, 2)
KERNEL_CS = (0, 6)
# A kernel model is exact if it has at most this many items per landmark, and otherwise approximate.
EXACT_BELOW = 2
# Ranks of sparse features are dense: up to this many numbers they are worth a try.
MOST_DENSE = 1 << 27
# The tolerance of fits: differences below it change no ranking that matters.
TOLERANCE, LEAST_TOLERANCE = 1e-3, 1e-9


class Family(NamedTuple):
    """A kernel on one view of the features.

    Attributes
    ----------
    scaling : str or None
        As in the estimators.
    query_features : tuple of str
        Likewise.
    kernel : str or None
        None for a linear model.
    """

    scaling: str | None
    query_features: tuple[str, ...]
    kernel: str | None

    @property
    def view(self) -> tuple[str | None, tuple[str, ...]]:
        """What the features are: all kernels on them share it."""
        return self.scaling, self.query_features

    def __str__(self) -> str:
        parts = [self.kernel or "linear", self.scaling or "not scaled", *self.query_features]
        return ", ".join(parts)


class Space(NamedTuple):
    """A family with one gamma: ``power`` of :data:`STEP` relative to "scale"; 0 if linear."""

    family: Family
    power: int

    def __str__(self) -> str:
        if self.family.kernel is None:
            return str(self.family)
        return f"{self.family}, gamma = {STEP**self.power:g} scale"


@dataclass(frozen=True)
class Preset:
    """A search: which families and pair weights it has.

    Attributes
    ----------
    scalings, kernels, pair_weights : tuple
        Values to combine.
    without_ranks : bool
        Whether to try views without ranks within the query as well.
    help : str
        What it is for.
    """

    scalings: tuple[str, ...]
    kernels: tuple[str | None, ...]
    pair_weights: tuple[str, ...]
    without_ranks: bool
    help: str


PRESETS = {
    "best": Preset(
        scalings=("standard", "quantile"),
        kernels=(None, "laplacian", "rbf"),
        pair_weights=("uniform", "gain", "lambda"),
        without_ranks=True,
        help="linear, Laplacian and rbf models of several views of the features",
    ),
    "fast": Preset(
        scalings=("standard",),
        kernels=(None,),
        pair_weights=("uniform",),
        without_ranks=False,
        help="linear models with ranks within the query",
    ),
}


def families_of(data: RankingData, preset: Preset) -> list[Family]:
    """Return the families for a data set, the most promising ones first.

    Ranks need queries.  Quantiles and ranks make sparse features dense, and are left out for large
    sparse sets; those are tried as they are, too, which is best for text.
    """
    dense = not is_sparse(data.X) or data.n_items * data.n_features <= MOST_DENSE
    scalings: list[str | None] = list(preset.scalings)
    if not dense:
        scalings = [None, *(name for name in preset.scalings if name != "quantile")]
    has_queries = data.qid is not None and data.groups.n_queries > 1
    ranks: list[tuple[str, ...]] = [("rank",)] if has_queries and dense else []
    if preset.without_ranks or not ranks:
        ranks.append(())
    return [
        Family(scaling, names, kernel)
        for kernel in preset.kernels
        for names in ranks
        for scaling in scalings
    ]


def pair_weights_for(
    data: RankingData, preset: Preset, validation: RankingData | None = None
) -> tuple[str, ...]:
    """Return the pair weights for a data set: those of NDCG are for grades.

    The labels of a validation set count as well: the last fits are to both sets.
    """
    sets = [data] if validation is None else [data, validation]
    return preset.pair_weights if all(is_graded(one.truth) for one in sets) else ("uniform",)


def settings_of(
    space: Space, data: RankingData, *, n_landmarks: int, random_state: int, n_threads: int = 1
) -> Settings:
    """Return the settings that all candidates of a space share.

    Parameters
    ----------
    space : Space
    data : RankingData
        Training items, as they are or with the view of the family.
    n_landmarks : int
        Number of landmarks of an approximate kernel model.
    random_state : int
        Seed of the landmarks.
    n_threads : int
    """
    family = space.family
    shared: dict[str, Any] = {
        "scaling": family.scaling,
        "query_features": family.query_features,
        "tol": TOLERANCE,
    }
    if family.kernel is None:
        return LinearSettings(**shared)
    exact = data.n_items <= EXACT_BELOW * n_landmarks
    settings = KernelSettings(
        kernel=family.kernel,
        approximation=None if exact else "nystroem",
        n_components=n_landmarks,
        random_state=random_state,
        **shared,
    )
    scale = gamma_of("scale", seen_data(data, settings, n_threads=n_threads).X, data.item_weight)
    return KernelSettings(**{**settings.__dict__, "gamma": scale * STEP**space.power})


def tolerance(C: float) -> float:
    """Return the relative gap of the fits for a C.

    A fit reduces the objective at zero by a share that falls like C.  With one tolerance for every
    C, all scores 0 would be good enough for a small C.
    """
    return max(LEAST_TOLERANCE, TOLERANCE * min(1.0, C))


def view_of(family: Family) -> QueryView:
    """Return the columns of a family."""
    return QueryView(family.query_features)


class Explorer:
    """Chooses the next space to look at.

    Parameters
    ----------
    families : sequence of Family
        In the order in which they are tried first.
    """

    def __init__(self, families: Sequence[Family]) -> None:
        self._families = families
        self._best: dict[Space, float] = {}  # of the candidates of each space

    def tell(self, space: Space, scores: Iterable[float]) -> None:
        """Add the scores of the candidates of a space."""
        self._best[space] = max((one for one in scores if not math.isnan(one)), default=-math.inf)

    def next(self) -> Space | None:
        """Return the next space; None if the search is complete."""
        waiting = [family for family in self._families if _first(family) not in self._best]
        if waiting:
            linear = [family for family in waiting if family.kernel is None]
            return _first(linear[0] if linear else max(waiting, key=self._promise))
        # Neighbors of the best gamma of a family; the best family first.
        for family in sorted(self._families, key=self._best_of, reverse=True):
            for space in self._neighbors(family):
                if space not in self._best:
                    return space
        return None

    def n_left(self) -> int:
        """Return the number of spaces that are known to be left: there may be more."""
        waiting = sum(_first(family) not in self._best for family in self._families)
        tried = [family for family in self._families if _first(family) in self._best]
        near = (space for family in tried for space in self._neighbors(family))
        return waiting + sum(space not in self._best for space in near)

    def _promise(self, family: Family) -> float:
        """Return the best score of a family with the same view."""
        same = [one for one in self._families if one.view == family.view]
        return max(map(self._best_of, same))

    def _best_of(self, family: Family) -> float:
        mine = [score for space, score in self._best.items() if space.family == family]
        return max(mine, default=-math.inf)

    def _neighbors(self, family: Family) -> list[Space]:
        """Return the spaces beside the best one of a family."""
        if family.kernel is None:
            return []
        mine = {space: score for space, score in self._best.items() if space.family == family}
        best = max(mine, key=lambda space: (mine[space], -space.power))
        powers = (best.power - 1, best.power + 1)
        return [Space(family, one) for one in powers if LOWEST_GAMMA <= one <= HIGHEST_GAMMA]


def _first(family: Family) -> Space:
    return Space(family, 0 if family.kernel is None else FIRST_GAMMA)
