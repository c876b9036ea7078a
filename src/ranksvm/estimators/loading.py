"""Loading a model file as an estimator."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, BinaryIO

from ranksvm.estimators.model_ranker import ModelRanker
from ranksvm.learners import Learner, learner_of, read_model
from ranksvm.models.model import ModelFileError


def estimator_of(learner: Learner) -> type[ModelRanker]:
    """Return the estimator class for a kind of model."""
    found: type[ModelRanker] = class_at(learner.estimator)
    return found


def class_at(address: str) -> Any:
    """Return the class at "module:class"."""
    module, name = address.split(":")
    return getattr(import_module(module), name)


def load(path: str | os.PathLike[str] | BinaryIO) -> ModelRanker:
    """Read a model that ``save`` wrote.

    Only numbers and names are read; no code in the file is ever executed.

    Parameters
    ----------
    path : path-like or binary file
        The model file.

    Returns
    -------
    LinearRankSVM, KernelRankSVM or FactorizedRankSVM
        The fitted estimator, with the parameters and training facts of the file; ``history_`` is
        empty.

    Raises
    ------
    ModelFileError
        If the file is not a model, is damaged, or was written by a newer version.
    """
    model = read_model(path)
    try:
        return estimator_of(learner_of(model))._from_model(model)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelFileError(f"{path}: this version cannot load the model: {error}") from error
