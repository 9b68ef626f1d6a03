"""Share the plans of loop bodies among the variants of a session.

Each variant of a plan has a separate library of functions. A body that is the same for several feed
shapes is planned and compiled once: a decoder's loop, say, for all lengths of its prompt.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tfjit.passes.ir.function_library import Function, FunctionLibrary
from tfjit.runtime.host.fork_safety import release_lock

if TYPE_CHECKING:
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
    from tfjit.runtime.plan.function_plan import BodyPlan
    from tfjit.runtime.plan.host import PlanHost


class SharedBodies:
    """Hold the plans of a session's bodies by digest. Thread-safe."""

    def __init__(self) -> None:
        self._leases: dict[str, list[BodyLease]] = {}
        self._lock = threading.Lock()

    def lease(self, session: PlanHost, function: Function) -> BodyLease:
        """Return a lease of the plan of a body.

        function: its graph belongs to the plan from now on.
        """
        from tfjit.runtime.plan.function_plan import BodyPlan  # few graphs have loops of plans

        key = body_digest(function)
        if key is None:
            return BodyLease(self, "", BodyPlan(session, function))
        with self._lock:
            leases = self._leases.setdefault(key, [])
            if leases:
                function.graph.dissolve(functions=False)
                plan = leases[0].plan
            else:
                plan = BodyPlan(session, _independent(function), key)
            leases.append(BodyLease(self, key, plan))
            return leases[-1]

    def end(self, lease: BodyLease) -> bool:
        """End a lease; return whether the plan has no other."""
        if not lease.key:
            return True
        with self._lock:
            leases = self._leases[lease.key]
            leases.remove(lease)
            if leases:
                return False
            del self._leases[lease.key]
            return True

    def after_fork(self) -> None:
        """Reset locks in a forked child."""
        release_lock(self._lock)
        for leases in self._leases.values():
            leases[0].plan.after_fork()


class BodyLease:
    """A variant's right to a body's plan."""

    __slots__ = ("_bodies", "key", "plan")

    def __init__(self, bodies: SharedBodies, key: str, plan: BodyPlan) -> None:
        self._bodies, self.key, self.plan = bodies, key, plan

    def release(self) -> None:
        """Give the plan back; release a plan without leases."""
        if self._bodies.end(self):
            self.plan.release()


def body_digest(function: Function) -> str | None:
    """Return a hash of all facts that decide a plan.

    None for a body that names functions: their library is that of one variant.
    """
    graph = function.graph
    if graph.functions.reachable(graph):
        return None
    digest = hashlib.sha256(repr((function.inputs, function.outputs, function.must_run)).encode())
    for node in sorted(graph.op_nodes(), key=lambda node: node.name):
        if not _add(digest, graph, node):
            return None
    return digest.hexdigest()


def _add(digest: hashlib._Hash, graph: DataflowGraph, node: Node) -> bool:
    """Add a node to a digest; return False without a stable text."""
    described: list[object] = [node.name, node.op, node.device, node.assigned_device]
    described += [
        node.output_shapes,
        tuple(node.input_dtypes),
        tuple(node.output_dtypes),
        graph.inputs(node.name),
    ]
    described.append(sorted(graph.control_inputs(node.name)))
    for key, value in sorted(node.attrs.items()):
        if isinstance(value, np.ndarray):
            if value.dtype == object:
                return False
            described += [key, value.dtype.str, value.shape]
            digest.update(np.ascontiguousarray(value).data)
        else:
            described += [key, value]
    digest.update(repr(described).encode())
    return True


def _independent(function: Function) -> Function:
    """Return the function over a graph with a separate library."""
    graph = function.graph
    graph.functions = FunctionLibrary()
    made = graph.copy()
    graph.dissolve(functions=False)
    return replace(function, graph=made)
