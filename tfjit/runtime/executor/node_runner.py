"""Choose and define the runner of each node in the dataflow executor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework import errors
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.op_defs.op_traits import ENTER, EXIT, IDENTITY, MERGE, NEXT_ITERATION, SWITCH
from tfjit.framework.types.shape import format_shape
from tfjit.framework.types.tensors import OpaqueTensor
from tfjit.kernels.registry import NodeSpec, Reference, TensorSpec
from tfjit.runtime.executor.bounded_node import BoundedNode
from tfjit.runtime.executor.computed_node import ComputedNode, ReferencedNode
from tfjit.runtime.executor.runner import NodeRunner, RunnerEnvironment
from tfjit.runtime.host.completion import Done
from tfjit.runtime.host.device import Device
from tfjit.runtime.kernel_api.custom_kernels import custom_kernel
from tfjit.runtime.kernel_api.kernel_errors import at_node
from tfjit.runtime.kernel_api.missing_kernels import missing_kernel
from tfjit.runtime.kernel_api.op_kernel import (
    DEAD,
    NO_VALUE,
    OpContext,
    RuntimeKernel,
    StepContext,
    find_runtime_kernel,
)
from tfjit.runtime.lowering.lowered import updates_rows_locked
from tfjit.runtime.resources.variables_and_resources import SessionState, Variable

if TYPE_CHECKING:
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node


class _Arg(NodeRunner):
    def __init__(self, node: Node) -> None:
        self._index = node.attrs["index"]

    def run(self, context: StepContext, inputs: Sequence[Any], frame: str) -> Sequence[Any]:
        return (context.call_frame[self._index],)


class _Locked(NodeRunner):
    """A kernel that runs with the lock of its variable, input 0."""

    def __init__(self, runner: NodeRunner) -> None:
        self._runner = runner

    def run(self, context: StepContext, inputs: Sequence[object], frame: str) -> Sequence[object]:
        variable = inputs[0]
        assert isinstance(variable, Variable)
        with variable.lock:
            return self._runner.run(context, inputs, frame)

    def after_fork(self) -> None:
        self._runner.after_fork()


class _Retval(NodeRunner):
    def __init__(self, node: Node, source: str) -> None:
        self._index = node.attrs["index"]
        self._is_handle = node.input_dtypes[0].name == "resource"
        self._source = source  # the node whose value is fetched

    def run(self, context: StepContext, inputs: Sequence[Any], frame: str) -> Sequence[Any]:
        value = inputs[0]
        # it is inside of a loop, and this is a later iteration
        if context.return_values[self._index] is not NO_VALUE:
            raise errors.InternalError(None, None, f"Retval[{self._index}] has already been set.")
        if context.as_arrays:
            context.return_values[self._index] = self._on_edge(value)
            return ()
        if isinstance(value, Variable):
            try:
                value = value.initialized_value()
            except errors.OpError as error:
                raise at_node(error, self._source) from None
        context.return_values[self._index] = value
        return ()

    def _on_edge(self, value: Any) -> Any:
        """The result of a body as the caller's edge carries it: a handle stays one, an argument
        goes through.
        """
        if isinstance(value, Variable) and not self._is_handle:
            value = value.initialized_value().copy()
        return value


class Constant(NodeRunner):
    """A value that all runs share."""

    def __init__(self, value: object) -> None:
        self.value = value
        self._outputs = (value,)

    def run(self, context: StepContext, inputs: Sequence[Any], frame: str) -> Sequence[Any]:
        return self._outputs


class _Nothing(NodeRunner):
    def run(self, context: StepContext, inputs: Sequence[Any], frame: str) -> Sequence[Any]:
        return ()


class _Pass(NodeRunner):
    """Identity and its kin. A reference becomes the value where the output is no reference: a copy,
    unless `shares`.
    """

    def __init__(self, node: Node, shares: bool) -> None:
        self._dereference = [not d.is_ref and d.name != "resource" for d in node.output_dtypes]
        self._shares = shares

    def run(self, context: StepContext, inputs: Sequence[Any], frame: str) -> Sequence[Any]:
        if type(inputs[0]) is np.ndarray and len(inputs) == 1:
            return inputs
        return [
            self._value(value) if isinstance(value, Variable) and dereference else value
            for value, dereference in zip(inputs, self._dereference, strict=False)
        ]

    def _value(self, variable: Variable) -> np.ndarray:
        value = variable.initialized_value()
        return value if self._shares else value.copy()


class _Switch(NodeRunner):
    def __init__(self, device: Device) -> None:
        self._to_host = device.backend.to_host

    def run(self, context: StepContext, inputs: Sequence[Any], frame: str) -> Sequence[Any]:
        chosen = _choice(self._to_host(inputs[1]))
        return (DEAD, inputs[0]) if chosen else (inputs[0], DEAD)


class _SwitchN(NodeRunner):
    """The value goes to the output that the index names, to the last one where there is none of
    that number.
    """

    def __init__(self, node: Node, device: Device) -> None:
        self._count = len(node.output_dtypes)
        self._to_host = device.backend.to_host

    def run(self, context: StepContext, inputs: Sequence[Any], frame: str) -> Sequence[Any]:
        index = int(_choice(self._to_host(inputs[1])))
        outputs = [DEAD] * self._count
        outputs[index if 0 <= index < self._count else -1] = inputs[0]
        return outputs


def _choice(value: Any) -> np.ndarray:
    choice = np.asarray(value)
    if choice.shape != ():
        raise errors.InvalidArgumentError(
            None,
            None,
            f"The second input must be a scalar, but it has shape {format_shape(choice.shape)}",
        )
    return choice


class _RefSelect(NodeRunner):
    """One of the references, by index."""

    def __init__(self, device: Device) -> None:
        self._to_host = device.backend.to_host

    def run(self, context: StepContext, inputs: Sequence[Any], frame: str) -> Sequence[Any]:
        index, *references = inputs
        index = np.asarray(self._to_host(index))
        if index.shape != ():
            raise errors.InvalidArgumentError(
                None, None, f"Index must be a scalar, but it has shape {format_shape(index.shape)}"
            )
        if not 0 <= int(index) < len(references):
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Index must be in the range [0, {len(references)}) but got {int(index)}",
            )
        return (references[int(index)],)


class _Runtime(NodeRunner):
    """A kernel with the session's context, blocking or not."""

    def __init__(
        self, node: Node, kernel: RuntimeKernel, device: Device, session: SessionState
    ) -> None:
        self._node = node
        self._op = node.op if node.op_def is None else node.op_def.name
        self._input_dtypes = tuple(node.input_dtypes)
        self._output_dtypes = tuple(node.output_dtypes)
        self._output_shapes = tuple(node.output_shapes)
        self._kernel = kernel
        self._device = device
        self._session = session
        self.blocking = kernel.blocking
        self.expensive = kernel.expensive

    def _context(self, context: StepContext, frame: str) -> OpContext:
        node = self._node
        return OpContext(
            node.name,
            self._op,
            node.attrs,
            self._device,
            self._session,
            context,
            self._input_dtypes,
            self._output_dtypes,
            self._output_shapes,
            frame,
        )

    def run(self, context: StepContext, inputs: Sequence[Any], frame: str) -> Sequence[Any]:
        return self._kernel.compute(self._context(context, frame), inputs)

    def start(
        self, context: StepContext, inputs: Sequence[Any], frame: str, done: Done, is_dead: bool
    ) -> None:
        op_context = self._context(context, frame)
        op_context.is_dead = is_dead
        self._kernel.compute(op_context, inputs, done)


