"""Synthetic ranking data sets for tests, examples and benchmarks."""

from ranksvm.data.benchmark_sets import make_cadata_like, make_reuters_like
from ranksvm.data.synthetic import make_letor_like, make_ranking

__all__ = [
    "make_cadata_like",
    "make_letor_like",
    "make_ranking",
    "make_reuters_like",
]
