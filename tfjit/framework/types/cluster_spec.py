"""The tasks of a cluster by job: names, indices and addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_FORMS = (
    "`cluster` must be a dictionary mapping one or more job names to lists of network addresses, "
    "or a `ClusterDef` protocol buffer"
)


class ClusterSpec:
    """The address of each task of each job.

    The indices of a job's tasks may have gaps, where a task need not know all others.
    """

    def __init__(self, cluster: Any) -> None:
        """Make the spec of a cluster.

        cluster: job -> list of addresses, or job -> {index: address}; or a ClusterDef, or a
        ClusterSpec. Raises TypeError for anything else.
        """
        from tfjit.protos import ClusterDef

        message = _cluster_def_of(cluster)
        if message is not None:
            self._cluster_def = ClusterDef.FromString(message.SerializeToString())
            self._tasks: dict[Any, dict[int, Any]] = {
                job.name: dict(job.tasks) for job in self._cluster_def.job
            }
        elif isinstance(cluster, Mapping):
            self._tasks = {job: _tasks_of(job, tasks) for job, tasks in cluster.items()}
            self._cluster_def = _message_of(self._tasks)
        else:
            raise TypeError(_FORMS)

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ClusterSpec):
            return self._tasks == other._tasks
        return self._tasks == other

    __hash__ = None  # type: ignore[assignment]  # equal to dictionaries, which have no hash

    def __repr__(self) -> str:
        jobs = self.as_dict()
        return "ClusterSpec({" + ", ".join(f"{job!r}: {jobs[job]!r}" for job in sorted(jobs)) + "})"

    def as_dict(self) -> dict[Any, Any]:
        """Return job -> list of addresses, or {index: address} where indices have gaps."""
        found: dict[Any, Any] = {}
        for job, tasks in self._tasks.items():
            indices = sorted(tasks)
            if indices and indices[-1] + 1 == len(indices):
                found[job] = self.job_tasks(job)
            else:
                found[job] = {index: tasks[index] for index in indices}
        return found

    def as_cluster_def(self) -> Any:
        """Return the ClusterDef of this cluster."""
        return self._cluster_def

    @property
    def jobs(self) -> list[Any]:
        """The names of the jobs."""
        return list(self._tasks)

    def num_tasks(self, job_name: Any) -> int:
        """Return the number of tasks of a job. Raises ValueError for an unknown one."""
        return len(self._job(job_name))

    def task_indices(self, job_name: Any) -> list[int]:
        """Return the indices of a job's tasks in order.

        Raises ValueError for an unknown job.
        """
        return sorted(self._job(job_name))

    def task_address(self, job_name: Any, task_index: int) -> Any:
        """Return the address of a task. Raises ValueError for an unknown one."""
        job = self._job(job_name)
        if task_index not in job:
            raise ValueError(f"No task with index {task_index!r} in job {job_name!r}")
        return job[task_index]

    def job_tasks(self, job_name: Any) -> list[Any]:
        """Return a job's addresses by index, None where an index has no task.

        Raises ValueError for an unknown job.
        """
        job = self._job(job_name)
        addresses: list[Any] = [None] * (max(job) + 1)
        for index, address in job.items():
            addresses[index] = address
        return addresses

    def _job(self, name: Any) -> dict[int, Any]:
        if name not in self._tasks:
            raise ValueError(f"No such job in cluster: {name!r}")
        return self._tasks[name]


def _cluster_def_of(cluster: Any) -> Any:
    """Return the ClusterDef that a message or spec, TensorFlow's as well, is; else None."""
    if not hasattr(cluster, "DESCRIPTOR") and hasattr(cluster, "as_cluster_def"):
        cluster = cluster.as_cluster_def()
    descriptor = getattr(cluster, "DESCRIPTOR", None)
    return cluster if descriptor is not None and descriptor.name == "ClusterDef" else None


def _tasks_of(job: Any, tasks: Any) -> dict[int, Any]:
    """Return a job's tasks by index."""
    if isinstance(tasks, (list, tuple)):
        return dict(enumerate(tasks))
    if isinstance(tasks, Mapping):
        return {int(index): address for index, address in tasks.items()}
    raise TypeError(
        f"The tasks for job {job!r} must be a list or a dictionary from integers to strings."
    )


def _message_of(jobs: Mapping[Any, Mapping[int, Any]]) -> Any:
    """Return a ClusterDef with the jobs in the order of their names."""
    from tfjit.protos import ClusterDef

    message = ClusterDef()
    for name, tasks in sorted(jobs.items()):
        if not isinstance(name, (str, bytes)):
            raise TypeError(f"Job name {name!r} must be bytes or unicode")
        job = message.job.add()
        job.name = _text(name)
        for index, address in sorted(tasks.items()):
            if not isinstance(address, (str, bytes)):
                raise TypeError(f"Task address {address!r} must be bytes or unicode")
            job.tasks[index] = _text(address)
    return message


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