class _Moved(NodeRunner):
    """A reference kernel over arrays of variants: it moves them about and looks into none."""

    def __init__(self, node: Node, reference: Reference) -> None:
        self._node = node
        self._reference = reference

    def run(self, context: StepContext, inputs: Sequence[Any], frame: str) -> Sequence[Any]:
        node = self._node
        arrays = [
            variant_array(v) if d.name == "variant" else v
            for v, d in zip(inputs, node.input_dtypes, strict=True)
        ]
        specs = tuple(
            TensorSpec(d, np.shape(a)) for a, d in zip(arrays, node.input_dtypes, strict=True)
        )
        outputs = self._reference(NodeSpec(node.name, node.op, node.attrs, specs, (), {}), arrays)
        return [
            value[()]
            if dtype.name == "variant" and isinstance(value, np.ndarray) and value.shape == ()
            else value
            for value, dtype in zip(outputs, node.output_dtypes, strict=True)
        ]


def variant_array(value: Any) -> np.ndarray:
    """A variant as an array of objects, of shape [] where it is a scalar."""
    if isinstance(value, np.ndarray):
        return value
    array = np.empty((), object)
    array[()] = value
    return array


class _Reshaped(NodeRunner):
    """Reshape an array without a copy.

    Another runner serves other values, and reports errors.
    """

    def __init__(self, shape: tuple[int, ...], runner: NodeRunner) -> None:
        self._shape = shape
        self._runner = runner

    def run(self, context: StepContext, inputs: Sequence[object], frame: str) -> Sequence[object]:
        value = inputs[0]
        if type(value) is np.ndarray and value.flags.c_contiguous:
            try:
                return (value.reshape(self._shape),)
            except ValueError:  # the runner says so in TensorFlow's words
                pass
        return self._runner.run(context, inputs, frame)

    def after_fork(self) -> None:
        self._runner.after_fork()


