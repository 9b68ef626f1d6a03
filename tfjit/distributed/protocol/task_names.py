"""The names of tasks, which are the prefixes of their devices' names."""

from __future__ import annotations

from typing import Any


def task_name(job: str, index: int, replica: int = 0) -> str:
    """Return the name of a task: "/job:worker/replica:0/task:1"."""
    return f"/job:{job}/replica:{replica}/task:{index}"


def task_of(device: str) -> str:
    """Return the task in a full name of a device or task."""
    return device.partition("/device:")[0]


def addresses_of(cluster_def: Any) -> dict[str, str]:
    """Return the addresses in a ClusterDef by task."""
    return {
        task_name(job.name, index): address
        for job in cluster_def.job
        for index, address in sorted(job.tasks.items())
    }


__all__ = ["addresses_of", "task_name", "task_of"]
