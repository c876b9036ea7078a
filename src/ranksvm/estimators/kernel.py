"""Kernel RankSVM, exact and approximate.

    F(w) = 1/2 |w|^2 + C * sum over comparable pairs of  weight * loss(1 - s_better + s_worse)

with scores s_i = <w, phi(x_i)> and k(x, z) = <phi(x), phi(z)>.  The minimizer is a sum over the
items, w = sum_i beta_i phi(x_i): one unknown per item, however many pairs there are.  ``loss``,
``reduction`` and C have the same meaning as for :class:`ranksvm.LinearRankSVM`.

Approximations replace phi by m explicit features:

    nystroem    the projection of phi(x) on the span of phi(landmarks)
    fourier     sqrt(2 / m) cos(<omega, x> + b) with random omega and b; the expectation of their
                inner products is k(x, z), with an error that decreases as 1 / sqrt(m)

There are m coefficients instead of one per item, and time and memory grow with n m instead of n^2.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Self

from numpy.typing import ArrayLike

from ranksvm.estimators.callbacks import joined
from ranksvm.estimators.evaluation import EvalMetric, evaluation
from ranksvm.estimators.foreign import refuse_unknown
from ranksvm.estimators.inputs import file_data, fitting, training_data
from ranksvm.estimators.kernel_ranker import KernelRanker
from ranksvm.estimators.pair_inputs import pair_data
from ranksvm.learners.kernel import KernelSettings
from ranksvm.solvers.base import Callback


class KernelRankSVM(KernelRanker):
    """Ranking SVM with a kernel, exact or approximate, with an optimality certificate.

    Parameters
    ----------
    C : float, default=1000.0
        Weight of the loss relative to the regularizer; a larger C fits the training data more
        closely.  Its scale depends on ``reduction``.
    kernel : {"rbf", "laplacian", "poly", "sigmoid", "linear", "precomputed"} or callable, \
