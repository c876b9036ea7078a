"""Kernel features as scikit-learn transformers, which turn a linear model into a kernel model.

>>> from sklearn.pipeline import make_pipeline
>>> from ranksvm import LinearRankSVM
>>> from ranksvm.kernel_approximation import Nystroem
>>> model = make_pipeline(Nystroem(n_components=200), LinearRankSVM())

scikit-learn has ``Nystroem`` and ``RBFSampler``, too.  The transformers here improve the quality of
the features: landmarks from k-means or leverage scores need fewer components for the same error;
truncation of small eigenvalues makes duplicate landmarks harmless; and random Fourier features have
orthogonal frequencies and support the laplacian kernel.  Values are computed by the library's own
multithreaded kernels, from dense or sparse items, in float64 or float32.
``gamma`` is defined as everywhere in this library, exp(-gamma |x - z|^2), and has the default of
scikit-learn's SVMs.
"""

from __future__ import annotations

# mypy: allow-subclassing-any
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ranksvm._checks import check_choice
from ranksvm._sparse import canonical_csr, is_sparse
from ranksvm._threads import resolve_n_jobs
from ranksvm._vectors import Array
from ranksvm.estimators.inputs import check_X, fitting
from ranksvm.maps.features import FourierBasis, NystroemBasis, make_fourier, make_nystroem
from ranksvm.maps.kernels import DTYPES, KERNELS, Kernel, resolve_gamma
from ranksvm.maps.landmarks import Seed

__all__ = ["Nystroem", "RandomFourier"]


