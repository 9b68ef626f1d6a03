"""Runtime kernels that run functions: While, If, Case and calls.

Bodies are separate plans (function_plan.py). A loop whose shapes stay the same runs its body, with
the condition behind it, as one step: an iteration is one call of a generated function. One whose
shapes change has such a step for each of the shapes that came more than once. Each iteration looks
whether the step is cancelled, so an endless loop ends at its timeout.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework import errors, settings
from tfjit.framework.op_defs.attrs import FuncRef
from tfjit.framework.op_defs.op_traits import CALLS_PYTHON
from tfjit.framework.types.device_spec import full_name
from tfjit.framework.types.shape import format_shape, is_compatible
from tfjit.framework.types.tensors import truth
from tfjit.passes.ir.function_library import SCALAR_PREDICATE
from tfjit.runtime.host.cancellation import cancelled_step
from tfjit.runtime.host.completion import Done
from tfjit.runtime.kernel_api.kernel_errors import at_node
from tfjit.runtime.kernel_api.op_kernel import (
    OpContext,
    RuntimeKernel,
    StepContext,
    is_blocking,
    kernel_maker,
)
from tfjit.runtime.plan.function_plan import (
    ArgumentType,
    BodyPlan,
    BodyVariant,
    edge_value,
    given,
    types_of,
    widened,
)
from tfjit.runtime.step.step import Reroute

if TYPE_CHECKING:
    from tfjit.passes.ir.dataflow_graph import Node
    from tfjit.passes.ir.function_library import Function
    from tfjit.runtime.plan.host import PlanHost
    from tfjit.runtime.plan.shared_bodies import BodyLease

Types = tuple[ArgumentType, ...]

LEVELS_A_THREAD: Final = 20
"""Nested calls on one thread.

