"""Harnesses: random, damaged and hostile input for as long as they are given time.

    python -m fuzz [PART ...] --seconds 60 --seed 0        (or: make fuzz SECONDS=60 SEED=0)

A part is a module with ``run(seconds, seed)``, which returns the number of its cases; all parts are
listed in ``__main__.py``.  Case k of a run has the seed of the run plus k, so that the seed of a
case that fails, which is printed, brings it back as the first one.
"""
