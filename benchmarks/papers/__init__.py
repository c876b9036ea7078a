"""The tables and figures of the source papers, computed anew: ``python -m benchmarks.papers``."""
