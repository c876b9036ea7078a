"""Benchmarks of ranksvm: ``python -m benchmarks``; see README.md beside this file."""
