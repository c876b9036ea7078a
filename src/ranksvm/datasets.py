"""Synthetic ranking sets: the public door to :mod:`ranksvm.data.synthetic`."""

from ranksvm.data.synthetic import (
    make_cadata_like,
    make_letor_like,
    make_ranking,
    make_reuters_like,
)

__all__ = [
    "make_cadata_like",
    "make_letor_like",
    "make_ranking",
    "make_reuters_like",
]
