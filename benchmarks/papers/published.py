"""Published numbers on LETOR's sets: means over the test parts of five folds.

Chen, Li, Dou, Liang & Lv (2017), table 4 (OHSUMED), with the mean NDCG of RankNystrom from the web
page of their program; Zhang, Xu, Lan, Guo, Xie, Huang & Cheng, section 4 (both sets).  Kuo, Lee &
Lin (2014, supplement) have one fold of MQ2008, which they do not name, and mean reciprocal ranks by
a formula of their own (``reciprocal_true_rank``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Titles of columns.
NAMES = {
    "ndcg@1": "NDCG@1", "ndcg@3": "NDCG@3", "ndcg@5": "NDCG@5", "mean_ndcg": "MeanNDCG",
    "p@1": "P@1", "p@3": "P@3", "p@5": "P@5", "map": "MAP",
    "pairwise_accuracy": "pairwise accuracy", "mrr": "MRR",
    "reciprocal_true_rank@1": "1 / true rank of the top item",
}  # fmt: skip

APPROXIMATION = "Chen et al., table 4"
FACTORIZED = "Zhang et al., section 4"

_COLUMNS_4 = ("ndcg@1", "ndcg@3", "ndcg@5", "p@1", "p@3", "map")
_COLUMNS_Z = ("map", "ndcg@1", "ndcg@3", "ndcg@5")


@dataclass(frozen=True)
class Published:
    """One row of a table.

    Attributes
    ----------
    source, method : str
    values : mapping of metric to float
    ours : str or None
        Our family with the same model, if it is a RankSVM.
    """

    source: str
    method: str
    values: Mapping[str, float]
    ours: str | None = None

    def shown(self, metrics: Sequence[str]) -> dict[str, str | None]:
        """Return some of the values as cells of a table; None where there is none."""
        return {
            NAMES[name]: f"{self.values[name]:.4f}" if name in self.values else None
            for name in metrics
        }


def _row(
    source: str, columns: tuple[str, ...], method: str, ours: str | None, *values: float
) -> Published:
    return Published(source, method, dict(zip(columns, values, strict=True)), ours)


def _four(method: str, ours: str | None, *values: float) -> Published:
    return _row(APPROXIMATION, _COLUMNS_4, method, ours, *values)


def _poster(method: str, ours: str | None, *values: float) -> Published:
    return _row(FACTORIZED, _COLUMNS_Z, method, ours, *values)


PUBLISHED: Mapping[str, tuple[Published, ...]] = {
    "OHSUMED": (
        _four("RankSVM-Struct", "linear L1", 0.5515, 0.4850, 0.4729, 0.6338, 0.5898, 0.4478),
        _four("RankSVM-Primal", "linear L2", 0.5645, 0.5004, 0.4782, 0.6710, 0.6112, 0.4439),
        _four("RankNystrom", "Nystrom rbf", 0.5730, 0.4874, 0.4780, 0.6801, 0.5890, 0.4473),
        _four("RankRandomFourier", "Fourier rbf", 0.5728, 0.4965, 0.4804, 0.6801, 0.5983, 0.4472),
        Published("page of their program", "RankNystrom", {"mean_ndcg": 0.5378}, "Nystrom rbf"),
        _four("ListNet", None, 0.5326, 0.4732, 0.4432, 0.6524, 0.6016, 0.4457),
        _four("AdaRank-MAP", None, 0.5388, 0.4682, 0.4613, 0.6338, 0.5895, 0.4487),
        _four("AdaRank-NDCG", None, 0.5330, 0.4790, 0.4673, 0.6719, 0.5984, 0.4498),
        _four("RankBoost", None, 0.4632, 0.4555, 0.4494, 0.5576, 0.5609, 0.4411),
        _four("RankRLS", None, 0.5490, 0.4770, 0.4530, 0.6440, 0.5860, 0.4470),
        _poster("RSVM", "linear L1", 0.4427, 0.5289, 0.4553, 0.4392),
        _poster("Fac-RSVM", "Fac-RSVM", 0.4463, 0.5507, 0.4798, 0.4546),
        _poster("RankNet", None, 0.404, 0.4007, 0.3616, 0.3388),
        _poster("ListNet", None, 0.4443, 0.5134, 0.4664, 0.4530),
    ),
    "MQ2008": (
        _poster("RSVM", "linear L1", 0.4713, 0.3686, 0.4277, 0.4730),
        _poster("Fac-RSVM", "Fac-RSVM", 0.4714, 0.3660, 0.4289, 0.4731),
        _poster("RankNet", None, 0.4522, 0.3414, 0.3991, 0.4500),
        _poster("ListNet", None, 0.4415, 0.3244, 0.3916, 0.4396),
    ),
}

# OHSUMED: RankNystrom with 500 landmarks by fold, from the page of the program, for one pair of
# (log2 C, log2 gamma) on all folds.
NYSTROM_PAIR = (-6, -6)
NYSTROM_BY_FOLD: Mapping[str, tuple[float, ...]] = {
    "map": (0.3529, 0.4461, 0.4491, 0.5160, 0.4725),
    "mean_ndcg": (0.5012, 0.5377, 0.5393, 0.5433, 0.5675),
}

# Kuo, Lee & Lin (2014, supplement), tables VIII and IX, MQ2008.
ONE_FOLD: Mapping[str, Mapping[str, float]] = {
    "p@5": {"TRON": 0.3974, "SVM^light": 0.4103, "SVM^rank": 0.4038, "RV-SVM": 0.4038},
    "reciprocal_true_rank": {
        "TRON": 0.8127,
        "SVM^light": 0.8045,
        "SVM^rank": 0.7966,
        "RV-SVM": 0.8147,
    },
}

# Two metrics that each of these may mean: the first looks like precision@1, and the printed formula
# of the second does not depend on the ranking (:mod:`benchmarks.papers.kernel` says more).
READINGS: Mapping[str, tuple[str, ...]] = {
    "p@5": ("p@5", "p@1"),
    "reciprocal_true_rank": ("reciprocal_true_rank@1", "mrr"),
}

# The same, tables III to VII, MQ2008: (log2 C, log2 gamma) by criterion and program.
BEST_PARAMETERS: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "pairwise_accuracy": {
        "TRON": (1, -6), "SVM^light": (-1, -5), "SVM^rank": (-4, 3), "RV-SVM": (4, -2),
    },
    "mean_ndcg": {
        "TRON": (3, -5), "SVM^light": (3, -6), "SVM^rank": (-4, -6), "RV-SVM": (0, -2),
    },
    "map": {
        "TRON": (1, -4), "SVM^light": (3, -6), "SVM^rank": (-4, -6), "RV-SVM": (-4, -2),
    },
    "p@5": {
        "TRON": (0, -3), "SVM^light": (-3, -2), "SVM^rank": (-5, -5), "RV-SVM": (0, -1),
    },
    "reciprocal_true_rank": {
        "TRON": (1, -4), "SVM^light": (4, -6), "SVM^rank": (-2, -5), "RV-SVM": (-5, -2),
    },
}  # fmt: skip

# Chen et al., table 2: MQ2007, first fold; model -> (loss, log2 C, log2 gamma, mean NDCG, seconds).
TABLE_2: Mapping[str, tuple[str, int, int | None, float, float]] = {
    "RankSVM-TRON, linear": ("hinge", -5, None, 0.5265, 1.9),
    "RankSVM-Struct, linear": ("hinge", -1, None, 0.5268, 2.2),
    "RankSVM-Primal, linear": ("squared_hinge", -10, None, 0.5270, 1.2),
    "RankSVM-TRON, rbf": ("hinge", -2, -5, 0.5310, 47463.5),
    "RankNystrom, rbf": ("squared_hinge", -2, -5, 0.5330, 10.9),
    "RankRandomFourier, rbf": ("squared_hinge", -2, -5, 0.5336, 16.1),
}
KERNEL_SECONDS = TABLE_2["RankSVM-TRON, rbf"][-1]
