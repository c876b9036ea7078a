"""Training on Dask clusters, without shuffling: rows stay in the partitions they are in.

``fit`` takes Dask DataFrames, Dask Arrays, or lists of delayed objects or futures.  Queries may be
split over partitions, and the partitions may be sorted in any way: the result is that of the same
rows in memory, up to rounding.

    from dask.distributed import Client
    from ranksvm.dask import DaskLinearRankSVM

    client = Client()
    model = DaskLinearRankSVM().fit(frame, "label", qid="query")
    scores = model.predict(frame)    # lazy
    model.to_local().save("model.safetensors")
"""

from __future__ import annotations

from importlib.util import find_spec

if any(find_spec(name) is None for name in ("dask", "distributed")):
    raise ImportError("ranksvm.dask needs Dask: pip install 'ranksvm[dask]'")

from ranksvm.dask.engine import WorkersLostError
from ranksvm.dask.kernel import DaskKernelRankSVM
from ranksvm.dask.linear import DaskLinearRankSVM
from ranksvm.dask.linear_cv import DaskLinearRankSVMCV

__all__ = ["DaskKernelRankSVM", "DaskLinearRankSVM", "DaskLinearRankSVMCV", "WorkersLostError"]