Python's own stack of 1000 frames holds some 60 of them, less the caller's frames.
"""


class _Depth(threading.local):
    calls = 0


_DEPTH: Final = _Depth()


class FunctionKernel:
    """Base of kernels over functions: their functions and plans."""

    def __init__(self, node: Node, refs: Sequence[FuncRef]) -> None:
        self._library = node._graph.functions
        self._refs = tuple(refs)
        self._shapes = node.output_shapes
        self._taken = {
            output
            for output in range(len(node.output_dtypes))
            if node._graph.consumers(node.name, output)
        }

    def _plan(self, session: PlanHost, ref: FuncRef) -> BodyPlan:
        """Return the plan of a body, shared by all its kernels.

        So a function inside of itself is planned once.
        """
        plan: BodyPlan = self._library.keep(
            ref, "plan", lambda: BodyPlan(session, self._library.body(ref))
        )
        return plan

    def _results(self, ctx: OpContext, values: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        """Return checked outputs of the node.

        They have the promised shapes, since compiled code trusts them, and none of them is an input
        itself.
        """
        results = list(values)
        for output, shape in enumerate(self._shapes):
            value = results[output]
            if output not in self._taken or not isinstance(value, np.ndarray):
                continue
            if not is_compatible(shape, value.shape):
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"{ctx.op} gave output {output} the shape {format_shape(value.shape)}, "
                    f"declared as {format_shape(shape)}",
                )
            if any(value is other for other in inputs):
                results[output] = value.copy()
        return results


class _While(FunctionKernel):
    """While and StatelessWhile."""

    def __init__(self, node: Node) -> None:
        super().__init__(node, (node.attrs["cond"], node.attrs["body"]))
        # (condition, plan of an iteration, its types in every iteration) by the types at entry
        self._loops: dict[Types, tuple[BodyVariant, BodyPlan, Types]] = {}

    def __call__(self, ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
        values = [edge_value(value) for value in inputs]
        context = ctx.step
        types = types_of(values)
        loop = self._loops.get(types)
        if loop is None:
            loop = self._loops[types] = self._loop(context.host, types)
        cond, plan, wide = loop
        if truth(cond.call(values, context)[0]):
            values = (
                self._iterate(plan.body(wide), values, context)
                if wide == types
                else self._iterate_by_shape(plan, wide, values, context)
            )
        return self._results(ctx, values, inputs)

    def _loop(self, session: PlanHost, types: Types) -> tuple[BodyVariant, BodyPlan, Types]:
        """Return (condition, plan of an iteration, its types in every iteration).

        types: those that enter the loop.
        """
        from tfjit.passes.analysis.shape_inference import infer_loop
        from tfjit.passes.control_flow.rotate_loop import loop_step
        from tfjit.passes.manager.pass_context import PassContext

        cond, body = (self._library.body(ref) for ref in self._refs)
        wide = widened(types, infer_loop(body, given(types), PassContext()))
        lease: BodyLease = self._library.keep(
            self._refs[1],
            "iteration",
            lambda: session.bodies.lease(session, loop_step(cond, body)),
        )
        return self._plan(session, self._refs[0]).body(wide), lease.plan, wide

    def _iterate_by_shape(
        self,
        plan: BodyPlan,
        wide: Types,
        values: list[Any],
        context: StepContext,
    ) -> list[Any]:
        """Run the loop for variables whose shapes change.

        wide: the types of the variant that serves where no other does. It is built then, which
        takes passes over the body.
        """
        while True:
            if context.cancellation.cancelled:
                raise cancelled_step()
            types = types_of(values)
            results = plan.run_generic(types, values) if context.collector is None else None
            if results is None:
                results = (plan.known(types) or plan.body(wide)).call(values, context)
            values = results
            if not truth(values.pop()):
                return values

    def _iterate(self, variant: BodyVariant, values: list[Any], context: StepContext) -> list[Any]:
        """Run iterations until the condition, which has held, holds no more."""
        cancellation = context.cancellation
        while True:
            step = variant.step
            if step is None or context.collector is not None:
                if cancellation.cancelled:
                    raise cancelled_step()
                values = variant.call_dynamic(values, context)
                if not truth(values.pop()):
                    return values
                continue
            instance = step.instance()
            try:
                while True:
                    if cancellation.cancelled:
                        raise cancelled_step()
                    values = instance(values, context)
                    if not truth(values.pop()):
                        return values
                    if variant.step is not step or not step.native:
                        break
            except Reroute:
                values = variant.call_dynamic(values, context)
                if not truth(values.pop()):
                    return values
            finally:
                step.free.append(instance)
                variant.count_slow_run()


class _Branches(FunctionKernel):
    """If, Case and their stateless forms.

    choose: the branch of a value of the first input.
    """

    def __init__(self, node: Node, refs: Sequence[FuncRef], choose: Callable[[Any], int]) -> None:
        super().__init__(node, refs)
        self._choose = choose

    def __call__(self, ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
        ref = self._refs[self._choose(inputs[0])]
        arguments = inputs[1:]
        values = [edge_value(value) for value in arguments]
        results = self._plan(ctx.step.host, ref).body(types_of(values)).call(values, ctx.step)
        return self._results(ctx, results, arguments)


class _Call(FunctionKernel):
    """A call that was not inlined.

    The function is inside of itself, or shall not be inlined.
    """

    def __init__(self, node: Node) -> None:
        super().__init__(node, (node.attrs["f"],))
        body = self._library.body(self._refs[0])
        self._name = body.copy_of or body.name

    def __call__(self, ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
        limit = settings.integer("TFJIT_RECURSION")
        depth = _DEPTH.calls
        if depth >= limit:
            raise errors.ResourceExhaustedError(
                None,
                None,
                f"Function '{self._name}' calls itself more than {limit} calls deep, the limit "
                "that TFJIT_RECURSION sets.",
            )
        if depth and depth % LEVELS_A_THREAD == 0:
            return _on_thread(lambda: self._call(ctx, inputs), depth)
        return self._call(ctx, inputs)

    def _call(self, ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
        values = [edge_value(value) for value in inputs]
        _DEPTH.calls += 1
        try:
            results = (
                self._plan(ctx.step.host, self._refs[0])
                .body(types_of(values))
                .call(values, ctx.step)
            )
        except RecursionError:
            raise errors.ResourceExhaustedError(
                None,
                None,
                f"Function '{self._name}' calls itself deeper than Python's stack goes, "
                f"{_DEPTH.calls} calls.",
            ) from None
        finally:
            _DEPTH.calls -= 1
        return self._results(ctx, results, inputs)


def _on_thread(work: Callable[[], Sequence[Any]], depth: int) -> Sequence[Any]:
    """Run `work` on a new thread with an empty stack and wait."""
    results: list[Any] = []
    failure: list[BaseException] = []

    def run() -> None:
        _DEPTH.calls = depth
        try:
            results.extend(work())
        except BaseException as error:  # handed to the caller
            failure.append(error)

    thread = threading.Thread(target=run, name="tfjit-call", daemon=True)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return results


def _side_of_if(value: Any) -> int:
    return int(truth(np.asarray(value)))


def _side_of_switch(name: str) -> Callable[[Any], int]:
    def choose(value: Any) -> int:
        shape = np.shape(value)
        if shape:
            error = errors.InvalidArgumentError(
                None,
                None,
                f"The second input must be a scalar, but it has shape {format_shape(shape)}",
            )
            raise at_node(error, name)
        return int(bool(value))

    return choose


def _branch_of_case(count: int) -> Callable[[Any], int]:
    def choose(value: Any) -> int:
        if np.ndim(value):
            raise errors.InvalidArgumentError(None, None, "branch_index must be scalar")
        index = int(value)
        return index if 0 <= index < count else count - 1

    return choose


def _nodes_of_functions(node: Node, refs: Sequence[FuncRef]) -> list[Node]:
    """Return the nodes of the functions and of those that they call."""
    library = node._graph.functions
    graphs = [library.body(ref).graph for ref in refs]
    for graph in list(graphs):
        graphs += [library.body(ref).graph for ref in library.reachable(graph)]
    return [inner for graph in graphs for inner in graph.op_nodes()]


def kernel_of_functions(
    node: Node,
    refs: Sequence[FuncRef],
    compute: Callable[[OpContext, Sequence[Any]], Sequence[Any]],
) -> RuntimeKernel:
    """Return the kernel of a node that runs functions.

    The kernel waits where a node of the functions may wait. The executor measures a kernel without
    Python functions before it calls it expensive.
    """
    inner_nodes = _nodes_of_functions(node, refs)
    if not any(is_blocking(inner.op) for inner in inner_nodes):
        calls_python = any(inner.has_trait(CALLS_PYTHON) for inner in inner_nodes)
        return RuntimeKernel(compute, expensive=calls_python)

    def start(ctx: OpContext, inputs: Sequence[Any], done: Done) -> None:
        # a separate thread: the node that it waits for may be one that the executor's threads have
        # still to run
        def work() -> None:
            try:
                done(compute(ctx, inputs))
            except BaseException as error:  # handed to the executor
                done(error)

        threading.Thread(target=work, name=f"tfjit-{node.op}", daemon=True).start()

    return RuntimeKernel(start, blocking=True)


@kernel_maker("While", "StatelessWhile")
def _make_while(node: Node) -> RuntimeKernel:
    return kernel_of_functions(node, (node.attrs["cond"], node.attrs["body"]), _While(node))


@kernel_maker("If", "StatelessIf")
def _make_if(node: Node) -> RuntimeKernel:
    refs = (node.attrs["else_branch"], node.attrs["then_branch"])
    switch = node.attrs.get(SCALAR_PREDICATE)
    choose = _side_of_if if switch is None else _side_of_switch(switch.decode())
    return kernel_of_functions(node, refs, _Branches(node, refs, choose))


@kernel_maker("Case", "StatelessCase")
def _make_case(node: Node) -> RuntimeKernel:
    refs = node.attrs["branches"]
    return kernel_of_functions(node, refs, _Branches(node, refs, _branch_of_case(len(refs))))


class _RemoteCall(_Call):
    """A call on the device that the first input names.

    The device must be one of this session's.
    """

    def _call(self, ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
        target = np.asarray(inputs[0])
        if target.size != 1:
            raise errors.InvalidArgumentError(
                None, None, f"target must be a scalar, found shape {format_shape(target.shape)}"
            )
        asked = bytes(target.reshape(-1)[0]).decode()
        try:
            name = full_name(asked, ctx.device.name)
        except ValueError:
            raise errors.InvalidArgumentError(
                None, None, f"Could not parse {asked} into a device specification."
            ) from None
        try:
            device = ctx.step.host.devices.lookup(name).name
        except errors.InvalidArgumentError:
            raise errors.InternalError(
                None, None, f"Currently don't support instantiating functions on device: {name}"
            ) from None
        ref = self._refs[0]
        plan = self._library.keep(
            ref,
            device,
            lambda: BodyPlan(ctx.step.host, _on_device(self._library.body(ref), device)),
        )
        values = [edge_value(value) for value in inputs[1:]]
        return self._results(ctx, plan.body(types_of(values)).call(values, ctx.step), inputs[1:])


def _on_device(function: Function, device: str) -> Function:
    """Return the function with its unplaced nodes on the device."""
    graph = function.graph.copy()
    for node in graph.op_nodes():
        node.device = node.device or device
    return replace(function, graph=graph)


@kernel_maker("RemoteCall")
def _make_remote_call(node: Node) -> RuntimeKernel:
    return kernel_of_functions(node, (node.attrs["f"],), _RemoteCall(node))


@kernel_maker("PartitionedCall", "StatefulPartitionedCall")
def _make_call(node: Node) -> RuntimeKernel:
    return kernel_of_functions(node, (node.attrs["f"],), _Call(node))
