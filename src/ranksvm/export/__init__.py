"""Models in the file formats of other programs."""

from ranksvm.export.svmrank import from_svmrank_c, read_svmrank, write_svmrank

__all__ = ["from_svmrank_c", "read_svmrank", "write_svmrank"]
