"""Run a `_Loop` node by NumPy until compiled code can continue.

A first run starts with the reference kernels, at some microseconds an iteration. If the run lasts,
the remaining iterations are compiled: the same program, started from the present loop-carried
values.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework import errors
from tfjit.kernels.jit.store import store
from tfjit.kernels.registry import NodeSpec, Unsupported
from tfjit.runtime.lowering.lowered import Instruction, Lowered, Value

if TYPE_CHECKING:
    from tfjit.kernels.ir.backend import Backend
    from tfjit.kernels.ir.loop_program import LoopProgram
    from tfjit.kernels.ir.loop_program import Step as LoopStep
    from tfjit.kernels.registry import NativeCall
    from tfjit.passes.ir.dataflow_graph import Node
    from tfjit.runtime.kernel_api.op_kernel import StepContext
    from tfjit.runtime.step.step import StepEnvironment

PATIENCE_S: Final = 0.05
"""Time after which a loop's remaining iterations are compiled."""
_POLL_INTERVAL_S: Final = 0.01


class _LoopTierUp(Exception):
    """Signal that compiled code for the remaining iterations is ready."""

    def __init__(self, carried: Sequence[np.ndarray]) -> None:
        super().__init__()
        self.carried = carried


class _Watch:
    """Check clock, cancellation and compiled code between two iterations."""

    def __init__(
        self, program: LoopProgram, context: StepContext, compiled: bool, backend: Backend
    ) -> None:
        self.program = program
        self.backend = backend
        self.cancellation = context.cancellation
        self.rest: tuple[LoopProgram, NativeCall] | None = None  # the compiled rest of the loop
        self.loop: LoopStep | None = None
        self.compiled = compiled
        self.next_look = time.monotonic() + PATIENCE_S

    def __call__(self, loop: LoopStep, carried: list[np.ndarray]) -> None:
        """Check before an iteration.

        Raises CancelledError when the run must stop, _LoopTierUp when compiled code can continue.
        """
        if self.cancellation.cancelled:
            raise errors.CancelledError(None, None, "Loop execution was cancelled.")
        if not self.compiled:
            return
        now = time.monotonic()
        if now < self.next_look:
            return
        self.next_look = now + _POLL_INTERVAL_S
        if self.loop is not loop:
            self.loop = loop
            self._prepare(loop)
        if self.rest is not None and all(
            store.lookup(source) is not None for source in self.rest[1].sources()
        ):
            raise _LoopTierUp(carried)

    def _prepare(self, loop: LoopStep) -> None:
        self.rest = None
        try:
            program = self.program.resumed(loop)
            call = self.backend.loop_call(program)
        except Unsupported:
            self.compiled = False
            return
        self.rest = program, call
        store.request(call.sources())


def run_loop(
    node: Node,
    spec: NodeSpec,
    env: StepEnvironment,
    context: StepContext,
    inputs: Sequence[np.ndarray],
) -> list[np.ndarray]:
    """Return the outputs of a `_Loop` node.

    Raises CancelledError within milliseconds of a cancellation, and the errors of its members.
    """
    program: LoopProgram = spec.attrs["program"]
    watch = _Watch(program, context, env.compiles, env.device.backend)
    try:
        return program.run(inputs, watch)
    except _LoopTierUp as rest:
        assert watch.rest is not None
        return _resume(node, env, context, *watch.rest, [*rest.carried, *inputs])


def _resume(
    node: Node,
    env: StepEnvironment,
    context: StepContext,
    program: LoopProgram,
    call: NativeCall,
    inputs: Sequence[np.ndarray],
) -> list[np.ndarray]:
    from tfjit.runtime.step.step import Step

    values: list[Value] = []

    def value(spec: Any, storage: Any, **more: Any) -> Value:
        values.append(
            Value(len(values), spec.dtype, spec.shape, storage, producer=node.name, **more)
        )
        return values[-1]

    given = [value(spec, "feed", feed=k) for k, spec in enumerate(program.input_specs)]
    results = [value(spec, "buffer") for spec in program.output_specs]
    for result in results:
        result.fetched = True
    spec = NodeSpec(
        node.name, node.op, {"program": program}, program.input_specs, program.output_specs
    )
    instruction = Instruction(node, "reference", given, results, spec, None, call)
    step = Step(
        Lowered([instruction], values, results, dict(enumerate(given)), len(given)), env, node.name
    )
    arrays = [
        np.ascontiguousarray(x, s.dtype.as_numpy_dtype).reshape(s.shape)
        for x, s in zip(inputs, program.input_specs, strict=True)
    ]
    return [np.asarray(result) for result in step.run(arrays, context)]


__all__ = ["PATIENCE_S", "run_loop"]
