"""Run `_Offload` nodes by their accelerators.

The host runs them until the kernels are compiled.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tfjit.framework import settings
from tfjit.framework.errors import OpError
from tfjit.kernels.registry import Unsupported
from tfjit.passes.offload.outline_offloaded import hosted
from tfjit.runtime.kernel_api.op_kernel import OpContext, RuntimeKernel, kernel_maker
from tfjit.runtime.lowering.lowering import NotStatic, lower
from tfjit.runtime.offload.device_program import DeviceProgram
from tfjit.runtime.plan.function_plan import ArgumentType, BodyPlan, edge_value, given, types_of
from tfjit.runtime.resources.device_tensor import DeviceTensor
from tfjit.runtime.resources.variables_and_resources import Variable

if TYPE_CHECKING:
    from tfjit.framework.types.shape import Shape
    from tfjit.passes.ir.dataflow_graph import Node
    from tfjit.passes.pipeline import Partition, PipelineReport
    from tfjit.runtime.plan.host import PlanHost

MAX_PROGRAMS: Final = 64
"""Programs of one node, one for each tuple of argument shapes."""


class _HostPlan(BodyPlan):
    """A plan of offloaded nodes that offloads none of them."""

    def build(
        self, feed_shapes: Sequence[Shape], quick: bool = False, sampled: bool = False
    ) -> tuple[list[Partition], PipelineReport]:
        from tfjit.passes.pipeline import build_body

        options = self.session.pass_options()
        options = replace(options, disabled=options.disabled | {"offload"})
        return build_body(self.function, given(feed_shapes), options)


class OffloadKernel:
    """The programs of one `_Offload` node.

    A run for new shapes makes a program and requests its kernels. Until they are loaded, and where
    the device has none, the host's plan of the same nodes answers.
    """

    def __init__(self, node: Node) -> None:
        self.offloaded = node.attrs["offloaded"]
        self._programs: dict[tuple[ArgumentType, ...], DeviceProgram | str] = {}
        self._lock = threading.Lock()
        self._host_plan: BodyPlan | None = None

    def __call__(self, ctx: OpContext, inputs: Sequence[object]) -> Sequence[object]:
        values = [edge_value(value) for value in inputs]
        session: PlanHost = ctx.step.host
        types = tuple(
            [
                v.shape if isinstance(v, DeviceTensor) else t
                for v, t in zip(values, types_of(values), strict=True)
            ]
        )
        program = self._programs.get(types)
        if program is None:
            program = self._make(session, types)
        if isinstance(program, DeviceProgram):
            kernels = session.node_kernels
            if all(kernels.lookup(source) is not None for source in program.sources):
                return program.run(values, kernels.lookup)
            if session.jit == "eager":
                kernels.wait(None)
                if all(kernels.lookup(source) is not None for source in program.sources):
                    return program.run(values, kernels.lookup)
            refused = [kernels.refused(source) for source in program.sources]
            reason = next((text for text in refused if text), "")
            if reason:
                self._programs[types] = reason
        return self._run_on_host(ctx, session, values, types)

    def __del__(self) -> None:
        if self._host_plan is not None:
            self._host_plan.release()

    def programs(self) -> list[tuple[tuple[ArgumentType, ...], DeviceProgram | str]]:
        """Return programs, or reasons for having none, by argument types."""
        with self._lock:
            return list(self._programs.items())

    def explain(self) -> str:
        """Return a paragraph on the nodes and the programs so far."""
        lines = [self.offloaded.explain()]
        for types, program in self.programs():
            given = ", ".join(str(list(t)) if isinstance(t, tuple) else str(t) for t in types)
            if isinstance(program, str):
                lines.append(f"  for ({given}): by the host: {program}")
                continue
            lines.append(
                f"  for ({given}): {program.launches} launches, {program.device_bytes} bytes of "
                "device memory"
            )
            lines += [f"    {node}: {kernels}" for node, kernels in program.describe()]
        return "\n".join(lines)

    def _make(self, session: PlanHost, types: tuple[ArgumentType, ...]) -> DeviceProgram | str:
        with self._lock:
            found = self._programs.get(types)
            if found is not None:
                return found
            made = self._build(session, types)
            if isinstance(made, DeviceProgram):
                session.node_kernels.request(made.sources)
            else:
                settings.say("placement", "%s run on the host: %s", self.offloaded.explain(), made)
            if len(self._programs) >= MAX_PROGRAMS:
                dropped = self._programs.pop(next(iter(self._programs)))
                if isinstance(dropped, DeviceProgram):
                    dropped.close()
            self._programs[types] = made
            return made

    def _build(self, session: PlanHost, types: tuple[ArgumentType, ...]) -> DeviceProgram | str:
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
                taken, kept = self.offloaded.taken, self.offloaded.kept
                state = session.state.node_state
                return DeviceProgram(lowered, accelerator, state, taken, kept)
        except (Unsupported, NotStatic, OpError) as why:
            return str(why)

    def _run_on_host(
        self,
        ctx: OpContext,
        session: PlanHost,
        values: Sequence[object],
        types: tuple[ArgumentType, ...],
    ) -> Sequence[object]:
        """Answer by the host's plan of the nodes.

        Values are copied from and to the device.
        """
        with self._lock:
            if self._host_plan is None:
                function = hosted(self.offloaded.function, session.devices.default.name)
                self._host_plan = _HostPlan(session, function)
        arrays = [v.numpy() if isinstance(v, DeviceTensor) else v for v in values]
        results = self._host_plan.body(types).call(arrays, ctx.step)
        if not self.offloaded.kept:
            return results
        accelerator = session.devices.accelerator(self.offloaded.device)
        assert accelerator is not None
        return [
            DeviceTensor.of_array(accelerator, result) if i in self.offloaded.kept else result
            for i, result in enumerate(results)
        ]


@kernel_maker("_Offload")
def offload_kernel(node: Node) -> RuntimeKernel:
    """Return the kernel of an `_Offload` node."""
    return RuntimeKernel(OffloadKernel(node))


__all__ = ["OffloadKernel"]
