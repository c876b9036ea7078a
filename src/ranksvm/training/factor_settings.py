"""The parameters of factorized machines, checked when they are put together."""

from __future__ import annotations

from dataclasses import dataclass

from ranksvm._checks import check_choice, check_positive, check_seed
from ranksvm.solvers.descent import DESCENTS
from ranksvm.training.settings import Settings

__all__ = ["FactorizedSettings"]

OPTIMIZERS = (*DESCENTS, "sgd")
# The one that reaches the same objective with the fewest products.
AUTO_OPTIMIZER = "lbfgs"


@dataclass(frozen=True)
class FactorizedSettings(Settings):
    """The parameters of ``FactorizedRankSVM`` that shape the model."""

    loss: str = "hinge"
    tol: float = 1e-3
    max_iter: int = 500
    n_factors: int = 10
    n_restarts: int = 1
    init: str = "random"
    init_scale: float = 0.1
    optimizer: str = "auto"
    patience: int = 20
    random_state: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("n_factors", self.n_factors, integer=True)
        check_positive("n_restarts", self.n_restarts, integer=True)
        check_positive("init_scale", self.init_scale)
        check_positive("patience", self.patience, integer=True)
        check_choice("init", self.init, ("random", "linear"))
        if self.init == "linear" and self.n_restarts > 1:
            raise ValueError(
                f"n_restarts={self.n_restarts} with init='linear' would be the same descent again "
                "and again: there is one linear start. Use n_restarts=1, or init='random'."
            )
        check_choice("optimizer", self.optimizer, ("auto", *OPTIMIZERS))
        check_seed("random_state", self.random_state)

    @property
    def method(self) -> str:
        """The optimizer."""
        return AUTO_OPTIMIZER if self.optimizer == "auto" else self.optimizer
