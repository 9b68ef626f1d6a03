"""The ServerDef of a task: its cluster, place and address."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any, Final

from tfjit.distributed.protocol.task_names import task_name
from tfjit.framework import errors
from tfjit.framework.types.cluster_spec import ClusterSpec

PROTOCOL: Final = "grpc"
_FACTORIES: Final = "The available server factories are: [ GRPC_SERVER ]"
LOOPBACK: Final = "127.0.0.1"


def make_server_def(
    server_or_cluster_def: Any,
    job_name: str | None = None,
    task_index: int | None = None,
    protocol: str | None = None,
    config: Any = None,
) -> Any:
    """Return a ServerDef.

    What the arguments leave out comes from the first, or is the only job and task. Raises TypeError
    for a first argument of another type, ValueError for a job or task that cannot be inferred.
    """
    from tfjit.protos import ServerDef

    server_def = ServerDef()
    descriptor = getattr(server_or_cluster_def, "DESCRIPTOR", None)
    if descriptor is not None and descriptor.name == "ServerDef":
        server_def.MergeFromString(server_or_cluster_def.SerializeToString())
    else:
        try:
            cluster = ClusterSpec(server_or_cluster_def)
        except TypeError:
            raise TypeError(
                "Could not convert `server_or_cluster_def` to a `tf.train.ServerDef` or "
                "`tf.train.ClusterSpec`."
            ) from None
        server_def.cluster.CopyFrom(cluster.as_cluster_def())
        if job_name is None:
            job_name = _only(cluster.jobs, "job_name")
        if task_index is None:
            task_index = _only(cluster.task_indices(job_name), "task_index")
        protocol = PROTOCOL if protocol is None else protocol
    if job_name is not None:
        server_def.job_name = job_name
    if task_index is not None:
        server_def.task_index = task_index
    if protocol is not None:
        server_def.protocol = protocol
    if config is not None:
        server_def.default_session_config.MergeFromString(config.SerializeToString())
    return server_def


def _only(choices: list[Any], argument: str) -> Any:
    """Return the only choice. Raises ValueError for none or several."""
    if len(choices) != 1:
        raise ValueError(f"Must specify an explicit `{argument}`.")
    return choices[0]


@dataclass(frozen=True, slots=True)
class Place:
    """A task's name and address, and those of its cluster's other tasks.

    port: 0 for a free one. others: task -> "host:port".
    """

    task: str
    host: str
    port: int
    others: dict[str, str]

    @property
    def bind_host(self) -> str | None:
        """The loopback interface that the address names, or None."""
        if self.host in ("localhost", ""):
            return LOOPBACK
        try:
            literal = ipaddress.ip_address(self.host.strip("[]"))
        except ValueError:
            return None
        return self.host if literal.is_loopback else None


def find_place(server_def: Any) -> Place:
    """Return the place of the ServerDef's own task.

    Raises NotFoundError for another protocol than gRPC, InternalError for a job or task that the
    cluster has not, InvalidArgumentError for an address that is none.
    """
    if server_def.protocol != PROTOCOL:
        raise errors.NotFoundError(
            None,
            None,
            f"No server factory registered for the given ServerDef: {server_def}\n{_FACTORIES}",
        )
    jobs = {job.name: dict(job.tasks) for job in server_def.cluster.job}
    name, index = server_def.job_name, server_def.task_index
    if name not in jobs:
        raise errors.InternalError(None, None, f'Job "{name}" was not defined in cluster')
    if index not in jobs[name]:
        raise errors.InternalError(None, None, f'Task {index} was not defined in job "{name}"')
    own = jobs[name][index]
    host, port = _divided(own)
    if port is None:
        raise errors.InvalidArgumentError(
            None, None, f'Could not parse port for local server from "{own}".'
        )
    others = {}
    for job, tasks in jobs.items():
        for task, address in tasks.items():
            if (job, task) == (name, index):
                continue
            if _divided(address)[1] is None:
                raise _no_address(address)
            others[task_name(job, task, server_def.replica)] = address
    if "/" in host:
        raise _no_address(own)
    return Place(task_name(name, index, server_def.replica), host, server_def.port or port, others)


def _divided(address: str) -> tuple[str, int | None]:
    """Return (host, port) of an address, the port None if faulty."""
    host, _, port = address.rpartition(":")
    is_port = port.isascii() and port.isdigit() and int(port) < 1 << 16
    return host, int(port) if host and is_port else None


def _no_address(address: str) -> errors.OpError:
    return errors.InvalidArgumentError(
        None, None, f'Could not interpret "{address}" as a host-port pair.'
    )


__all__ = ["LOOPBACK", "PROTOCOL", "Place", "find_place", "make_server_def"]
