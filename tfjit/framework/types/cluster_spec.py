"""The tasks of a cluster by job: names, indices and addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from tfjit.protos import ClusterDef

_FORMS = (
    "`cluster` must be a dictionary mapping one or more job names to lists of network addresses, "
    "or a `ClusterDef` protocol buffer"
)


Name = str | bytes
"""A job or an address, as it was given."""


class _Message(Protocol):
    """A protobuf message of any package."""

    def SerializeToString(self) -> bytes: ...


class ClusterSpec:
    """The address of each task of each job.

    The indices of a job's tasks may have gaps, where a task need not know all others.
    """

    def __init__(self, cluster: object) -> None:
        """Make the spec of a cluster.

        cluster: job -> list of addresses, or job -> {index: address}; or a ClusterDef, or a
        ClusterSpec. Raises TypeError for anything else.
        """
        from tfjit.protos import ClusterDef

        message = _cluster_def_of(cluster)
        if message is not None:
            self._cluster_def = ClusterDef.FromString(message.SerializeToString())
            self._tasks: dict[Name, dict[int, Name]] = {
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

    def as_dict(self) -> dict[Name, list[Name | None] | dict[int, Name]]:
        """Return the addresses by job.

        They are a list, or {index: address} where the indices have gaps.
        """
        found: dict[Name, list[Name | None] | dict[int, Name]] = {}
        for job, tasks in self._tasks.items():
            indices = sorted(tasks)
            if indices and indices[-1] + 1 == len(indices):
                found[job] = self.job_tasks(job)
            else:
                found[job] = {index: tasks[index] for index in indices}
        return found

    def as_cluster_def(self) -> ClusterDef:
        """Return the ClusterDef of this cluster."""
        return self._cluster_def

    @property
    def jobs(self) -> list[Name]:
        """The names of the jobs."""
        return list(self._tasks)

    def num_tasks(self, job_name: Name) -> int:
        """Return the number of a job's tasks. Raises ValueError without such job."""
        return len(self._job(job_name))

    def task_indices(self, job_name: Name) -> list[int]:
        """Return the indices of a job's tasks in order.

        Raises ValueError for an unknown job.
        """
        return sorted(self._job(job_name))

    def task_address(self, job_name: Name, task_index: int) -> Name:
        """Return the address of a task. Raises ValueError for an unknown one."""
        job = self._job(job_name)
        if task_index not in job:
            raise ValueError(f"No task with index {task_index!r} in job {job_name!r}")
        return job[task_index]

    def job_tasks(self, job_name: Name) -> list[Name | None]:
        """Return a job's addresses by index, None in gaps.

        Raises ValueError for an unknown job.
        """
        job = self._job(job_name)
        addresses: list[Name | None] = [None] * (max(job) + 1)
        for index, address in job.items():
            addresses[index] = address
        return addresses

    def _job(self, name: Name) -> dict[int, Name]:
        if name not in self._tasks:
            raise ValueError(f"No such job in cluster: {name!r}")
        return self._tasks[name]


def _cluster_def_of(cluster: object) -> _Message | None:
    """Return the ClusterDef of a message or spec, TensorFlow's included, or None."""
    if not hasattr(cluster, "DESCRIPTOR") and hasattr(cluster, "as_cluster_def"):
        cluster = cluster.as_cluster_def()
    descriptor = getattr(cluster, "DESCRIPTOR", None)
    is_cluster = descriptor is not None and descriptor.name == "ClusterDef"
    return cast("_Message", cluster) if is_cluster else None


def _tasks_of(job: Name, tasks: object) -> dict[int, Name]:
    """Return a job's tasks by index."""
    if isinstance(tasks, (list, tuple)):
        return dict(enumerate(tasks))
    if isinstance(tasks, Mapping):
        return {int(index): address for index, address in tasks.items()}
    raise TypeError(
        f"The tasks for job {job!r} must be a list or a dictionary from integers to strings."
    )


def _message_of(jobs: Mapping[Name, Mapping[int, Name]]) -> ClusterDef:
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
