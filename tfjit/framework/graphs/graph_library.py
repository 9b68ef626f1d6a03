"""Hold the functions of a graph, and their gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.op_defs.op_def import OpDef

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Message


class GraphLibrary:
    """The function library of a graph.

    functions: FunctionDef messages by name. gradients: GradientDef messages. was_imported: an
    imported GraphDef had a library, even an empty one.
    """

    def __init__(self) -> None:
        self.functions: dict[str, Message] = {}
        self.gradients: list[Message] = []
        self.was_imported = False
        self._op_defs: dict[str, OpDef] = {}

    def add(self, function_def: Message) -> None:
        """Add a FunctionDef. Raises ValueError when another one has its name."""
        name = function_def.signature.name
        known = self.functions.get(name)
        if known is not None and known.SerializeToString(
            deterministic=True
        ) != function_def.SerializeToString(deterministic=True):
            raise ValueError(
                f"Cannot add function '{name}' because a different function with the same name "
                "already exists."
            )
        self.functions.setdefault(name, function_def)

    def remove(self, name: str) -> None:
        """Remove a function."""
        del self.functions[name]
        self._op_defs.pop(name, None)

    def op_def_of(self, name: str) -> OpDef | None:
        """Return the contract of a function as an op type, or None."""
        if name not in self.functions:
            return None
        found = self._op_defs.get(name)
        if found is None:
            found = self._op_defs[name] = OpDef.from_proto(self.functions[name].signature)
        return found

    def fill(self, graph_def: Message) -> None:
        """Add the library to a GraphDef message, if there is one."""
        if self.was_imported or self.functions:
            graph_def.library.SetInParent()
            graph_def.library.function.extend(self.functions.values())
            graph_def.library.gradient.extend(self.gradients)
