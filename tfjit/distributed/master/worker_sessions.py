"""The sessions that a master opens on workers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from tfjit.distributed.master.cluster import SHORT_TIMEOUT_S, Cluster
from tfjit.distributed.master.cluster_devices import ClusterDevices, signed
from tfjit.distributed.master.concurrent_calls import call_all, first_error
from tfjit.distributed.protocol.interfaces import WorkerSessionCall
from tfjit.framework import errors
from tfjit.framework.types import device_spec
from tfjit.runtime.host.cancellation import CancellationManager

log: Final = logging.getLogger("tfjit.distributed")


def create_worker_sessions(
    cluster: Cluster,
    tasks: Sequence[str],
    session: str,
    config: Any,
    devices: ClusterDevices,
    cancellation: CancellationManager | None,
) -> None:
    """Open a session on the worker of each task.

    Raises the first error, after the sessions that were opened have been closed.
    """
    has_cluster = config is not None and bool(config.cluster_def.job)
    isolated = config is not None and (config.isolate_session_state or has_cluster)
    if (
        config is not None
        and config.experimental.share_session_state_in_clusterspec_propagation
        and has_cluster
    ):
        isolated = False
    shares = config is not None and (
        config.share_cluster_devices_in_session
        or config.experimental.share_cluster_devices_in_session
    )

    def opens(task: str) -> Callable[[], None]:
        call = WorkerSessionCall(
            session,
            _server_def(config, task) if has_cluster else None,
            isolated,
            devices.all if shares else (),
            cluster.task,
            signed(devices.client.incarnation),
        )
        return lambda: cluster.worker(task).create_worker_session(call)

    here = cluster.task if cluster.is_local(cluster.task) else ""
    outcomes = call_all({task: opens(task) for task in tasks}, here, cancellation)
    error = first_error(outcomes)
    if error is not None:
        opened = [
            task
            for task, outcome in outcomes.items()
            if outcome.error is None or isinstance(outcome.error, errors.CancelledError)
        ]
        delete_worker_sessions(cluster, opened, session)
        raise error


def _server_def(config: Any, task: str) -> Any:
    """Return the ServerDef of a task in the cluster of a config."""
    from tfjit.protos import ServerDef

    spec = device_spec.parse(task)
    return ServerDef(
        cluster=config.cluster_def,
        job_name=spec.job or "",
        task_index=spec.task or 0,
        protocol="grpc",
    )


def delete_worker_sessions(cluster: Cluster, tasks: Sequence[str], session: str) -> None:
    """Close the sessions of workers that can be reached."""

    def closes(task: str) -> Callable[[], None]:
        return lambda: cluster.worker(task, SHORT_TIMEOUT_S).delete_worker_session(session)

    here = cluster.task if cluster.is_local(cluster.task) else ""
    for task, outcome in call_all({task: closes(task) for task in tasks}, here).items():
        if outcome.error is not None:
            log.debug("DeleteWorkerSession of %s: %s", task, outcome.error)


__all__ = ["create_worker_sessions", "delete_worker_sessions"]
