"""Arguments that other libraries have: what they are called here, or why there are none.

Who comes from LightGBM, XGBoost, CatBoost or Keras brings ``eval_set``, ``early_stopping_rounds``
and ``callbacks`` along.  Methods take such arguments only to refuse them, with a sentence that
helps.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["refuse_unknown"]

_NOTHING_TO_STOP = (
    "RankSVM is not trained in rounds, so there is nothing to stop early. To choose C on a "
    "validation set: {search}().fit(X, y, qid, validation=(X_val, y_val, qid_val))."
)
# The parameters that a fit has decide what the remedy is: the first of these that it knows.
_JUDGED_ON = {
    "eval_set": "Pass eval_set=(X, y, qid), one tuple: the ids are its third part.",
    "validation": "Pass validation=(X, y, qid): the parameters are chosen on these items.",
    "": _NOTHING_TO_STOP,
}
_NO_ROUNDS = {
    "eval_set": "With eval_set a fit stops early by itself: patience=, a parameter of the "
    "constructor, says how many iterations it waits.",
    "": _NOTHING_TO_STOP,
}
_METRIC = {
    "eval_set": "eval_metric needs eval_set.",
    "validation": "The metric is a parameter of the constructor: metric='ndcg@10'.",
    "": "Take metrics after the fit with ranksvm.metrics.evaluate(y, model.predict(X), qid).",
}
_CALLBACK = {
    "callback": "Pass one function: callback(row, coef) is called after every iteration, and stops "
    "the fit when it returns a true value.",
    "progress": "Pass progress=: progress(done, total, message) is called after every fit.",
}
_QID = {"": "Here it is called qid: the query of each item, one id per row of X."}
_CONSTRUCTOR = {"": "Pass it to the constructor: {model}({name}=...)."}
_VERBOSE = {"": "Pass it to the constructor: {model}(verbose=1)."}
_CATEGORIES = {
    "": "There are no categorical features: encode them as numbers first, for example with "
    "sklearn.preprocessing.OneHotEncoder."
}
_NAMES = {"": "Names are those of the columns of X: pass a frame (pandas, polars, Arrow)."}
_WARM = {"": "To start at the last solution, LinearRankSVM has warm_start=True."}
_WEIGHT = {"": "Weights of items are sample_weight=, weights of queries query_weight=."}

FOREIGN: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(
        ("eval_set", "eval_group", "eval_qid", "eval_names", "eval_sample_weight",
         "eval_init_score", "sample_weight_eval_set", "base_margin_eval_set",
         "validation_data", "validation_split", "validation_set", "valid_sets", "evals"),
        _JUDGED_ON,
    ),
    **dict.fromkeys(
        ("early_stopping_rounds", "early_stopping", "num_boost_round", "n_estimators", "epochs",
         "use_best_model"),
        _NO_ROUNDS,
    ),
    **dict.fromkeys(("eval_metric", "eval_at", "metrics", "scoring"), _METRIC),
    "callbacks": _CALLBACK,
    **dict.fromkeys(
        ("group", "groups", "group_id", "qids", "query", "query_id", "queries"), _QID
    ),
    **dict.fromkeys(("verbose", "verbose_eval"), _VERBOSE),
    **dict.fromkeys(("n_jobs", "C", "tol", "max_iter"), _CONSTRUCTOR),
    **dict.fromkeys(("categorical_feature", "cat_features", "enable_categorical"), _CATEGORIES),
    **dict.fromkeys(("feature_name", "feature_names"), _NAMES),
    **dict.fromkeys(("init_model", "xgb_model", "coef_init", "init_score", "base_margin"), _WARM),
    **dict.fromkeys(("weight", "weights", "group_weight", "class_weight"), _WEIGHT),
}  # fmt: skip


def refuse_unknown(model: object, method: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Raise a TypeError about the first argument that a method does not have; none is fine.

    Parameters
    ----------
    model : object
        Whose class the message names.
    method : callable
        The method of the model.
    given : mapping
        Keyword arguments that no parameter has taken.
    """
    for name in given:
        of = [
            known
            for known, parameter in inspect.signature(method).parameters.items()
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
        told = FOREIGN.get(name, {})
        hint = next((told[key] for key in (*of, "") if key in told), None)
        if hint is None:
            near = difflib.get_close_matches(name, of, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"It has {', '.join(of)}."
        called = type(model).__name__
        search = "KernelRankSVMCV" if called.startswith("Kernel") else "LinearRankSVMCV"
        for word, text in (("{model}", called), ("{name}", name), ("{search}", search)):
            hint = hint.replace(word, text)
        raise TypeError(f"{called}.{method.__name__}() has no parameter {name!r}. {hint}")
