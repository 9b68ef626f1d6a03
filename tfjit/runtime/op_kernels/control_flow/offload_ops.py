"""Run `_Offload` nodes by their accelerators.

The host runs them until the kernels are compiled.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tfjit.framework import settings
from tfjit.framework.errors import OpError, ResourceExhaustedError
from tfjit.framework.op_defs.op_traits import WHILE
from tfjit.framework.types.dtypes import as_dtype
from tfjit.kernels.ir.accelerator import RoutineFailed
from tfjit.kernels.registry import Unsupported
from tfjit.passes.offload.outline_offloaded import hosted
from tfjit.runtime.host.cancellation import cancelled_step
from tfjit.runtime.host.fork_safety import release_lock, watch
from tfjit.runtime.kernel_api.op_kernel import OpContext, RuntimeKernel, kernel_maker
from tfjit.runtime.lowering.lowering import NotStatic, lower
from tfjit.runtime.offload.device_program import DeviceProgram
from tfjit.runtime.offload.graph_form import GraphForm
from tfjit.runtime.offload.program_memory import ProgramNames
from tfjit.runtime.offload.program_steps import RefusedNodes
from tfjit.runtime.plan.function_plan import (
    ArgumentType,
    BodyPlan,
    edge_value,
    given,
    types_of,
)
from tfjit.runtime.resources.device_allocation import AllocatedTensor, allocating, with_hint
from tfjit.runtime.resources.device_tensor import DeviceTensor
from tfjit.runtime.resources.variables_and_resources import Variable
from tfjit.runtime.step.step import Reroute

if TYPE_CHECKING:
    from tfjit.framework.types.shape import Shape
    from tfjit.passes.ir.dataflow_graph import Node
    from tfjit.passes.ir.function_library import Function
    from tfjit.passes.pipeline import Partition, PipelineReport
    from tfjit.runtime.executor.requested_kernels import RequestedKernels
    from tfjit.runtime.plan.host import PlanHost

MAX_FORMS: Final = 64
"""Forms of one node, one for each tuple of argument shapes."""

Types = tuple[ArgumentType, ...]


class _Cut(str):
    """A reason for having no program of all nodes.

    names: of the nodes that the host computes between programs of the others.
    """

    names: frozenset[str] = frozenset()


class _PlanWithout(BodyPlan):
    """A plan of offloaded nodes that leaves some passes out."""

    def __init__(self, session: PlanHost, function: Function, *passes: str) -> None:
        super().__init__(session, function)
        self._without = passes

    def build(
        self, feed_shapes: Sequence[Shape], quick: bool = False, sampled: bool = False
    ) -> tuple[list[Partition], PipelineReport]:
        from tfjit.passes.pipeline import build_body

        options = self.session.pass_options()
        options = replace(options, pipeline=options.pipeline.without(*self._without))
        return build_body(self.function, given(feed_shapes), options)


class OffloadKernel:
    """The programs of one `_Offload` node.

    A run for new shapes makes a program and requests its kernels. Until they are loaded, the host's
    plan of the same nodes answers, and where an assignment has given a variable another shape.
    Nodes that the device has no kernels for are the host's, with
    programs of the others. A loop that the device cannot run whole is the host's, with programs of
    the nodes in its body.
    """

    def __init__(self, node: Node) -> None:
        self.offloaded = node.attrs["offloaded"]
        self._arguments = tuple([edge.src for edge in node.in_edges if not edge.is_control])
        self._has_loops = self.offloaded.function.graph.has_trait(WHILE)
        self._forms: dict[Types, GraphForm | str] = {}
        self._lock = threading.Lock()
        self._host_plan: BodyPlan | None = None
        self._loop_plan: BodyPlan | None = None
        self._cut_plans: dict[frozenset[str], BodyPlan] = {}
        watch(self)

    def __call__(self, ctx: OpContext, inputs: Sequence[object]) -> Sequence[object]:
        try:
            return self._run(ctx, inputs)
        except ResourceExhaustedError as error:
            # a collector reports the tensors itself
            raise (error if ctx.step.collector is not None else with_hint(error)) from None

    def _run(self, ctx: OpContext, inputs: Sequence[object]) -> Sequence[object]:
        values = [edge_value(value) for value in inputs]
        session: PlanHost = ctx.step.host
        types = tuple(
            [
                v.shape if isinstance(v, DeviceTensor) else t
                for v, t in zip(values, types_of(values), strict=True)
            ]
        )
        form = self._forms.get(types)
        if form is None:
            form = self._make(session, types)
        program = form if isinstance(form, str) else form.program(values)
        if isinstance(form, GraphForm) and isinstance(program, DeviceProgram):
            if form.unrolls and ctx.step.cancellation.cancelled:
                raise cancelled_step()
            kernels = session.node_kernels
            is_ready = _are_loaded(program, kernels)
            if not is_ready and session.jit == "eager":
                kernels.wait(None)
                is_ready = _are_loaded(program, kernels)
            if is_ready:
                try:
                    return program.run(values, kernels.lookup, ctx.step.unfinished)
                except Reroute:
                    return self._run_on_host(ctx, session, values, types)
                except RoutineFailed as failure:
                    form.give_up_routine(values, program, failure)
                if self._has_loops:
                    return self._run_loops_on_host(ctx, session, values, types)
                return self._run_on_host(ctx, session, values, types)
            refused = [kernels.refused(source) for source in program.sources]
            reason = next((text for text in refused if text), "")
            if reason:
                form.refuse(values, reason)
        elif isinstance(form, _Cut) and form.names:
            return self._run_cut(form.names, ctx, session, values, types)
        elif self._has_loops and session.jit != "off":
            return self._run_loops_on_host(ctx, session, values, types)
        return self._run_on_host(ctx, session, values, types)

    def after_fork(self) -> None:
        """Free the lock: a run in the child raises its error."""
        release_lock(self._lock)

    def __del__(self) -> None:
        for plan in (self._host_plan, self._loop_plan, *self._cut_plans.values()):
            if plan is not None:
                plan.release()

    def programs(self) -> list[tuple[Types, str, DeviceProgram | str]]:
        """Return programs, or reasons for having none, by argument types and numbers."""
        with self._lock:
            forms = list(self._forms.items())
        return [
            (types, numbers, program)
            for types, form in forms
            for numbers, program in ([("", form)] if isinstance(form, str) else form.programs())
        ]

    def explain(self) -> str:
        """Return a paragraph on the nodes and the programs so far."""
        lines = [self.offloaded.explain()]
        for types, numbers, program in self.programs():
            given = ", ".join(str(list(t)) if isinstance(t, tuple) else str(t) for t in types)
            given = f"({given}), {numbers}" if numbers else f"({given})"
            if isinstance(program, str):
                place = "with loops of the host" if self._has_loops else "by the host"
                if isinstance(program, _Cut) and program.names:
                    count = len(program.names)
                    place = f"{count} node{'s' * (count > 1)} by the host, between programs"
                lines.append(f"  for {given}: {place}: {program}")
                continue
            lines.append(
                f"  for {given}: {program.launches} launches, {program.device_bytes} bytes of "
                "device memory"
            )
            lines += [
                f"    {opening.library} is being opened, kernels serve until then"
                for opening in program.awaited
                if not opening.is_done
            ]
            if program.unplanned:
                lines.append("    routines are being planned, kernels serve until then")
            lines += [f"    {node}: {kernels}" for node, kernels in program.describe()]
        with self._lock:
            forms = [form for form in self._forms.values() if isinstance(form, GraphForm)]
        lines += [
            f"  kernels serve instead of a routine that failed: {failure}"
            for form in forms
            for failure in form.failures
        ]
        return "\n".join(lines)

    def _make(self, session: PlanHost, types: Types) -> GraphForm | str:
        with self._lock:
            found = self._forms.get(types)
            if found is not None:
                return found
            made = self._build(session, types)
            if isinstance(made, str):
                settings.say("placement", "%s run on the host: %s", self.offloaded.explain(), made)
            if len(self._forms) >= MAX_FORMS:
                dropped = self._forms.pop(next(iter(self._forms)))
                if isinstance(dropped, GraphForm):
                    dropped.close()
            self._forms[types] = made
            return made

    def _build(self, session: PlanHost, types: Types) -> GraphForm | str:
        from tfjit.passes.manager.pass_context import PassContext
        from tfjit.passes.offload.outline_offloaded import offloaded_body

        if session.jit == "off":
            return "compiling is off"
        device = session.devices.lookup(self.offloaded.device)
        accelerator = session.devices.accelerator(self.offloaded.device)
        assert accelerator is not None
        variables = {i: t for i, t in enumerate(types) if isinstance(t, Variable)}
        try:
            with session.settings():
                ctx = PassContext(options=session.pass_options(), device=device.name)
                graph = offloaded_body(self.offloaded.function, given(types), ctx)
                lowered = lower(graph, session.find_variable, len(types), variables, device.backend)
                return GraphForm(
                    lowered,
                    accelerator,
                    session.state.node_state,
                    session.node_kernels,
                    session.renewals if session.jit != "eager" else None,
                    self.offloaded.taken,
                    self.offloaded.kept,
                    ProgramNames(device.name, self._arguments),
                )
        except RefusedNodes as why:
            cut = _Cut(why)
            body = self.offloaded.function.graph
            if not self._has_loops:
                cut.names = frozenset(name for name in why.names if name in body)
            return cut
        except (Unsupported, NotStatic, OpError) as why:
            return str(why)

    def _run_cut(
        self,
        names: frozenset[str],
        ctx: OpContext,
        session: PlanHost,
        values: Sequence[object],
        types: Types,
    ) -> Sequence[object]:
        """Answer by programs of the device between nodes of the host.

        names: of the latter.
        """
        with self._lock:
            plan = self._cut_plans.get(names)
            if plan is None:
                function = hosted(self.offloaded.function, session.devices.default.name, names)
                plan = self._cut_plans[names] = _PlanWithout(session, function)
        return self._by_plan(plan, ctx, session, values, types)

    def _run_loops_on_host(
        self, ctx: OpContext, session: PlanHost, values: Sequence[object], types: Types
    ) -> Sequence[object]:
        """Answer by the host's loops over programs of the device."""
        with self._lock:
            if self._loop_plan is None:
                function = self.offloaded.function
                self._loop_plan = _PlanWithout(session, function, "offload_loops")
        return self._by_plan(self._loop_plan, ctx, session, values, types)

    def _run_on_host(
        self,
        ctx: OpContext,
        session: PlanHost,
        values: Sequence[object],
        types: Types,
    ) -> Sequence[object]:
        """Answer by the host's plan of the nodes.

        Values are copied from and to the device.
        """
        with self._lock:
            if self._host_plan is None:
                function = hosted(self.offloaded.function, session.devices.default.name)
                self._host_plan = _PlanWithout(session, function, "offload", "offload_loops")
        return self._by_plan(self._host_plan, ctx, session, values, types)

    def _by_plan(
        self,
        plan: BodyPlan,
        ctx: OpContext,
        session: PlanHost,
        values: Sequence[object],
        types: Types,
    ) -> Sequence[object]:
        """Answer by a plan of host arrays."""
        arrays = [v.numpy() if isinstance(v, DeviceTensor) else v for v in values]
        results = plan.body(types).call(arrays, ctx.step)
        if not self.offloaded.kept:
            return results
        accelerator = session.devices.accelerator(self.offloaded.device)
        assert accelerator is not None
        moved: list[object] = []
        for number, result in enumerate(results):
            if number in self.offloaded.kept:
                tensor = AllocatedTensor(result.shape, as_dtype(result.dtype))
                with allocating(tensor, accelerator, self.offloaded.device):
                    result = DeviceTensor.of_array(accelerator, result)
            moved.append(result)
        return moved


def _are_loaded(program: DeviceProgram, kernels: RequestedKernels) -> bool:
    """Return whether all kernels of a program are."""
    return all(kernels.lookup(source) is not None for source in program.sources)


@kernel_maker("_Offload")
def offload_kernel(node: Node) -> RuntimeKernel:
    """Return the kernel of an `_Offload` node."""
    return RuntimeKernel(OffloadKernel(node))


__all__ = ["OffloadKernel"]
