"""A model file to the estimator of its kind."""

from __future__ import annotations

import os
from importlib import import_module
from typing import BinaryIO

from ranksvm.estimators.base import Ranker
from ranksvm.learners import Learner, learner_of, read_model
from ranksvm.models import ModelFileError

__all__ = ["estimator_of", "load"]


def estimator_of(learner: Learner) -> type[Ranker]:
    """Return the estimator of a kind of model."""
    module, name = learner.estimator.split(":")
    found: type[Ranker] = getattr(import_module(module), name)
    return found


def load(path: str | os.PathLike[str] | BinaryIO) -> Ranker:
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
    model = read_model(path)
    try:
        return estimator_of(learner_of(model))._from_model(model)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelFileError(f"{path}: the model does not fit this version: {error}") from error
