"""The number of cores that this process may use.

It is the smallest of

- the cores that the CPU affinity of the process allows (``taskset``, batch systems),
- the processor time that its control groups allow (containers: ``docker run --cpus``, Kubernetes
  limits), rounded up to whole cores,
- OMP_NUM_THREADS, if set.  joblib and Dask set it in their worker processes, so that several
  workers do not use all cores each.

joblib's ``cpu_count`` knows the first two as well, but importing joblib takes longer than loading a
model and predicting with it.
"""

from __future__ import annotations

import math
import os
from functools import lru_cache
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUPS = Path("/proc/self/cgroup")


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    cores = _allowed_cores()
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if asked.isdecimal() and int(asked) > 0:
        cores = min(cores, int(asked))
    quota = _quota()
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


def _allowed_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


@lru_cache(maxsize=1)
def _quota() -> float | None:
    """Return the processor time that control groups allow, in cores; None without a limit."""
    return cgroup_quota(_CGROUPS, _OWN_CGROUPS)


def cgroup_quota(root: Path, own: Path) -> float | None:
    """Return the smallest quota of the control groups that a process is in, in cores.

    Parameters
    ----------
    root : Path
        Where the control groups are mounted.
    own : Path
        File with the groups of the process, a line ``hierarchy:controllers:path`` for each.
    """
    try:
        lines = own.read_text().splitlines()
    except (OSError, UnicodeDecodeError):  # another system, or a name in another encoding
        return None
    quotas = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        # Version 1 mounts a folder for each set of controllers, often with links beside it.
        for mount in {root / controllers, root / "cpu"} if controllers else {root}:
            quotas += _quotas_up_to(mount, path)
    found = [quota for quota in quotas if quota is not None]
    return min(found, default=None)


def _quotas_up_to(mount: Path, path: str) -> list[float | None]:
    """Return the quotas of a group and of all groups above, whose limits apply as well.

    In a container, the path may be that on the host, and the group itself is mounted as the root.
    """
    quotas = []
    group = mount / path.lstrip("/")
    for folder in (group, *group.parents):
        quotas.append(_group_quota(folder))
        if folder == mount:
            break
    return quotas


def _group_quota(folder: Path) -> float | None:
    try:
        if (folder / "cpu.max").is_file():  # version 2
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text()
            period = (folder / "cpu.cfs_period_us").read_text()
        cores = float(quota) / float(period)
    except (OSError, ValueError, ZeroDivisionError):  # not there, or "max"
        return None
    return cores if cores > 0.0 else None  # version 1 says -1 if there is no limit
