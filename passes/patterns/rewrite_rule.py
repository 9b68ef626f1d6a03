"""Define rewrite rules: a pattern, a guard and a replacement."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from tfjit.framework.errors import InternalError, OpError
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.ir.declined import Declined
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.patterns.expressions import Op, Value
from tfjit.passes.patterns.matcher import CompiledPattern


class Rule:
    """A rewrite of the nodes that match a pattern.

    name: in logs and errors. pattern: its root is the replaced node. replacement: an expression
    over the parts of the pattern, or a function that returns one for the parts that its parameters
    name, or None where the rule does not apply. when: a guard over such parts. Both may raise
    Declined with the reason against a rewrite. keeps_shape: a tensor of the match that replaces the
    root has the root's shape; without that, the matcher has to find it out.

    A rule is a function `(graph, ctx, node) -> text of the change, or None`, as the rules of
    `simplify` are.
    """

    def __init__(
        self,
        name: str,
        pattern: Op,
        replacement: Value | Callable[..., object],
        when: Callable[..., object] | None = None,
        keeps_shape: bool = False,
    ) -> None:
        self.name, self.pattern, self.replacement, self.when = name, pattern, replacement, when
        self.keeps_shape = keeps_shape
        self.__name__ = name
        self.__doc__ = f"{self!r}" if isinstance(replacement, Value) else replacement.__doc__
        self.guard_parameters = parameters(when) if when is not None else ()
        self.parameters = () if isinstance(replacement, Value) else parameters(replacement)
        self._compiled: CompiledPattern | None = None

    @property
    def root_types(self) -> tuple[str, ...]:
        """Return the op types of nodes that the rule may rewrite."""
        return self.pattern.kind.types

    @property
    def compiled(self) -> CompiledPattern:
        """Return the pattern as programs; they are compiled on the first use."""
        if self._compiled is None:
            self._compiled = CompiledPattern(self.pattern)
        return self._compiled

    def __repr__(self) -> str:
        shown = self.replacement if isinstance(self.replacement, Value) else "..."
        return f"<Rule {self.name}: {self.pattern} -> {shown}>"

    def __call__(self, graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
        """Rewrite a node that matches; return a text of the change.

        Raises Declined where the pattern matches and the rewrite is refused, and InternalError with
        rule and node where the replacement is wrong or a user's function fails.
        """
        pattern = self._compiled or self.compiled
        refused: Declined | None = None
        try:
            if not pattern.may_match(graph, ctx, node):
                return None
            for state in pattern.matches(graph, ctx, node):
                from tfjit.passes.patterns.application import apply_match  # few nodes match

                try:
                    done = apply_match(self, state)
                    if done is not None:
                        return done
                except Declined as reason:
                    refused = refused or reason
        except InternalError:
            raise
        except OpError as error:
            raise self.error(node, error.message) from error
        except Exception as error:
            raise self.error(node, f"{type(error).__name__}: {error}") from error
        if refused is not None:
            raise refused
        return None

    def error(self, node: Node, text: str) -> InternalError:
        """Return the error of the rule at a node."""
        return InternalError(None, None, f"rule '{self.name}' at '{node.name}': {text}")


def parameters(function: Callable[..., object]) -> tuple[str, ...]:
    """Return the names of a function's parameters that have no default.

    Raises TypeError for parameters that are not given by a name.
    """
    named = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"it takes '{parameter}'; its parameters are names of the pattern")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise TypeError(f"its parameter '{parameter.name}' is positional only")
        if parameter.default is parameter.empty:
            named.append(parameter.name)
    return tuple(named)
