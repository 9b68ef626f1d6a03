"""Name regions and the nodes in them.

The path of a region is the path of its node and its part: "while/cond", "while/body",
"cond_1/then_branch", "case/branch_2". A nested region has the path of the outer one before it:
"while/body/cond_1/else_branch". "" is the plan's own graph.
"""

from __future__ import annotations


def region_path(outer: str, node: str, part: str) -> str:
    """Return the path of a node's part in an outer region."""
    return f"{node_path(outer, node)}/{part}"


def branch_part(number: int, is_if: bool) -> str:
    """Return the name of a branch of an If or a Case."""
    return ("then_branch", "else_branch")[number] if is_if else f"branch_{number}"


def node_path(region: str, node: str) -> str:
    """Return the path of a node in a region.

    A name that begins with the region's path, as in a functionalized loop, is its own path. The
    node "" is the region itself.
    """
    if not region or node.startswith(f"{region}/"):
        return node
    return f"{region}/{node}" if node else region


__all__ = ["branch_part", "node_path", "region_path"]
