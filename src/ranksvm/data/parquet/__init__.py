"""Parquet files that are read block by block; ``source`` holds the class that others use."""
