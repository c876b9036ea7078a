"""Linear RankSVM.

    F(w) = 1/2 |w|^2 + C * sum over comparable pairs of  weight * loss(1 - w.x_better + w.x_worse)

with loss(t) = max(0, t) ("hinge") or max(0, t)^2 ("squared_hinge").  ``reduction`` says what the
sum means:

    "sum"         the plain sum over pairs (Lee & Lin)
    "mean"        divided by the total weight N of all pairs (Airola, Pahikkala & Salakoski)
    "query_mean"  the mean over the pairs of each query, then over queries

so C of "sum" equals C of "mean" divided by N.  In the notation
J(w) = (1/N) sum loss + lambda |w|^2 the same problem has C = 1 / (2 lambda) with "mean", and
C = 1 / (2 lambda N) with "sum".  (Airola, Pahikkala & Salakoski print C = 1 / (lambda N); that is
right for lambda / 2 |w|^2.)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ranksvm._vectors import Array
from ranksvm.estimators.callbacks import joined
from ranksvm.estimators.evaluation import EvalMetric, evaluation
from ranksvm.estimators.foreign import refuse_unknown
from ranksvm.estimators.importances import LinearImportances
from ranksvm.estimators.inputs import file_data, fitting, training_data
from ranksvm.estimators.model_ranker import ModelRanker
from ranksvm.estimators.pair_inputs import pair_data
from ranksvm.learners.linear import LinearSettings
from ranksvm.learners.linear_model import LinearModel
from ranksvm.solvers.base import Callback


class LinearRankSVM(LinearImportances, ModelRanker):
    """Linear ranking SVM with an optimality certificate.

    Parameters
    ----------
    C : float, default=5.0
        Weight of the loss relative to the regularizer; a larger C fits the training data more
        closely.  Its scale depends on ``reduction``.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        Loss of a pair.
    reduction : {"sum", "mean", "query_mean"}, default="mean"
        How the losses of all pairs are combined: their sum, their mean, or the mean over queries of
        the mean over the pairs of each query.  The notes say how to convert C.
    pair_weight : {"uniform", "gain", "lambda"}, default="uniform"
        What multiplies the weight of a pair that follows from labels, so that the model looks more
        at pairs that count in NDCG.  "gain": the difference of the gains of its items, divided by
        the ideal DCG of its query.  "lambda": the model is fitted with uniform weights, and then
        again with weights from its ranking: the change of NDCG if both items were swapped.
    gain : {"exp2", "linear"}, default="exp2"
        Gain of label y: 2^y - 1, for grades (integers from 0 to 31); or y, for any labels >= 0.
        Not used with uniform weights.
    discount : {"log2", "letor"}, default="log2"
        Discount of rank r in DCG: 1 / log2(1 + r); or 1 / log2(r), and 1 at ranks 1 and 2.  Not
        used with uniform weights.
    truncation : int, default=30
        For "lambda": only pairs with an item among this many first ranks count.  They are listed,
        and take about 160 bytes each.
    n_reweight : int, default=1
        For "lambda": how often the pairs get new weights, and the model is fitted again.
    scaling : {"auto", "standard", "minmax", "robust", "quantile"} or None, default="auto"
        How the features are put on one scale, found from the training items: divided by their
        standard deviation, by their range, or by the distance of their quartiles; or mapped to the
        quantiles of a normal distribution.  "auto" is "standard", and None for sparse X.
        "standard", "minmax" and "robust" cost no copy of X and change only how strongly each weight
        is regularized: ``coef_`` is for features as they are.
    query_features : list or tuple of str, default=()
        More features: how every feature x compares with that of the other items of the query.
        "rank" (rank of x / number of items), "minmax" ((x - min) / (max - min)), "zscore"
        ((x - mean) / standard deviation), "mean_diff" (x - mean).  They come before the scaling.
        ``predict`` then needs ``qid``, and all items of each query.
    keep_features : bool, default=True
        Whether the features themselves are used beside their ``query_features``.
    solver : {"auto", "newton", "smoothed_newton", "bundle"}, default="auto"
        Optimization algorithm.  "newton" is for the squared hinge, "smoothed_newton" for the hinge,
        "bundle" (BMRM with line search) for both; "auto" chooses "newton" or "bundle".
    counting : {"auto", "tree", "direct", "joachims", "pairs"}, default="auto"
        Algorithm that finds the violated pairs; all give the same model.
    tol : float, default=1e-4
        Stop when the certified gap is at most ``tol`` times the objective.
    max_iter : int, default=1000
        Maximum number of iterations.
    warm_start : bool, default=False
        Whether to start from ``coef_`` of the previous fit.
    n_jobs : int or None, default=None
        Number of threads; None or -1 uses all cores that the process may use.  The result does
        not depend on it.
    verbose : int, default=0
        1 logs every iteration (logger "ranksvm") and prints it.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights of the features; with ``query_features`` more of them, in this order: the weights of
        the features (if they are kept), those of their first feature of the query, and so on.
    scaling_ : Scaling or None
        Knots and levels of ``scaling="quantile"``; None otherwise.
    objective_ : float
        Upper bound of the objective at ``coef_`` that includes rounding errors.
    gap_ : float
        Certified optimality gap: the objective at ``coef_`` and the optimum both lie between
        ``objective_ - gap_`` and ``objective_``.
    n_iter_ : int
        Number of iterations.
    n_products_ : int
        Number of products with X or its transpose.
    n_pairs_ : int
        Number of comparable pairs of positive weight.
    status_ : str
        "converged", "max_iter", "stalled" (rounding errors prevent further progress) or "stopped"
        (by the callback).
    history_ : list of TraceRow
        One row per iteration: iteration, objective, gap, n_products, inner_iterations, seconds;
        ``metric`` on ``eval_set`` (None without one); and ``round``, from 0 to ``n_reweight`` with
        ``pair_weight="lambda"``.  ``objective_``, ``gap_`` and ``n_pairs_`` are those of the last
        round; ``status_`` is "converged" if all rounds are.  Empty in a model that was loaded from
        a file.
    eval_metric_ : str or None
        Name of the metric on ``eval_set``.
    feature_importances_ : ndarray of shape (n_features_in_,)
        ``|coef_|`` times the standard deviation of the feature in the training items, divided by
        the sum over all features.  With ``query_features``, the columns that are made of a feature
        count for it.  Not there after a fit to files with another scaling than "standard".
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when X had feature names.

    Notes
    -----
    The objective is 1/2 |w|^2 + C * (sum, mean or mean over queries of the losses).  C for "sum" is
    C for "mean" divided by the total weight of the pairs (their number, without weights).  In the
    notation (mean loss) + lambda |w|^2, C is 1 / (2 lambda) with "mean".

    Examples
    --------
    >>> from ranksvm import LinearRankSVM
    >>> X = [[3.0, 1.0], [1.0, 0.0], [2.0, 1.0], [0.0, 3.0], [1.0, 2.0]]
    >>> y = [2, 0, 1, 0, 1]
    >>> qid = ["a", "a", "a", "b", "b"]
    >>> model = LinearRankSVM().fit(X, y, qid=qid)
    >>> model.rank(X, qid=qid)
    array([1, 3, 2, 2, 1])
    >>> model.gap_ <= 1e-4 * model.objective_
    True
    """

    coef_: Array
    _deviation: Array | None = None

    def __init__(
        self,
        C: float = 5.0,
        *,
        loss: str = "squared_hinge",
        reduction: str = "mean",
        pair_weight: str = "uniform",
        gain: str = "exp2",
        discount: str = "log2",
        truncation: int = 30,
        n_reweight: int = 1,
        scaling: str | None = "auto",
        query_features: Sequence[str] = (),
        keep_features: bool = True,
        solver: str = "auto",
        counting: str = "auto",
        tol: float = 1e-4,
        max_iter: int = 1000,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.loss = loss
        self.reduction = reduction
        self.pair_weight = pair_weight
        self.gain = gain
        self.discount = discount
        self.truncation = truncation
        self.n_reweight = n_reweight
        self.scaling = scaling
        self.query_features = query_features
        self.keep_features = keep_features
        self.solver = solver
        self.counting = counting
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        qid: ArrayLike | None = None,
        *,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: Any = None,
        eval_set: Any = None,
        eval_qid: ArrayLike | str | None = None,
        eval_group: ArrayLike | str | None = None,
        eval_metric: EvalMetric | None = None,
        callback: Callback | None = None,
        callbacks: Sequence[Callback] | None = None,
        **unknown: Any,
    ) -> Self:
        """Fit the model to labeled items.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_items, n_features)
            Features; dense, CSR or CSC, float32 or float64.  If X is a data frame (pandas, polars,
            Arrow), the next four arguments may be names of its columns, which are then not used as
            features.
        y : array-like of shape (n_items,) or str
            Labels: any real numbers; larger is better.
        qid : array-like of shape (n_items,), str or None, default=None
            Query id of each item: integers or strings, in any row order.  Only items of the same
            query are compared.  None: all items belong to one ranking.
        group : array-like of shape (n_items,) or (n_queries,), str or None, default=None
            Another name of ``qid``.  Also the sizes of the queries, as in LightGBM: if there are
            fewer values than rows, and their sum is the number of rows, which are then sorted by
            query.  The log (``verbose=1`` prints it) says so.
        sample_weight : array-like of shape (n_items,), str or None, default=None
            Weight of each item.  The weight of a pair is the product of the weights of its items
            and the weight of its query.
        query_weight : array-like of shape (n_queries,), mapping or None, default=None
            Weight of each query, in order of first appearance, or as a mapping from query id.
        eval_set : tuple (X, y) or (X, y, qid), frame or None, default=None
            Evaluation set: the rows of ``history_`` have the metric of the best coefficients so far
            on it.  It does not change the fit.  If y and qid are names of columns, a frame with the
            same columns is enough.  A list of one such tuple is taken for it.
        eval_qid, eval_group : array-like or None, default=None
            Query ids of ``eval_set``, if it is a tuple (X, y).  ``eval_group`` may be sizes of the
            queries, like ``group``.
        eval_metric : str, callable or None, default=None
            Metric on ``eval_set``: a name such as "ndcg@10", or a function that is called as
            ``eval_metric(y, scores, qid)``; larger is better.  None: "ndcg@10" if the labels are
            grades (integers from 0 to 31) and there are queries, otherwise "pairwise_accuracy".
        callback : callable or None, default=None
            Called as ``callback(row, coef)`` after every iteration with a ``TraceRow`` and the best
            coefficients so far.  A true return value stops the fit.
        callbacks : list of callables or None, default=None
            More callbacks, all of which are called.  An exception in one ends the fit, and the
            model stays as it was before.

        Returns
        -------
        self
        """
        refuse_unknown(self, self.fit, unknown)
        with fitting(self):
            settings = self._settings(LinearSettings)
            data = training_data(
                self, X, y, qid, group=group, sample_weight=sample_weight, query_weight=query_weight
            )
            evaluated = evaluation(
                self, data, settings, y, qid if group is None else group, eval_set=eval_set,
                eval_qid=eval_qid, eval_group=eval_group, eval_metric=eval_metric,
            )  # fmt: skip
            told = joined(callback, callbacks)
            fit = self._fit_data(data, settings, told, evaluated=evaluated, start=self._start())
        self._warn_if_early(fit)
        return self

    def fit_files(
        self,
        paths: Any,
        y: Any = "label",
        qid: Any = "qid",
        *,
        sample_weight: Any = None,
        query_weight: Any = None,
        columns: Sequence[str] | None = None,
        memory_budget: int | str = "4GB",
        dtype: str | None = None,
        cache: str | os.PathLike[str] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """Fit the model to data in files, which may be larger than memory.

        The result is that of ``fit`` up to rounding errors.

        Parameters
        ----------
        paths : path, array, or sequence of these
            Parquet files, LETOR text (plain or compressed), ``.npy`` files or ``np.memmap`` arrays;
            also a folder of such files, or a pattern such as ``"train/*.parquet"``.  Several files
            are one data set.
        y, qid : str, array, path or None, default="label" and "qid"
            Labels and query ids: columns of Parquet files, or arrays or ``.npy`` files that belong
            to the array.  LETOR text has its own.  ``qid=None``: all items belong to one ranking.
        sample_weight : str, array, path or None, default=None
            Weight of each item, given like ``y``.
        query_weight : array-like of shape (n_queries,), mapping or None, default=None
            As in ``fit``.
        columns : sequence of str or None, default=None
            Columns of Parquet files to use as features; None for all other columns.
        memory_budget : int or str, default="4GB"
            Memory to use.  More memory keeps more of the data from one pass to the next.
        dtype : {"float32", "float64"} or None, default=None
            Type in which features are read, and kept for LETOR text.  "float32" takes half of the
            memory, and rounds values that need more digits.  None: float64 for LETOR text; for
            other files, float32 if it represents all values exactly, else float64.
        cache : path-like or None, default=None
            Folder for the binary form of LETOR text, which is created once.  None: beside the text.
        checkpoint : path-like or None, default=None
            File that keeps the coefficients after every iteration (.npz).  If the fit is
            interrupted, the same call continues from it.  It is removed after a complete fit.
        callback : callable or None, default=None
            As in ``fit``.

        Returns
        -------
        self
        """
        with fitting(self):
            settings = self._settings(LinearSettings)
            data = file_data(
                self, paths, y, qid, sample_weight=sample_weight, query_weight=query_weight,
                columns=columns, memory_budget=memory_budget, dtype=dtype, cache=cache,
                fit=settings,
            )  # fmt: skip
            fit = self._fit_data(
                data, settings, callback, checkpoint=checkpoint, start=self._start()
            )
        self._warn_if_early(fit)
        return self

    def fit_pairs(
        self,
        X: Any,
        better: ArrayLike,
        worse: ArrayLike,
        *,
        weight: ArrayLike | None = None,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: Any = None,
        callback: Callback | None = None,
        **unknown: Any,
    ) -> Self:
        """Fit the model to explicit pairs of a better and a worse item, with or without labels.

        An evaluation costs O(n_pairs) and two products with X (with the rows that occur in a pair,
        if these are at most half of X), in addition to the cost of the labels.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_items, n_features)
            As in ``fit``.
        better, worse : array-like of shape (n_pairs,)
            Row numbers of X, from 0: ``better[p]`` should be ranked above ``worse[p]``.  The two
            items may belong to different queries.  Pairs may be repeated, and may contradict each
            other; a warning says how many do.
        weight : array-like of shape (n_pairs,) or None, default=None
            Weight of each pair; None means 1.
        y : array-like of shape (n_items,), str or None, default=None
            Labels.  If given, all pairs of items of a query with different labels count as well, as
            in ``fit``.  A given pair that follows from the labels, too, counts twice; a warning
            says how many do.
        qid : array-like of shape (n_items,), str or None, default=None
            Query id of each item.  A pair of two items of a query belongs to this query; all pairs
            across queries together form one more query.
        group : array-like of shape (n_items,), str or None, default=None
            Alias of ``qid``.
        sample_weight : array-like of shape (n_items,), str or None, default=None
            Weight of each item in the pairs that follow from the labels.
        query_weight : array-like of shape (n_queries,), mapping or None, default=None
            Weight of each query, for pairs of both kinds.  Pairs across queries have no query
            weight.
        callback : callable or None, default=None
            As in ``fit``.

        Returns
        -------
        self

        Notes
        -----
        ``reduction="mean"`` divides by the total weight of the pairs of both kinds.
        ``"query_mean"`` is the mean over queries of the mean over all pairs of a query, of both
        kinds; without ``qid``, all given pairs together are a query of weight 1, apart from those
        that follow from the labels.  ``counting`` applies to the pairs that follow from labels.

        Examples
        --------
        >>> from ranksvm import LinearRankSVM
        >>> X = [[3.0, 1.0], [1.0, 0.0], [2.0, 1.0], [0.0, 3.0]]
        >>> model = LinearRankSVM().fit_pairs(X, better=[0, 2, 0], worse=[1, 1, 3])
        >>> model.score_pairs(X, better=[0, 2, 0], worse=[1, 1, 3])
        1.0
        >>> model.n_pairs_
        3
        """
        refuse_unknown(self, self.fit_pairs, unknown)
        with fitting(self):
            settings = self._settings(LinearSettings)
            pairs = (better, worse, weight)
            data = pair_data(self, X, pairs, y, qid, group, sample_weight, query_weight)
            fit = self._fit_data(data, settings, callback, start=self._start())
        self._warn_if_early(fit)
        return self

    def _start(self) -> Array | None:
        """Return the weights to start from; None for zero."""
        coef: Array = getattr(self, "coef_", np.empty(0))
        n_columns = (len(self.query_features) + bool(self.keep_features)) * self.n_features_in_
        return coef.copy() if self.warm_start and coef.shape == (n_columns,) else None

    def _set_model(self, model: LinearModel) -> None:
        self.coef_, self._deviation = model.coef, model.deviation

    def _get_model(self) -> LinearModel:
        return LinearModel(coef=self.coef_, deviation=self._deviation, **self._about())