class _KernelFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base class of both transformers: checks, ``transform``, and names of output features."""

    dtype: str
    n_jobs: int | None
    n_features_in_: int
    basis_: NystroemBasis | FourierBasis
    _frame_columns: frozenset[str] = frozenset()  # every column of a frame is a feature

    def transform(self, X: Any) -> NDArray[Any]:
        """Compute the kernel features of items.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_items, n_features)
            Items.

        Returns
        -------
        ndarray of shape (n_items, n_features_out), of type ``dtype``
        """
        check_is_fitted(self)
        X = self._check_items(X, reset=False)
        return self.basis_.features(X, np.dtype(self.dtype), resolve_n_jobs(self.n_jobs))

    @property
    def _n_features_out(self) -> int:
        return self.basis_.n_features

    def _check_items(self, X: Any, *, reset: bool) -> Any:
        X = check_X(self, X, reset=reset)
        return canonical_csr(X) if is_sparse(X) else X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = [str(self.dtype)]
        return tags


class Nystroem(_KernelFeatures):
    """Nystrom features of any kernel, from its values at a set of items, the landmarks.

    Parameters
    ----------
    kernel : {"rbf", "laplacian", "poly", "linear", "sigmoid"} or callable, default="rbf"
        Kernel function.  A callable ``f(X, Z)`` returns the values of all pairs, shape (n_X, n_Z).
        The kernel must be positive semi-definite, which "sigmoid" is not for most parameters.
    gamma : float, "scale" or "auto", default="scale"
        Kernel coefficient.  "scale" means 1 / (n_features * variance of X), "auto" means
        1 / n_features.
    degree : int, default=3
        Degree of the kernel "poly".
    coef0 : float, default=1.0
        Constant term of the kernels "poly" and "sigmoid".
    n_components : int, default=500
        Number of landmarks.  If there are fewer items, all of them are landmarks, with a warning.
    landmarks : {"uniform", "kmeans", "leverage"}, default="uniform"
        How landmarks are chosen: items drawn at random, centroids, or items drawn by their
        leverage; see :mod:`ranksvm.maps.landmarks`.
    dtype : {"float64", "float32"}, default="float64"
        Type of the features.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None, default=None
        Seed or random number generator.
    n_jobs : int or None, default=None
        Number of threads; None or -1 uses all cores that the process may use.

    Attributes
    ----------
    components_ : ndarray or CSR of shape (n_landmarks, n_features)
        The landmarks: ``n_components``, or all items if there are fewer.
    normalization_ : ndarray of shape (n_landmarks, n_features_out)
        The features are the kernel values at the landmarks times this matrix.  There are fewer
        features than landmarks if some landmarks are redundant.
    gamma_ : float
        Kernel coefficient used.
    basis_ : NystroemBasis
        The fitted transformation.
    n_features_in_ : int
        Number of features of the items.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Feature names of the items, if X had any.

    Examples
    --------
    >>> import numpy as np
    >>> from ranksvm.kernel_approximation import Nystroem
    >>> X = np.random.default_rng(0).random((50, 3))
    >>> Nystroem(n_components=10, random_state=0).fit_transform(X).shape
    (50, 10)
    """

    components_: Any
    normalization_: Array
    gamma_: float

    def __init__(
        self,
        kernel: str | Callable[[Any, Any], Any] = "rbf",
        *,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        n_components: int = 500,
        landmarks: str = "uniform",
        dtype: str = "float64",
        random_state: Seed = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_components = n_components
        self.landmarks = landmarks
        self.dtype = dtype
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Nystroem:
        """Choose the landmarks.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_items, n_features)
            Items.
        y : None
            Ignored.

        Returns
        -------
        self : Nystroem
        """
        del y
        check_choice("dtype", self.dtype, DTYPES)
        if not callable(self.kernel):
            check_choice("kernel", self.kernel, KERNELS)
        with fitting(self):
            X = self._check_items(X, reset=True)
            gamma = resolve_gamma(self.gamma, X)
            self.basis_ = basis = make_nystroem(
                X,
                Kernel(self.kernel, gamma, self.coef0, self.degree),
                self.n_components,
                self.landmarks,
                seed=self.random_state,
                n_threads=resolve_n_jobs(self.n_jobs),
            )
        self.gamma_ = gamma
        self.components_ = basis.landmarks
        self.normalization_ = basis.whitening
        return self


class RandomFourier(_KernelFeatures):
    """Random Fourier features, whose inner products approximate a kernel of x - z.

    Parameters
    ----------
    kernel : {"rbf", "laplacian"}, default="rbf"
        Kernel function.
    gamma : float, "scale" or "auto", default="scale"
        Kernel coefficient.  "scale" means 1 / (n_features * variance of X), "auto" means
        1 / n_features.
    n_components : int, default=500
        Number of features.
    orthogonal : bool, default=True
        Whether the frequencies for "rbf" are orthogonal in groups of n_features, which reduces the
        error at no cost.  It has no effect for "laplacian".
    dtype : {"float64", "float32"}, default="float64"
        Type of the features.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None, default=None
        Seed or random number generator.
    n_jobs : int or None, default=None
        Number of threads; None or -1 uses all cores that the process may use.

    Attributes
    ----------
    frequencies_ : ndarray of shape (n_components, n_features)
        Frequencies.
    shifts_ : ndarray of shape (n_components,)
        Phases.  Feature j is sqrt(2 / n_components) cos(x . frequencies_[j] + shifts_[j]).
    gamma_ : float
        Kernel coefficient used.
    basis_ : FourierBasis
        The fitted transformation.
    n_features_in_ : int
        Number of features of the items.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Feature names of the items, if X had any.

    Examples
    --------
    >>> import numpy as np
    >>> from ranksvm.kernel_approximation import RandomFourier
    >>> X = np.random.default_rng(0).random((50, 3))
    >>> RandomFourier(n_components=10, random_state=0).fit_transform(X).shape
    (50, 10)
    """

    frequencies_: Array
    shifts_: Array
    gamma_: float

    def __init__(
        self,
        kernel: str = "rbf",
        *,
        gamma: float | str = "scale",
        n_components: int = 500,
        orthogonal: bool = True,
        dtype: str = "float64",
        random_state: Seed = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.n_components = n_components
        self.orthogonal = orthogonal
        self.dtype = dtype
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> RandomFourier:
        """Draw the frequencies.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_items, n_features)
            Items.  Only the number of features and, for gamma="scale", the variance are used.
        y : None
            Ignored.

        Returns
        -------
        self : RandomFourier
        """
        del y
        check_choice("dtype", self.dtype, DTYPES)
        with fitting(self):
            X = self._check_items(X, reset=True)
            gamma = resolve_gamma(self.gamma, X)
            self.basis_ = basis = make_fourier(
                Kernel(self.kernel, gamma),
                X.shape[1],
                self.n_components,
                orthogonal=self.orthogonal,
                seed=self.random_state,
            )
        self.gamma_ = gamma
        self.frequencies_ = basis.frequencies
        self.shifts_ = basis.shifts
        return self