def _reshape_target(node: Node, constants: Mapping[int, np.ndarray]) -> tuple[int, ...] | None:
    """Return the constant shape of a Reshape.

    None where NumPy reads it otherwise.
    """
    target = constants.get(1) if node.op == "Reshape" else None
    if target is None or target.ndim != 1 or (target < -1).any() or (target == 0).any():
        return None
    return tuple(target.tolist())


def _constant(node: Node, device: Device) -> NodeRunner:
    value = node.attrs["value"]
    if isinstance(value, OpaqueTensor):
        raise errors.UnimplementedError(
            None,
            None,
            f"Const {node.name} is a {value.dtype.name}, which refers to something of another "
            "process: make it with an op, or feed it",
        )
    return Constant(device.backend.to_device(np.asarray(value)))


# (partition's graph, node, device, shares) -> its runner: op types that the executor itself serves
_OWN: Final[Mapping[str, Callable[[DataflowGraph, Node, Device, bool], NodeRunner]]] = {
    "_Arg": lambda graph, node, device, shares: _Arg(node),
    "_Retval": lambda graph, node, device, shares: _Retval(node, graph.inputs(node.name)[0][0]),
    "Const": lambda graph, node, device, shares: _constant(node, device),
    **dict.fromkeys(("NoOp", "ControlTrigger"), lambda graph, node, device, shares: _Nothing()),
    **dict.fromkeys(
        ("IdentityN", "RefIdentity", "LoopCond"),
        lambda graph, node, device, shares: _Pass(node, shares),
    ),
    "_SwitchN": lambda graph, node, device, shares: _SwitchN(node, device),
    "RefSelect": lambda graph, node, device, shares: _RefSelect(device),
}
_PASSING: Final = IDENTITY | ENTER | EXIT | NEXT_ITERATION


def has_own_runner(op_type: str) -> bool:
    """Return whether the executor itself serves nodes of that type."""
    return op_type in _OWN or registry.has_trait(op_type, _PASSING | SWITCH | MERGE)


def make_runner(
    graph: DataflowGraph, node: Node, device: Device, env: RunnerEnvironment, shares: bool = False
) -> NodeRunner:
    """The runner of a node. shares: it reads a reference variable and gives that one's own memory.

    Raises UnimplementedError naming node and op when nothing in tfjit computes it.
    """
    op = node.op
    own = _OWN.get(op)
    if own is not None:
        return own(graph, node, device, shares)
    if node.has_trait(_PASSING):
        return _Pass(node, shares)
    if node.has_trait(SWITCH):
        return _Switch(device)
    if node.has_trait(MERGE):
        return _Nothing()  # the executor passes the value on
    runtime = custom_kernel(node) or find_runtime_kernel(node)
    if runtime is not None:
        return _Runtime(node, runtime, device, env.session)
    backend = device.backend
    reference = backend.kernel(op)
    if reference is not None and node.has_variant:
        return _Moved(node, reference)
    if reference is None and not backend.compiles(op):
        raise missing_kernel(node)
    constants = {}
    if "Const" in graph.op_types:
        for i, (src, _) in enumerate(graph.inputs(node.name)):
            source = graph.node(src)
            if source.op == "Const":
                constants[i] = np.asarray(source.attrs["value"])
    runner: NodeRunner
    if env.store is None or (env.compiled is not None and node.name not in env.compiled):
        runner = ReferencedNode(node, reference, env, device, constants)
    elif backend.bounds(op):
        runner = BoundedNode(node, reference, env, device, constants)
    elif not backend.compiles(op):
        runner = ReferencedNode(node, reference, env, device, constants)
    else:
        shapes = tuple(
            graph.node(source).output_shapes[slot] for source, slot in graph.inputs(node.name)
        )
        runner = ComputedNode(node, reference, env, device, constants, shapes)
    shape = _reshape_target(node, constants)
    if shape is not None:
        return _Reshaped(shape, runner)
    return _Locked(runner) if updates_rows_locked(node) else runner
