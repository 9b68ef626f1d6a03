"""The choice between control flow v1 and v2.

v1 is TensorFlow 1's Switch and Merge; in v2 nodes name functions in their attrs.
"""

from __future__ import annotations

from tfjit.framework.graphs.default_graph import get_default_graph

_v2 = False


def enable_control_flow_v2() -> None:
    """Build conditionals and loops as If, Case and While nodes.

    Their branches and bodies are functions of the graph.
    """
    global _v2
    _v2 = True


def disable_control_flow_v2() -> None:
    """Build conditionals and loops as TensorFlow 1 does.

    They consist of Switch, Merge, Enter, Exit and NextIteration. This is the default.
    """
    global _v2
    _v2 = False


def control_flow_v2_enabled() -> bool:
    """Return whether conditionals and loops are If, Case and While nodes."""
    return _v2


def uses_functions() -> bool:
    """Return whether control flow in the default graph uses functions.

    It does if asked for, or where the graph is a function's body itself.
    """
    return _v2 or get_default_graph().building_function
