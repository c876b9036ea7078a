"""Which scaling, and which C and gamma with it: chosen on validation parts, on many sets.

Every scaling gets the same search, for linear models and for rbf kernels with landmarks, and is
judged by the best value of the validation metric.  The tables after that are about the scaling that
``scaling="auto"`` takes: what is lost if C, or gamma, is the same for all sets.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.common import SEED, Array, Config
from benchmarks.feature_sets import Split, feature_sets
from benchmarks.report import Report, Row
from ranksvm.data.scaling import SCALINGS
from ranksvm.learners.kernel import KernelProblem, KernelSettings
from ranksvm.learners.kernel_space import gamma_of
from ranksvm.learners.linear import LinearProblem, LinearSettings
from ranksvm.learners.scaled import scaled_data
from ranksvm.learners.settings import DENSE_SCALING
from ranksvm.metrics import evaluate
from ranksvm.model_selection.choice import choose_metric
from ranksvm.model_selection.path import fit_path

TITLE = "scalings of the features, each with its best C and gamma on validation parts"
TOL = 3e-4
MAX_ITER = 30  # raw features would take forever
N_LANDMARKS = 300
CS = 50.0 * 4.0 ** np.arange(-5.0, 6.5)
GAMMAS = 4.0 ** np.arange(-4.0, 1.5)  # relative to "scale"
SCALE = int(np.flatnonzero(GAMMAS == 1.0)[0])  # its place in the list
CS_TEXT = [f"{C:.3g}" for C in CS]
GAMMAS_TEXT = [f"{gamma:.3g}" for gamma in GAMMAS]
NONE = "none"
NAMES = (NONE, *SCALINGS)


@dataclass(frozen=True, eq=False)
class Search:
    """Validation metric by gamma (one for linear models) and C, and where it is best."""

    values: Array

    @property
    def best(self) -> float:
        return float(self.values.max())

    @property
    def best_C(self) -> float:
        return float(CS[np.unravel_index(self.values.argmax(), self.values.shape)[1]])

    @property
    def best_gamma(self) -> float:
        return float(GAMMAS[np.unravel_index(self.values.argmax(), self.values.shape)[0]])


# By set and scaling.
Searches = dict[str, dict[str, Search]]


def run(config: Config, report: Report) -> None:
    found: dict[str, Searches] = {"linear": {}, "rbf": {}}
    metrics: dict[str, str] = {}
    for one in feature_sets(config, report.note):
        metrics[one.name] = choose_metric(None, one.splits[0].train)[0].metric.name
        for kind, searches in found.items():
            searches[one.name] = {
                scaling: Search(
                    np.mean([search(split, kind, scaling, config) for split in one.splits], axis=0)
                )
                for scaling in NAMES
                if not (scaling == "quantile" and one.is_sparse)
            }
    for kind, searches in found.items():
        _print_scalings(kind, metrics, searches, report)
        _print_losses(kind, searches, report)
    report.note(
        f"rbf with {N_LANDMARKS} landmarks; gamma relative to 'scale'; relative gap {TOL:g}, or "
        f"{MAX_ITER} iterations; quantiles would make sparse sets dense, and are left out there"
    )


def search(split: Split, kind: str, scaling: str, config: Config) -> Array:
    """Return the metric on the validation part by gamma and C."""
    name = None if scaling == NONE else scaling
    common: dict[str, Any] = {"scaling": name, "tol": TOL, "max_iter": MAX_ITER}
    metric = choose_metric(None, split.train)[0].metric
    gammas = np.ones(1)
    if kind == "rbf":
        scaled, _ = scaled_data(split.train, name)
        gammas = GAMMAS * gamma_of("scale", scaled.X, None)
    values = np.empty((len(gammas), len(CS)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k, gamma in enumerate(gammas):
            problem: Any
            if kind == "linear":
                problem = LinearProblem(
                    split.train, LinearSettings(**common), n_threads=config.threads
                )
            else:
                settings = KernelSettings(
                    **common,
                    gamma=float(gamma),
                    approximation="nystroem",
                    n_components=N_LANDMARKS,
                    random_state=SEED,
                )
                problem = KernelProblem(split.train, settings, n_threads=config.threads)
            fits = fit_path(problem, CS)
            scores = problem.score(split.validation.X, fits)
            y, qid = split.validation.y, split.validation.qid
            values[k] = [evaluate(y, s, qid, [metric])[metric.name] for s in scores]
    return values


def _print_scalings(kind: str, metrics: dict[str, str], searches: Searches, report: Report) -> None:
    """Print the best values, where they are, and how far each scaling is from the best one."""
    rows: list[Row] = []
    for name, of_set in searches.items():
        winner = max(of_set, key=lambda scaling: of_set[scaling].best)
        values = {scaling: f"{one.best:.4f}" for scaling, one in of_set.items()}
        rows.append({"set": name, "metric": metrics[name], **values, "best": winner})
    report.table(f"{kind}: best value on validation by scaling", rows)
    rows = [
        {"set": name, **{scaling: one.best_C for scaling, one in of_set.items()}}
        for name, of_set in searches.items()
    ]
    report.table(f"{kind}: best C by scaling", rows)
    if kind == "rbf":
        rows = [
            {"set": name, **{scaling: one.best_gamma for scaling, one in of_set.items()}}
            for name, of_set in searches.items()
        ]
        report.table(f"{kind}: best gamma / scale by scaling", rows)
    rows = []
    for what, is_sparse in (("dense", False), ("sparse", True)):
        some = [one for one in searches.values() if ("quantile" not in one) == is_sparse]
        for scaling in NAMES[: -1 if is_sparse else None]:
            if some:
                rows.append({"sets": f"{len(some)} {what}", **_compared(some, scaling)})
    report.table(f"{kind}: what each scaling loses against the best one of the set", rows)


def _compared(sets: Sequence[dict[str, Search]], scaling: str) -> Row:
    """Compare a scaling with the best one of each set, and with the default for dense features."""
    losses = np.array([max(s.best for s in one.values()) - one[scaling].best for one in sets])
    gains = np.array([one[scaling].best - one[DENSE_SCALING].best for one in sets])
    error = gains.std(ddof=1) / np.sqrt(gains.size) if gains.size > 1 else np.nan
    return {
        "scaling": scaling,
        "mean loss": f"{losses.mean():.4f}",
        "median loss": f"{np.median(losses):.4f}",
        "largest loss": f"{losses.max():.4f}",
        "wins": int(np.count_nonzero(losses == 0.0)),
        f"- {DENSE_SCALING}": f"{gains.mean():+.4f}",
        "standard error": f"{error:.4f}",
    }


def _print_losses(kind: str, searches: Searches, report: Report) -> None:
    """Print what the default scaling loses with one C, or one gamma, for all sets."""
    chosen = {name: of_set[_default(of_set)] for name, of_set in searches.items()}
    sparse = {name for name, of_set in searches.items() if "quantile" not in of_set}
    # Whoever does not search has gamma = "scale".
    plain = {name: one.values[SCALE if kind == "rbf" else 0] for name, one in chosen.items()}
    what = " with gamma = scale" if kind == "rbf" else ""
    report.table(
        f"{kind}, default scaling{what}: loss by C against the best one of the set",
        _losses(plain, sparse, CS_TEXT),
    )
    if kind == "rbf":
        report.table(
            f"{kind}, default scaling, best C: loss by gamma / scale against the best one",
            _losses({n: one.values.max(axis=1) for n, one in chosen.items()}, sparse, GAMMAS_TEXT),
        )
        report.table(
            f"{kind}, default scaling, best gamma: loss by C against the best one",
            _losses({n: one.values.max(axis=0) for n, one in chosen.items()}, sparse, CS_TEXT),
        )


def _losses(values: dict[str, Array], sparse: set[str], columns: Sequence[str]) -> list[Row]:
    losses = {name: one.max() - one for name, one in values.items()}
    dense = [loss for name, loss in losses.items() if name not in sparse]
    others = [loss for name, loss in losses.items() if name in sparse]
    for what, some in (("dense", dense), ("sparse", others)):
        if some:
            losses[f"mean of the {what} sets"] = np.mean(some, axis=0)
    return [
        {"set": name, **{c: f"{x:.4f}" for c, x in zip(columns, one, strict=True)}}
        for name, one in losses.items()
    ]


def _default(of_set: dict[str, Search]) -> str:
    """The scaling of ``scaling="auto"``: sparse features stay as they are."""
    return DENSE_SCALING if "quantile" in of_set else NONE
