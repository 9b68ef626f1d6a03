"""A partition that a master has registered."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tfjit.distributed.worker.graph_session import GraphSession, WholePlan
from tfjit.distributed.worker.staged_graph import Receive, StagedGraph, split
from tfjit.framework import errors, settings
from tfjit.framework.op_defs.op_traits import RECV, SEND
from tfjit.framework.types.tensors import OpaqueTensor
from tfjit.passes.analysis.collective_nodes import has_collectives
from tfjit.passes.ir.dataflow_graph import SINK, Node
from tfjit.runtime.host.rendezvous import create_key, parse_key
from tfjit.runtime.op_kernels.io.transfer_ops import check_received
from tfjit.runtime.plan.pipelined_plan import as_array

if TYPE_CHECKING:
    from tfjit.runtime.collectives.collective_manager import CollectiveManager
    from tfjit.runtime.host.device import DeviceManager
    from tfjit.runtime.resources.variables_and_resources import SessionState


class RegisteredGraph:
    """A partition with its plans.

    staged: its stages, or None where it runs node by node. feeds: the client's, fetches: tensors by
    key. Raises the errors of a faulty graph.
    """

    def __init__(
        self,
        handle: str,
        graph_def: Any,
        config: Any,
        devices: DeviceManager,
        state: SessionState,
        collectives: CollectiveManager | None = None,
        collective_leader: str = "",
    ) -> None:
        self.handle = handle
        self.session = GraphSession(
            graph_def, config, devices, state, collectives, collective_leader
        )
        self._lock = threading.Lock()
        self._runs = 0
        self._retired = False
        try:
            with self.session.settings():
                self._analyse()
        except BaseException:
            self.session.close()
            self.session.destroy()
            raise

    def _analyse(self) -> None:
        graph = self.session.graph
        assert graph is not None
        feeds: list[Receive] = []
        remote: list[Receive] = []
        self.fetches: dict[str, str] = {}
        send_keys: dict[str, str] = {}
        for node in graph.op_nodes():
            if node.has_trait(RECV):
                made = Receive(node.name, f"{node.name}:0", _key(node), node.output_dtypes[0])
                (feeds if node.attrs["client_terminated"] else remote).append(made)
            elif node.has_trait(SEND):
                source, output = graph.inputs(node.name)[0]
                if node.attrs["client_terminated"]:
                    self.fetches[_key(node)] = f"{source}:{output}"
                else:
                    send_keys[node.name] = _key(node)
        self.feeds = tuple(feeds)
        self.targets = tuple(
            node.name
            for node in graph.op_nodes()
            if all(edge.dst == SINK for edge in graph.edges_out_of(node.name))
        )
        self.has_collectives = has_collectives(graph)
        stages, why, may_wait = split(self.session)
        if self.has_collectives and (remote or send_keys):
            # a collective must not hold up a tensor that another member waits for
            stages, why = [], "collectives beside tensors of other tasks"
        self.staged: StagedGraph | None = None
        if stages and self.session.straight_line and self.session.stages:
            self.staged = StagedGraph(self.session, stages, remote, send_keys, may_wait)
        elif self.targets:
            settings.say("executor", "graph %s: not in stages: %s", self.handle, why)
        self.whole = WholePlan(self.session, (), (), self.targets, ())

    def begin_collectives(self, step_id: int) -> None:
        """Note that a step of a graph with collectives begins."""
        if self.has_collectives:
            self.session.collectives.manager().begin_step(step_id)

    def fail_collectives(self, step_id: int, error: errors.OpError) -> None:
        """Refuse buffers of a failed step to members in other tasks."""
        if self.has_collectives:
            self.session.collectives.manager().fail_step(step_id, error)

    def fed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the client's values by tensor.

        Raises InvalidArgumentError for a malformed key and for a missing value, InternalError for a
        value of another dtype.
        """
        found = {}
        for receive in self.feeds:
            value = values.get(receive.key)
            if value is None:
                for key in values:
                    parse_key(key)
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"The step has no value for {receive.key} [[{{{{node {receive.node}}}}}]]",
                )
            found[receive.tensor] = self.checked(value, receive)
        return found

    @staticmethod
    def checked(value: Any, receive: Receive) -> Any:
        """Return a received value in the form of edges.

        Raises InternalError for another dtype.
        """
        if isinstance(value, OpaqueTensor):
            return value
        array = as_array(value)
        check_received(array, receive.dtype, receive.node)
        return array

    def check_fetches(self, keys: Any, step_id: int) -> None:
        """Check that the graph sends these values to the client.

        Raises InternalError for a malformed key, InvalidArgumentError for an unknown one.
        """
        for key in keys:
            if key in self.fetches:
                continue
            try:
                parse_key(key)
            except errors.InvalidArgumentError as error:
                raise errors.InternalError(
                    None,
                    None,
                    f"Failed to fetch outputs for step {step_id}. (Original error message: "
                    f"{error.message})",
                ) from None
            raise errors.InvalidArgumentError(
                None, None, f"Graph {self.handle} sends no value for {key}"
            )

    def forget_plans(self) -> None:
        """Plan later runs anew, since resources are gone."""
        if self.staged is not None:
            self.staged.drop_plans()
        self.whole.drop_all()
        self.session.forget_plans()

    def acquire(self) -> None:
        """Keep the graph for a run."""
        with self._lock:
            self._runs += 1

    def release(self) -> None:
        """End a run; the last one of a retired graph frees it."""
        with self._lock:
            self._runs -= 1
            over = self._retired and not self._runs
        if over:
            self._destroy()

    def retire(self) -> None:
        """Free the graph as soon as nothing runs it."""
        with self._lock:
            again, self._retired = self._retired, True
            over = not again and not self._runs
        if over:
            self._destroy()

    def _destroy(self) -> None:
        self.session.close()
        released = self.whole.drop_all()
        if self.staged is not None:
            for stage in self.staged.stages:
                for plan in stage.plans():
                    released += plan.drop_all()
        for variant in released:
            variant.release()
        self.session.destroy()


def _key(node: Node) -> str:
    attrs = node.attrs
    return create_key(
        attrs["send_device"].decode(),
        attrs["send_device_incarnation"],
        attrs["recv_device"].decode(),
        attrs["tensor_name"].decode(),
    )


__all__ = ["RegisteredGraph"]
