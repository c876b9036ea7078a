"""A model file to the estimator that wrote it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import BinaryIO

from ranksvm.estimators.base import BaseRanker
from ranksvm.estimators.factorized import FactorizedRankSVM
from ranksvm.estimators.kernel import KernelRankSVM
from ranksvm.estimators.linear import LinearRankSVM
from ranksvm.model_io import ModelFileError, ModelRecord, read_model
from ranksvm.training.kernel_record import KERNEL_KINDS

__all__ = ["load"]

KINDS: dict[str, Callable[[ModelRecord], BaseRanker]] = {
    "linear": LinearRankSVM._from_record,
    "factorized": FactorizedRankSVM._from_record,
    **dict.fromkeys(KERNEL_KINDS, KernelRankSVM._from_record),
}


def load(path: str | os.PathLike[str] | BinaryIO) -> BaseRanker:
    """Read a model that ``save`` wrote.

    Only numbers and names are read; whatever the file holds, no code of it runs.

    Parameters
    ----------
    path : path-like or binary file

    Returns
    -------
    LinearRankSVM, KernelRankSVM or FactorizedRankSVM
        Fitted, with the parameters and training facts of the file; ``history_`` is empty.

    Raises
    ------
    ModelFileError
        If the file is no model, damaged, or written by a newer version.
    """
    record = read_model(path)
    try:
        return KINDS[record.kind](record)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelFileError(f"{path}: the model does not fit this version: {error}") from error
