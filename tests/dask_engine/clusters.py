"""Clusters on this machine."""

from __future__ import annotations

from typing import Any

from distributed import LocalCluster


def local_cluster(n_workers: int = 2, threads: int = 1, **options: Any) -> LocalCluster:
    options = {"processes": True, "memory_limit": None, "dashboard_address": ":0", **options}
    return LocalCluster(n_workers=n_workers, threads_per_worker=threads, **options)
