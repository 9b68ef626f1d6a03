"""TensorFlow's servers in this process as the workers of a master."""

from __future__ import annotations

import functools
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

from tfjit import protos
from tfjit.distributed.master.master import Master
from tfjit.distributed.protocol.interfaces import StepCall

tf1 = tf.compat.v1
JOB = "w"
TASKS = 3


def free_address() -> str:
    """Return an address of this machine that nobody serves."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@functools.cache
def servers() -> tuple[Any, ...]:
    """Return the servers of three tasks, which the process never stops."""
    spec = tf1.train.ClusterSpec({JOB: [free_address() for _ in range(TASKS)]})
    return tuple(
        tf1.train.Server(spec, job_name=JOB, task_index=index, protocol="grpc")
        for index in range(TASKS)
    )


def addresses() -> dict[str, str]:
    """Return the servers' addresses by task."""
    return {
        f"/job:{JOB}/replica:0/task:{index}": server.target.removeprefix("grpc://")
        for index, server in enumerate(servers())
    }


@contextmanager
def tensorflow_master(**arguments: Any) -> Iterator[Master]:
    """Give a master in the place of task 0, over TensorFlow's workers."""
    made = Master(f"/job:{JOB}/replica:0/task:0", addresses(), **arguments)
    try:
        yield made
    finally:
        made.reset([], [])
        made.close()


def ours(message: Any, kind: Any = None) -> Any:
    """Return one of TensorFlow's messages as ours of the same name."""
    kind = kind or getattr(protos, type(message).__name__)
    return kind.FromString(message.SerializeToString())


class MasterClient:
    """A session of a master with the calls of tf.Session."""

    def __init__(self, master: Master, graph: Any, **config: Any) -> None:
        self.master = master
        made = protos.ConfigProto(**config)
        self.handle, self.version = master.create_session(ours(graph.as_graph_def()), made)

    def run(self, fetches: Any, feeds: Any = None, **arguments: Any) -> Any:
        """Return the values of fetches: tensors, operations, or a list of them."""
        listed = fetches if isinstance(fetches, (list, tuple)) else [fetches]
        tensors = [item.name for item in listed if not isinstance(item, tf.Operation)]
        targets = [item.name for item in listed if isinstance(item, tf.Operation)]
        values = iter(self.step(tensors, feeds, targets, **arguments)[0])
        found = [None if isinstance(item, tf.Operation) else next(values) for item in listed]
        return found if isinstance(fetches, (list, tuple)) else found[0]

    def step(
        self, fetches: Sequence[str], feeds: Any = None, targets: Sequence[str] = (), **call: Any
    ) -> tuple[list[Any], Any]:
        """Run a step by names; return (values, metadata)."""
        fed = [
            (tensor.name, np.asarray(value, tensor.dtype.as_numpy_dtype))
            for tensor, value in (feeds or {}).items()
        ]
        return self.master.run_step(StepCall(self.handle, fed, fetches, targets, **call))

    def close(self) -> None:
        """Close the session."""
        self.master.close_session(self.handle)
