"""Partitions written node by node, for one worker."""

from __future__ import annotations

from typing import Any

from tfjit import protos
from tfjit.distributed.protocol.interfaces import GraphCall, WorkerSessionCall
from tfjit.distributed.worker.worker import Worker
from tfjit.framework.types import dtypes
from tfjit.runtime.host.rendezvous import create_key

TASK = "/job:worker/replica:0/task:0"
OTHER = "/job:worker/replica:0/task:1/device:CPU:0"


class OneWorker:
    """A worker with one session, and the nodes of its partitions."""

    def __init__(self, peers: dict[str, str] | None = None) -> None:
        self.worker = Worker(TASK, None, peers or {})
        self.device = self.worker.devices.default.name
        self.incarnation = self.worker.devices.default.incarnation
        self.worker.create_worker_session(WorkerSessionCall("s"))

    def __enter__(self) -> OneWorker:
        return self

    def __exit__(self, *raised: object) -> None:
        self.worker.close()

    def node(self, name: str, op: str, *inputs: str, dtype: Any = dtypes.float32) -> Any:
        """Return a node with attr T."""
        made = protos.NodeDef(name=name, op=op, device=self.device, input=inputs)
        if dtype is not None:
            made.attr["T"].type = dtype.as_datatype_enum
        return made

    def receive(
        self, name: str, tensor: str = "", source: str = "", dtype: Any = dtypes.float32
    ) -> Any:
        """Return a receive, of the client unless there is a source."""
        made = self.node(name, "_Recv", dtype=None)
        made.attr["tensor_type"].type = dtype.as_datatype_enum
        self._ends(made, tensor or f"{name}:0", source or self.device, self.device, not source)
        return made

    def send(self, name: str, value: str, tensor: str = "", target: str = "") -> Any:
        """Return a send, to the client unless there is a target."""
        made = self.node(name, "_Send", value)
        self._ends(made, tensor or f"{value}:0", self.device, target or self.device, not target)
        return made

    def _ends(self, made: Any, tensor: str, source: str, target: str, client: bool) -> None:
        made.attr["tensor_name"].s = tensor.encode()
        made.attr["send_device"].s = source.encode()
        made.attr["send_device_incarnation"].i = self.incarnation
        made.attr["recv_device"].s = target.encode()
        made.attr["client_terminated"].b = client

    def key(self, tensor: str, source: str = "", target: str = "") -> str:
        """Return the key of a tensor."""
        return create_key(source or self.device, self.incarnation, target or self.device, tensor)

    def register(self, *nodes: Any, session: str = "s") -> str:
        """Return the handle of a partition of these nodes."""
        graph = protos.GraphDef(node=nodes)
        graph.versions.producer = 2000
        return self.worker.register_graph(session, graph)

    def square(self) -> str:
        """Return the handle of a partition that squares x into y."""
        return self.register(
            self.receive("x"), self.node("y", "Square", "x"), self.send("out", "y")
        )

    def call(self, graph: str, step: int, feeds: Any, fetches: Any, **options: Any) -> GraphCall:
        """Return a call with feeds and fetches by tensor."""
        return GraphCall(
            options.pop("session", "s"),
            graph,
            step,
            {self.key(name): value for name, value in feeds.items()},
            [self.key(name) for name in fetches],
            **options,
        )

    def run(self, graph: str, step: int, feeds: Any, fetches: Any, **options: Any) -> list[Any]:
        """Run a partition; return the fetched values."""
        result = self.worker.run_graph(self.call(graph, step, feeds, fetches, **options))
        return [result.fetches[self.key(name)] for name in fetches]
