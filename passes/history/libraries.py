"""Keep the functions of a plan for its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.passes.history.recording import NodeState, rebuilt, state_of
from tfjit.passes.ir.dataflow_graph import SINK, SOURCE
from tfjit.passes.ir.function_library import Function, FunctionLibrary

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType


class KeptLibrary:
    """The functions of a library at the end of a plan.

    The bodies that passes made are kept as states of their nodes: a closed session drops the
    graphs.
    """

    def __init__(self, library: FunctionLibrary) -> None:
        self._definitions = list(library.definitions.values())
        self._gradients = dict(library.gradients)
        self._made = [_KeptBody(function) for function in library.made()]
        self._library: FunctionLibrary | None = None

    def library(self) -> FunctionLibrary:
        """Return a library of the same functions."""
        if self._library is None:
            from tfjit.protos import function_pb2

            library = FunctionLibrary()
            gradients = [
                function_pb2.GradientDef(function_name=name, gradient_func=gradient)
                for name, gradient in self._gradients.items()
            ]
            library.merge(self._definitions, gradients)
            for body in self._made:
                library.add(body.function(library))
            self._library = library
        return self._library


class _KeptBody:
    """One body that a pass made."""

    def __init__(self, function: Function) -> None:
        graph = function.graph
        self.name, self.must_run = function.name, function.must_run
        self.inputs: tuple[DType, ...] = function.inputs
        self.attrs: dict[str, object] = dict(function.attrs)
        self.states: dict[str, NodeState] = {
            name: state_of(graph, name) for name in graph._node if name not in (SOURCE, SINK)
        }

    def function(self, library: FunctionLibrary) -> Function:
        """Return the body with a separate graph."""
        graph = rebuilt(self.states)
        graph.functions = library
        return Function.from_graph(self.name, graph, self.inputs, self.must_run, self.attrs)


__all__ = ["KeptLibrary"]