default="rbf"
        "rbf" is exp(-gamma |x - z|^2), "laplacian" exp(-gamma |x - z|_1), "poly"
        (gamma <x, z> + coef0)^degree, "sigmoid" tanh(gamma <x, z> + coef0), which is not positive
        semi-definite for most parameters.  With "precomputed", X is the kernel matrix, of shape
        (n_items, n_items) in ``fit`` and (n, n_items) in ``predict``.  A callable takes two arrays
        of items and returns the matrix of kernel values.
    gamma : float, "scale" or "auto", default="scale"
        Kernel coefficient.  "scale" is 1 / (n_features * X.var()), with the variance weighted by
        the sample weights; "auto" is 1 / n_features.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=1.0
        Constant term of the polynomial and sigmoid kernels.
    approximation : {None, "nystroem", "fourier"}, default=None
        Approximate kernel features; None is exact.  "fourier" works with rbf and laplacian.
    n_components : int, default=500
        Number of landmarks or random features.  If there are fewer items, all of them are
        landmarks, with a warning; items that are in no pair are never landmarks.
    landmarks : {"uniform", "kmeans", "leverage"}, default="uniform"
        How Nystrom landmarks are chosen: random items, k-means centroids, or items sampled by their
        leverage scores.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        Loss of a pair.
    reduction : {"sum", "mean", "query_mean"}, default="mean"
        How the losses of all pairs are combined; as for :class:`ranksvm.LinearRankSVM`.
    pair_weight : {"uniform", "gain", "lambda"}, default="uniform"
    gain : {"exp2", "linear"}, default="exp2"
    discount : {"log2", "letor"}, default="log2"
    truncation : int, default=30
    n_reweight : int, default=1
        What multiplies the weights of pairs; as for :class:`ranksvm.LinearRankSVM`.
    scaling : {"auto", "standard", "minmax", "robust", "quantile"} or None, default="auto"
        How the features are put on one scale, found from the training items: mean 0 and standard
        deviation 1, from 0 to 1, by median and quartiles, or mapped to the quantiles of a normal
        distribution.  Sparse features are only divided, and become dense with "quantile".  "auto"
        is "standard", and None for sparse X and for kernels that are precomputed or callable.
        ``predict`` scales new items in the same way.
    missing : {"error", "impute"}, default="error"
    min_frequency : int, float or None, default=None
        How columns of a frame become features; as for :class:`ranksvm.LinearRankSVM`.
    query_features : list or tuple of str, default=()
        More features: how every feature x compares with that of the other items of the query.
        "rank" (rank of x / number of items), "minmax" ((x - min) / (max - min)), "zscore"
        ((x - mean) / standard deviation), "mean_diff" (x - mean).  They come before the scaling.
        ``predict`` then needs ``qid``, and all items of each query.
    keep_features : bool, default=True
        Whether the features themselves are used beside their ``query_features``.
    solver : {"auto", "newton", "smoothed_newton", "bundle"}, default="auto"
        Optimization algorithm; as for :class:`ranksvm.LinearRankSVM`.
    counting : {"auto", "tree", "direct", "joachims", "pairs"}, default="auto"
        Algorithm that finds the violated pairs; all give the same model.
    tol : float, default=1e-4
        Stop when the certified gap is at most ``tol`` times the objective.
    max_iter : int, default=1000
        Maximum number of iterations.
    memory_budget : int or str, default="4GB"
        Memory for kernel values.  As much of the kernel matrix is kept as fits; the rest is
        recomputed for every product, with the same result.  The features of an approximation must
        fit.
    dtype : {"float64", "float32"}, default="float64"
        Precision of stored kernel values or features.  They are computed in float64.
    random_state : int, RandomState or None, default=None
        Seed for landmarks and random features.
    n_jobs : int or None, default=None
        Number of threads; None or -1 uses all cores that the process may use.  The result does
        not depend on it.
    verbose : int, default=0
        1 logs every iteration (logger "ranksvm") and prints it.

    Attributes
    ----------
    support_ : ndarray of int64, shape (n_support,)
        Rows of X with a coefficient other than zero; only if exact.
    dual_coef_ : ndarray of shape (n_support,)
        Their coefficients; only if exact.
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        These rows; only if exact and not precomputed.
    components_ : ndarray or CSR of shape (n_components, n_features)
        Landmarks, or frequencies; only if approximate.
    coef_ : ndarray of shape (n_components,)
        Scores are ``k(X, components_) @ coef_``, or
        ``sqrt(2 / n_components) * cos(X @ components_.T + random_offset_) @ coef_``; only if
        approximate.
    random_offset_ : ndarray of shape (n_components,)
        Only for "fourier".
    gamma_ : float
        As used; not with a precomputed kernel.
    scaling_ : Scaling or None
        How ``predict`` scales features; None without ``scaling``.
    objective_ : float
        Upper bound of the objective (of the approximate problem, if there is one) that includes
        rounding errors.
    gap_ : float
        Certified optimality gap: the objective at the coefficients and the optimum both lie between
        ``objective_ - gap_`` and ``objective_``.
    n_iter_, n_products_, n_pairs_ : int
        Number of iterations; of products with the kernel matrix, or with the features and their
        transpose; of comparable pairs of positive weight.
    status_ : str
        "converged", "max_iter", "stalled" (rounding errors prevent further progress) or "stopped"
        (by the callback).
    history_ : list of TraceRow
        One row per iteration, as for :class:`ranksvm.LinearRankSVM`; empty in a model that was
        loaded from a file.
    eval_metric_ : str or None
        Name of the metric on ``eval_set``.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when X had feature names.

    Notes
    -----
    The first prediction prepares the support vectors or components for those that follow (at most
    64 MB).  From then on, these arrays are read-only.

    Examples
    --------
    >>> import numpy as np
    >>> from ranksvm import KernelRankSVM
    >>> X = np.linspace(-1.0, 1.0, 9)[:, None]
    >>> y = -(X[:, 0] ** 2)                  # no linear function has this order
    >>> model = KernelRankSVM(C=100.0, gamma=1.0).fit(X, y)
    >>> model.score(X, y)
    1.0
    """

    def __init__(
        self,
        C: float = 1000.0,
        *,
        kernel: str | Callable[[Any, Any], Any] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        approximation: str | None = None,
        n_components: int = 500,
        landmarks: str = "uniform",
        loss: str = "squared_hinge",
        reduction: str = "mean",
        pair_weight: str = "uniform",
        gain: str = "exp2",
        discount: str = "log2",
        truncation: int = 30,
        n_reweight: int = 1,
        scaling: str | None = "auto",
        missing: str = "error",
        min_frequency: float | None = None,
        query_features: Sequence[str] = (),
        keep_features: bool = True,
        solver: str = "auto",
        counting: str = "auto",
        tol: float = 1e-4,
        max_iter: int = 1000,
        memory_budget: int | str = "4GB",
        dtype: str = "float64",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.approximation = approximation
        self.n_components = n_components
        self.landmarks = landmarks
        self.loss = loss
        self.reduction = reduction
        self.pair_weight = pair_weight
        self.gain = gain
        self.discount = discount
        self.truncation = truncation
        self.n_reweight = n_reweight
        self.scaling = scaling
        self.missing = missing
        self.min_frequency = min_frequency
        self.query_features = query_features
        self.keep_features = keep_features
        self.solver = solver
        self.counting = counting
        self.tol = tol
        self.max_iter = max_iter
        self.memory_budget = memory_budget
        self.dtype = dtype
        self.random_state = random_state
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
            As for :meth:`ranksvm.LinearRankSVM.fit`; the kernel matrix, of shape
            (n_items, n_items), if the kernel is "precomputed".
        y, qid, group, sample_weight, query_weight
            As for :meth:`ranksvm.LinearRankSVM.fit`.
        eval_set, eval_qid, eval_group, eval_metric
            As for :meth:`ranksvm.LinearRankSVM.fit`.  X of a precomputed kernel are kernel values
            with all training items.  Kernel values are computed once if ``memory_budget`` has room
            for them, otherwise in every iteration.
        callback : callable or None, default=None
            Called as ``callback(row, coef)`` after every iteration with a ``TraceRow`` and the best
            coefficients so far, one per item or feature.  A true return value stops the fit.
        callbacks : list of callables or None, default=None
            As for :meth:`ranksvm.LinearRankSVM.fit`.

        Returns
        -------
        self
        """
        refuse_unknown(self, self.fit, unknown)
        with fitting(self):
            settings = self._settings(KernelSettings)
            data = training_data(
                self, X, y, qid, group=group, sample_weight=sample_weight, query_weight=query_weight
            )
            evaluated = evaluation(
                self, data, settings, y, qid if group is None else group, eval_set=eval_set,
                eval_qid=eval_qid, eval_group=eval_group, eval_metric=eval_metric,
            )  # fmt: skip
            told = joined(callback, callbacks)
            fit = self._fit_data(data, settings, told, evaluated=evaluated)
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
        memory_budget: int | str | None = None,
        dtype: str | None = None,
        cache: str | os.PathLike[str] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """Fit the model to data in files, which may be larger than memory.

        This needs an ``approximation``.  Its features are computed in every pass over the data,
        except those that fit into memory.

        Parameters
        ----------
        paths, y, qid, sample_weight, query_weight, columns, dtype, cache, checkpoint
            As for :meth:`ranksvm.LinearRankSVM.fit_files`.
        memory_budget : int, str or None, default=None
            Memory to use; None for that of the estimator.
        callback : callable or None, default=None
            As in ``fit``.

        Returns
        -------
        self
        """
        with fitting(self):
            settings = self._settings(KernelSettings)
            data = file_data(
                self, paths, y, qid, sample_weight=sample_weight, query_weight=query_weight,
                columns=columns, dtype=dtype, cache=cache, fit=settings,
                memory_budget=self.memory_budget if memory_budget is None else memory_budget,
            )  # fmt: skip
            fit = self._fit_data(data, settings, callback, checkpoint=checkpoint)
        self._warn_if_early(fit)
        return self

    def fit_pairs(
        self,
        X: Any = None,
        better: ArrayLike | None = None,
        worse: ArrayLike | None = None,
        *,
        chosen: Any = None,
        rejected: Any = None,
        weight: ArrayLike | None = None,
        ties: tuple[Any, ...] | None = None,
        groups: ArrayLike | None = None,
        calibrate: bool = True,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: Any = None,
        callback: Callback | None = None,
        **unknown: Any,
    ) -> Self:
        """Fit the model to explicit pairs of a better and a worse item, with or without labels.

        Parameters
        ----------
        X, callback
            As in ``fit``.
        better, worse, chosen, rejected, weight, ties, groups, calibrate
            As for :meth:`ranksvm.LinearRankSVM.fit_pairs`.
        y, qid, group, sample_weight, query_weight
            As for :meth:`ranksvm.LinearRankSVM.fit_pairs`.

        Returns
        -------
        self
        """
        refuse_unknown(self, self.fit_pairs, unknown)
        with fitting(self):
            settings = self._settings(KernelSettings)
            data = pair_data(
                self, X, better, worse, chosen=chosen, rejected=rejected, weight=weight,
                ties=ties, groups=groups, calibrate=calibrate, y=y, qid=qid, group=group,
                sample_weight=sample_weight, query_weight=query_weight,
            )  # fmt: skip
            fit = self._fit_data(data, settings, callback, calibrate=calibrate)
        self._warn_if_early(fit)
        return self
