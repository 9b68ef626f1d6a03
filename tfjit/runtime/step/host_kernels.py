"""Wrap the Python kernels between a step's native runs.

A wrapped kernel is a function of context and inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types.shape import Shape, format_shape
from tfjit.kernels.executor.blas_threads import on_session_threads
from tfjit.kernels.registry import find_initial_state
from tfjit.runtime.kernel_api.kernel_errors import at_node, kernel_error
from tfjit.runtime.kernel_api.op_kernel import OpContext, StepContext

if TYPE_CHECKING:
    from tfjit.runtime.lowering.lowered import Instruction
    from tfjit.runtime.step.step import StepEnvironment

PythonKernel = Callable[[StepContext | None, Sequence[Any]], Sequence[Any]]


def python_kernel(
    instruction: Instruction, env: StepEnvironment, planned: bool
) -> Callable[[StepContext | None, Sequence[Any]], Sequence[Any]]:
    node, compute = instruction.node, instruction.compute
    reads_variable = any(
        value.root.storage in ("variable", "handle") for value in instruction.inputs
    )
    if compute is None:
        raise errors.UnimplementedError(
            None,
            None,
            f"{node.name} ({node.op}) has compiled code only, which is not loaded: "
            f"{instruction.reason or 'still compiling'}",
        )
    if instruction.serving == "runtime":
        device, session, spec = env.device, env.session, instruction.spec
        op = node.op if node.op_def is None else node.op_def.name
        input_dtypes, output_dtypes = tuple(node.input_dtypes), tuple(node.output_dtypes)
        output_shapes = tuple(node.output_shapes)
        has_variant_input = any(dtype.name == "variant" for dtype in input_dtypes)
        reads_list = has_variant_input and any(dtype.is_numpy_compatible for dtype in output_dtypes)

        def run_runtime(context: StepContext | None, inputs: Sequence[Any]) -> Sequence[Any]:
            assert context is not None
            op_context = OpContext(
                node.name,
                op,
                spec.attrs,
                device,
                session,
                context,
                input_dtypes,
                output_dtypes,
                output_shapes,
            )
            try:
                outputs = compute(op_context, inputs)
            except Exception as error:
                raise kernel_error(error, op, node.name, inputs) from _cause(error)
            if reads_list:
                outputs = [
                    _checked_element(value, shape, op, node.name)
                    for value, shape in zip(outputs, output_shapes, strict=True)
                ]
            return _copy_aliased(outputs, inputs) if reads_variable else outputs

        return run_runtime
    spec = instruction.spec
    if node.op == "_Loop":
        return _interpreted_loop(instruction, env)
    make = find_initial_state(node.op)
    if make is not None:
        state = env.session.node_state(instruction.node.name, lambda: make(spec))
        spec = type(spec)(
            spec.name, spec.op, spec.attrs, spec.inputs, spec.outputs, spec.constants, state
        )

    reference = on_session_threads(compute, env.threads)

    # A reference output is the variable, which the kernel has updated in place; the step drops it.
    updates = bool(instruction.outputs) and all(
        any(value is given for given in instruction.inputs) for value in instruction.outputs
    )

    def run_reference(context: StepContext | None, inputs: Sequence[Any]) -> Sequence[Any]:
        try:
            outputs = reference(spec, inputs)
        except Exception as error:
            raise kernel_error(error, node.op, node.name, inputs) from _cause(error)
        if updates:
            return outputs
        if planned or reads_variable:
            # Arena memory is reused and variables are updated in place, so no output may be a view
            # of either. Compiled code needs C order.
            outputs = [
                o if o.base is None and o.flags.c_contiguous else np.array(o, order="C")
                for o in map(np.asarray, outputs)
            ]
        return _copy_aliased(outputs, inputs)

    return run_reference


def _interpreted_loop(instruction: Instruction, env: StepEnvironment) -> PythonKernel:
    """Return a Python kernel for a loop without compiled code."""
    from tfjit.runtime.step.loop_osr import run_loop

    node, spec = instruction.node, instruction.spec

    def run(context: StepContext | None, inputs: Sequence[Any]) -> Sequence[Any]:
        assert context is not None
        try:
            # Arena memory is reused and variables are updated in place, so no output may be a view
            # of either.
            return [
                np.array(output, order="C") for output in run_loop(node, spec, env, context, inputs)
            ]
        except Exception as error:
            raise kernel_error(error, node.op, node.name, inputs) from error

    return run


def _cause(error: Exception) -> Exception | None:
    """Return the cause for the error that `kernel_error` makes of this one.

    Both may be the same object. An error that is its own cause would live until a garbage
    collection, together with its traceback's frames.
    """
    return None if isinstance(error, errors.OpError) else error


def _checked_element(value: Any, shape: Shape, op: str, node: str) -> Any:
    """Return a list's element in the shape and order of compiled code.

    Raises InvalidArgumentError for another shape.
    """
    if not isinstance(value, np.ndarray):
        return value
    if value.shape != shape:
        text = (
            f"{op} found an element of shape {format_shape(value.shape)}, where all that is "
            "put "
            f"into the list has {format_shape(shape)}"
        )
        raise at_node(errors.InvalidArgumentError(None, None, text), node)
    return value if value.flags.c_contiguous else np.array(value, order="C")


def _copy_aliased(outputs: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """Return the outputs with copies of those that are inputs.

    Such an input may be a feed, a constant or a variable's buffer.
    """
    known = set(map(id, inputs))
    return [o.copy() if id(o) in known and isinstance(o, np.ndarray) else o for o in outputs]
