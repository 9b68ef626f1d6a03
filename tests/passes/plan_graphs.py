"""Look into the graphs of the plans of a session."""

from __future__ import annotations

import tfjit


def ops_of(session: tfjit.Session) -> set[str]:
    """Op types of a plan and the bodies in it."""
    found: set[str] = set()
    for plan in session._runtime_session.plan_cache.plans():
        for variant in plan.variants.values():
            for partition in variant.partitions:
                graphs = [partition.graph]
                while graphs:
                    graph = graphs.pop()
                    found |= {node.op for node in graph.op_nodes()}
                    graphs += [
                        body for bodies in graph.graph.get("bodies", {}).values() for body in bodies
                    ]
    return found
