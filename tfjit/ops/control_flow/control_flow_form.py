"""Which form control flow is built in: Switch and Merge (TensorFlow 1's), or nodes whose attrs name
functions (v2).
"""

from __future__ import annotations

from tfjit.framework.graphs.default_graph import get_default_graph

_v2 = False


def enable_control_flow_v2() -> None:
    """Build conditionals and loops as If, Case and While nodes, whose branches and bodies are
    functions of the graph.
    """
    global _v2
    _v2 = True


def disable_control_flow_v2() -> None:
    """Build conditionals and loops of Switch, Merge, Enter, Exit and NextIteration, as TensorFlow 1
    does (the default).
    """
    global _v2
    _v2 = False


def control_flow_v2_enabled() -> bool:
    """Whether conditionals and loops are built as If, Case and While nodes."""
    return _v2


def uses_functions() -> bool:
    """Whether control flow in the default graph is made of functions: asked for, or because the
    graph is a function's body itself.
    """
    return _v2 or get_default_graph().building_function
