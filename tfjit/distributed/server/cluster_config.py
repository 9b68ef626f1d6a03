"""Read clusters and configurations as launchers give them: text, JSON, TF_CONFIG."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tfjit.framework.types.cluster_spec import ClusterSpec

TF_CONFIG: Final = "TF_CONFIG"
"""The environment variable by which launchers describe a cluster and a task."""


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """A cluster and a task of it; None for parts not given."""

    cluster: ClusterSpec | None = None
    job: str | None = None
    task: int | None = None
    protocol: str | None = None


def parse_tf_config(text: str) -> ClusterConfig:
    """Return what the text of TF_CONFIG says.

    `cluster`, or `sparseCluster` of Kubeflow's dynamic workers, has the addresses by job; `task`
    has `type` and `index`; `rpc_layer` is the protocol. `environment` and other entries do not
    matter to a server. Raises ValueError for text of another form.
    """
    if not text.strip():
        return ClusterConfig()
    found = _json_object(text, TF_CONFIG)
    task = found.get("task") or {}
    if not isinstance(task, dict):
        raise ValueError(f"{TF_CONFIG}: task is {task!r}, expected an object with type and index")
    job, index = task.get("type"), task.get("index")
    if job is not None and not isinstance(job, str):
        raise ValueError(
            f"{TF_CONFIG}: the type of the task is {job!r}, expected the name of a job"
        )
    if index is not None:
        try:
            index = int(index)
        except (TypeError, ValueError):
            raise ValueError(
                f"{TF_CONFIG}: the index of the task is {index!r}, expected a number"
            ) from None
    jobs = found.get("cluster") or found.get("sparseCluster")
    return ClusterConfig(
        None if not jobs else _cluster(jobs, TF_CONFIG),
        job or None,
        index,
        found.get("rpc_layer") or None,
    )


def parse_cluster(text: str) -> ClusterSpec:
    """Return the cluster of "job=host:port,host:port;..." or of JSON.

    JSON has the addresses by job, as a list or by index. Raises ValueError for text of another
    form.
    """
    text = text.strip()
    if text.startswith("{"):
        found = _json_object(text, "the cluster")
        return _cluster(found.get("cluster", found), "the cluster")
    jobs: dict[str, list[str]] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        job, equals, addresses = part.partition("=")
        tasks = [address.strip() for address in addresses.split(",")]
        if not (equals and job.strip() and all(tasks)):
            raise ValueError(f"{part!r}: expected JOB=HOST:PORT,HOST:PORT")
        if job.strip() in jobs:
            raise ValueError(f"the job {job.strip()} is given twice")
        jobs[job.strip()] = tasks
    return _cluster(jobs, "the cluster")


def parse_config(text: str) -> Any:
    """Return the ConfigProto of text or JSON. Raises ValueError for anything else."""
    from google.protobuf import json_format, text_format

    from tfjit.protos import ConfigProto

    try:
        if text.lstrip().startswith("{"):
            return json_format.Parse(text, ConfigProto())
        return text_format.Parse(text, ConfigProto())
    except (json_format.ParseError, text_format.ParseError) as error:
        raise ValueError(f"not a ConfigProto: {error}") from None


def _json_object(text: str, subject: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{subject} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{subject} is JSON, but not an object")
    return found


def _cluster(jobs: Any, subject: str) -> ClusterSpec:
    """Return the spec of a dictionary from outside.

    A single address makes a job of one task.
    """
    if not isinstance(jobs, Mapping) or not jobs:
        raise ValueError(f"{subject} has no jobs")
    tasks = {job: [found] if isinstance(found, str) else found for job, found in jobs.items()}
    try:
        return ClusterSpec(tasks)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{subject}: {error}") from None


__all__ = ["TF_CONFIG", "ClusterConfig", "parse_cluster", "parse_config", "parse_tf_config"]
