"""Run functions of datasets as plans with bound captures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tfjit.framework.op_defs.op_traits import CALLS_PYTHON
from tfjit.passes.ir.function_library import shapes_of_args
from tfjit.runtime.datasets.element import Element, Value
from tfjit.runtime.kernel_api.op_kernel import is_blocking
from tfjit.runtime.plan.function_plan import BodyPlan, BodyVariant, edge_value, types_of

if TYPE_CHECKING:
    from tfjit.framework.op_defs.attrs import FuncRef
    from tfjit.framework.types.shape import Shape
    from tfjit.passes.ir.function_library import FunctionLibrary
    from tfjit.runtime.datasets.element_context import ElementContext
    from tfjit.runtime.plan.host import PlanHost


class DatasetFunction:
    """A function of a dataset.

    may_wait: a node of the function may wait for another step or runs the user's Python. The plan
    belongs to the function, so that all datasets with it share compiled code.
    """

    def __init__(
        self, host: PlanHost, library: FunctionLibrary, ref: FuncRef, captured: Element
    ) -> None:
        body = library.body(ref)
        self._plan: BodyPlan = library.keep(ref, "plan", lambda: BodyPlan(host, body))
        self._captured = [edge_value(value) for value in captured]
        self._last: tuple[Value, BodyVariant | None] = (None, None)
        self._shapes = shapes_of_args(body)
        graphs = [body.graph, *(library.body(r).graph for r in library.reachable(body.graph))]
        self.may_wait = any(
            is_blocking(node.op) or node.has_trait(CALLS_PYTHON)
            for graph in graphs
            for node in graph.op_nodes()
        )

    def __call__(self, context: ElementContext, values: Element) -> list[Value]:
        """Return the function's results for an element."""
        arguments = [
            value
            if isinstance(value, np.ndarray) and value.flags.c_contiguous
            else edge_value(value)
            for value in values
        ]
        arguments += self._captured
        types = types_of(arguments)
        known, variant = self._last
        if variant is None or types != known:
            return self._search(types, arguments, context)
        return variant.call(arguments, context.step)

    def _search(
        self, types: tuple[Value, ...], arguments: Element, context: ElementContext
    ) -> list[Value]:
        """Run the function for shapes that the last element did not have.

        Elements of many shapes share a variant for any shape, until some recur.
        """
        plan = self._plan
        wide = tuple(map(self._widened, types, self._shapes))
        if wide != types:
            results = plan.run_generic(types, arguments)
            if results is not None:
                return results
            variant = plan.known(types)
            if variant is None:
                return plan.body(wide).call(arguments, context.step)
        else:
            variant = plan.body(types)
        self._last = types, variant
        return variant.call(arguments, context.step)

    @staticmethod
    def _widened(found: Value, declared: Shape) -> Value:
        """Return an argument's type in every element.

        A declared size of None stays open.
        """
        if not isinstance(found, tuple) or declared is None or len(declared) != len(found):
            return found
        return tuple(None if d is None else f for f, d in zip(found, declared, strict=True))


__all__ = ["DatasetFunction"]
