"""One node in the dataflow executor: how its values come about, whatever their shapes turn out to
be.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from tfjit.framework import errors, settings
from tfjit.framework.op_defs.op_def import registry
from tfjit.framework.op_defs.op_traits import ENTER, EXIT, IDENTITY, MERGE, NEXT_ITERATION, SWITCH
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.framework.types.shape import format_shape
from tfjit.framework.types.tensors import OpaqueTensor
from tfjit.kernels.executor.blas_threads import on_session_threads
from tfjit.kernels.registry import NodeSpec, Reference, TensorSpec, find_initial_state
from tfjit.runtime.executor.output_shapes import OutputShapes
from tfjit.runtime.host.device import Device
from tfjit.runtime.host.fork_safety import release_lock
from tfjit.runtime.kernel_api.custom_kernels import custom_kernel
from tfjit.runtime.kernel_api.kernel_errors import at_node
from tfjit.runtime.kernel_api.missing_kernels import missing_kernel
from tfjit.runtime.kernel_api.op_kernel import (
    DEAD,
    NO_VALUE,
    Done,
    OpContext,
    RuntimeKernel,
    StepContext,
    find_runtime_kernel,
)
from tfjit.runtime.lowering.lowering import Instruction, Lowered, Value
from tfjit.runtime.resources.variables_and_resources import SessionState, Variable
from tfjit.runtime.schedule.kernel_selection import CallMemo, add_member_calls, group_of
from tfjit.runtime.step.dumps import dump_kernels
from tfjit.runtime.step.loop_osr import run_loop
from tfjit.runtime.step.step import Step, StepEnvironment

if TYPE_CHECKING:
    from pathlib import Path

    from tfjit.framework.types.shape import Shape
    from tfjit.kernels.ir.backend import Backend
    from tfjit.kernels.source import KernelSource
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
    from tfjit.runtime.executor.requested_kernels import RequestedKernels

_MAX_SHAPES = 64
# lowered forms that wait for their kernels: each may hold packed constants
_MAX_WAITING = 16
_HEAVY_BYTES: Final = 1 << 20
"""Input bytes from which a first run is worth a builder and a step."""
# shapes after a first run: behind Unique, say, most never come again
_MAX_CHECKED = 1024
_MAX_SPECS = 8
_MUCH_WORK_BYTES: Final = 1 << 16
"""Least bytes of a node whose shapes are inferred from a run.

Inputs and outputs count.
"""
_MAX_FORMS: Final = 8
"""Most lowered forms of a node for shapes of a run.

The shapes may change from run to run.
"""


@dataclass(frozen=True, slots=True)
class RunnerEnvironment:
    """The session as its runners see it.

    store: compiled code, or None when compilation is off. settings: a block with its TFJIT_*.
    memos: the calls that nodes alike share, by backend.
    """

    session: SessionState
    step_environment: Callable[[str], StepEnvironment]
    store: RequestedKernels | None
    settings: Callable[[], AbstractContextManager[None]] = nullcontext
    memos: dict[int, CallMemo] = field(default_factory=dict)

    def memo(self, backend: Backend) -> CallMemo:
        """Return the calls of a backend's nodes so far."""
        return self.memos.setdefault(id(backend), CallMemo(backend))


class NodeRunner(ABC):
    """Compute one node.

    blocking: use `start`, which never waits, instead of `run`. expensive: `run` may take long, or
    wait for other nodes.
    """

    blocking = False
    expensive = False

    @abstractmethod
    def run(self, context: StepContext, inputs: Sequence[Any], frame: str) -> Sequence[Any]:
        """The node's outputs in order."""

    def start(
        self, context: StepContext, inputs: Sequence[Any], frame: str, done: Done, is_dead: bool
    ) -> None:
        """Begin; `done(outputs or exception)` is called once, from any thread."""
        raise NotImplementedError

    def after_fork(self) -> None:  # noqa: B027  most have nothing to put in order
        """Put things in order in a forked child."""


class _Arg(NodeRunner):
    def __init__(self, node: Node) -> None:
        self._index = node.attrs["index"]

    def run(self, context: StepContext, inputs: Sequence[Any], frame: str) -> Sequence[Any]:
        return (context.call_frame[self._index],)


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


class _Const(NodeRunner):
    def __init__(self, value: Any) -> None:
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


class _Referenced(NodeRunner):
    """A reference kernel."""

    def __init__(
        self,
        node: Node,
        reference: Reference | None,
        env: RunnerEnvironment,
        device: Device,
        constants: Mapping[int, np.ndarray],
    ) -> None:
        self._node = node
        threads = env.step_environment(device.name).threads
        self._reference = reference and on_session_threads(reference, threads)
        self._env = env
        self._device = device
        self._constants = constants
        self._make_state = find_initial_state(node.op)
        self._has_variable_input = any(d.is_ref or d is dtypes.resource for d in node.input_dtypes)
        # of stateless nodes without variables, by input shapes
        self._specs: OrderedDict[_Shapes, NodeSpec] = OrderedDict()
        self._lock = threading.Lock()
        self._keeps_specs = self._make_state is None and not self._has_variable_input

    def run(self, context: StepContext, inputs: Sequence[Any], frame: str) -> Sequence[Any]:
        for value in inputs:
            if isinstance(value, Variable):
                break
        else:
            return self._with_references(inputs, self._compute(context, inputs))
        arrays = [v.initialized_value() if isinstance(v, Variable) else v for v in inputs]
        outputs = self._compute(context, arrays)
        # updated in place: nothing may keep a view of its buffer, but a reference output is dropped
        outputs = [
            np.array(o)
            if not dtype.is_ref and any(np.may_share_memory(o, a) for a in arrays)
            else o
            for o, dtype in zip(outputs, self._node.output_dtypes, strict=False)
        ]
        return self._with_references(inputs, outputs)

    def _compute(self, context: StepContext, arrays: Sequence[np.ndarray]) -> Sequence[Any]:
        """The outputs by the reference kernel."""
        if self._node.op == "_Loop":
            environment = self._env.step_environment(self._device.name)
            return run_loop(self._node, self._spec(arrays, ()), environment, context, arrays)
        if self._reference is None:
            raise errors.UnimplementedError(
                None, None, f"op {self._node.op} has compiled code only, and it is not ready"
            )
        return self._reference(self._reference_spec(arrays), arrays)

    def _reference_spec(self, arrays: Sequence[np.ndarray]) -> NodeSpec:
        """The spec of the inputs, kept for arrays.

        Making a spec takes longer than a small kernel.
        """
        if not self._keeps_specs:
            return self._spec(arrays, ())
        for array in arrays:
            if type(array) is not np.ndarray:
                return self._spec(arrays, ())
        key = tuple([array.shape for array in arrays])
        spec = self._specs.get(key)
        if spec is None:
            spec = self._spec(arrays, ())
            with self._lock:
                _put(self._specs, key, spec, _MAX_SPECS)
        return spec

    def after_fork(self) -> None:
        release_lock(self._lock)

    def _with_references(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Sequence[Any]:
        """Reference outputs are the variable itself."""
        if not self._has_variable_input:
            return outputs
        values = iter(outputs)
        result = []
        for dtype in self._node.output_dtypes:
            value = next(values, None)
            result.append(inputs[0] if dtype.is_ref else value)
        return result

    def _spec(self, arrays: Sequence[np.ndarray], outputs: tuple[TensorSpec, ...]) -> NodeSpec:
        node = self._node
        in_specs = tuple(
            [
                TensorSpec(_value_dtype(d, a), np.shape(a))
                for a, d in zip(arrays, node.input_dtypes, strict=True)
            ]
        )
        spec = NodeSpec(node.name, node.op, node.attrs, in_specs, outputs, self._constants)
        if self._make_state is None:
            return spec
        make = self._make_state
        state = self._env.session.node_state(node.name, lambda: make(spec))
        return NodeSpec(node.name, node.op, node.attrs, in_specs, outputs, self._constants, state)


_Shapes = tuple[tuple[int, ...], ...]  # of a node's inputs


@dataclass(slots=True)
class _Waiting:
    """Hold a lowered form that waits for kernels.

    sources: its kernels. requested: they have been requested. has_members: the call of a group's
    members has been built, if there is one.
    """

    lowered: Lowered
    sources: tuple[KernelSource, ...]
    requested: bool = False
    has_members: bool = False


class _Computed(_Referenced):
    """Run the reference at first, and compiled code for repeated shapes.

    Shapes are lowered once, the second time they come. The lowered form waits for its kernels; a
    group's members serve meanwhile if theirs are present. A node of much work and of shapes
    known before the run is lowered the first time, and uses present kernels at once. No kernel is
    compiled for shapes that have come only once.

    input_shapes: as the graph knows them.
    """

    def __init__(
        self,
        node: Node,
        reference: Reference | None,
        env: RunnerEnvironment,
        device: Device,
        constants: Mapping[int, np.ndarray],
        input_shapes: tuple[Shape, ...] = (),
    ) -> None:
        super().__init__(node, reference, env, device, constants)
        self._input_shapes = input_shapes
        self._native = True  # until its builder refuses
        # None where the compiler refuses a kernel
        self._steps: OrderedDict[_Shapes, Step | None] = OrderedDict()
        self._waiting: OrderedDict[_Shapes, _Waiting] = OrderedDict()
        # input shapes that the reference has served
        self._checked: OrderedDict[_Shapes, None] = OrderedDict()
        # the latest input shapes with a step, and the step: of a node without variables
        self._latest: tuple[list[tuple[int, ...]], Step] | None = None
        shapes = [tuple(s) if s is not None else (None,) for s in node.output_shapes]
        # None where the graph knows the outputs' shapes
        self._inferred = OutputShapes(node) if any(None in s for s in shapes) else None
        self._forms = 0  # lowered forms for shapes of a run
        # the shapes tell the step, and a step returns scalars as such where edges carry arrays
        self._is_plain = (
            self._inferred is None and not self._has_variable_input and () not in node.output_shapes
        )

    def run(self, context: StepContext, inputs: Sequence[Any], frame: str) -> Sequence[Any]:
        latest = self._latest
        # A variable has a shape too, but is no array.
        if latest is not None and latest[0] == [a.shape for a in inputs if type(a) is np.ndarray]:
            return latest[1].run([np.asarray(a, order="C") for a in inputs], context)
        if self._native:
            arrays = [v.initialized_value() if isinstance(v, Variable) else v for v in inputs]
            found = self._step(arrays)
            if found is not None:
                if self._is_plain and not self._waiting:  # else a better step may follow
                    self._latest = [a.shape for a in arrays], found
                computed = found.run([np.asarray(a, order="C") for a in arrays], context)
                return self._with_references(inputs, [np.asarray(o) for o in computed])
        return super().run(context, inputs, frame)

    def _compute(self, context: StepContext, arrays: Sequence[np.ndarray]) -> Sequence[Any]:
        outputs = super()._compute(context, arrays)
        if self._native and self._as_inferred(arrays, outputs):
            key = self._key(arrays)
            if key not in self._checked:
                with self._lock:
                    _put(self._checked, key, None, _MAX_CHECKED)
        return outputs

    def _key(self, arrays: Sequence[np.ndarray]) -> _Shapes:
        """Return the shapes and values that a compiled form is for."""
        if self._inferred is not None:
            return self._inferred.key(arrays)
        return tuple([a.shape for a in arrays])

    def after_fork(self) -> None:
        super().after_fork()
        for step in self._steps.values():
            if step is not None:
                step.after_fork()

    def _as_inferred(self, arrays: Sequence[np.ndarray], outputs: Sequence[Any]) -> bool:
        """Return whether a run's outputs have the shapes that were inferred.

        Compiled code trusts them and checks nothing. Shapes of a run are inferred for much work
        alone.
        """
        if self._inferred is None:
            return all(
                np.shape(o) == s for o, s in zip(outputs, self._node.output_shapes, strict=False)
            )
        moved = sum(a.nbytes for a in arrays) + sum(getattr(o, "nbytes", 0) for o in outputs)
        if moved < _MUCH_WORK_BYTES or self._forms >= _MAX_FORMS:
            return False
        shapes, _ = self._inferred.of(arrays)
        return shapes is not None and shapes == tuple([np.shape(o) for o in outputs])

    def _is_heavy_and_static(self, arrays: Sequence[np.ndarray], key: _Shapes) -> bool:
        """Return whether shapes are as inferred and deserve a step at once."""
        return (
            self._inferred is None
            and key == self._input_shapes
            and sum(a.nbytes for a in arrays) >= _HEAVY_BYTES
        )

    def _step(self, arrays: Sequence[np.ndarray]) -> Step | None:
        """Return a step of this node for these shapes, or None."""
        key = self._key(arrays)
        store = self._env.store
        if store is None:
            return None
        with self._lock:
            waiting = self._waiting.get(key)
            # a step of a group's members, say
            if key in self._steps and (waiting is None or not _is_final(store, waiting.sources)):
                return self._steps[key]
            recurs = key in self._checked
        if not recurs and not self._is_heavy_and_static(arrays, key):
            return None
        if waiting is None:
            lowered = self._lowered(arrays)
            # the key is incomplete once shapes are read from further values
            if lowered is None or self._key(arrays) != key:
                return None
            call = lowered.instructions[0].call
            if call is None:
                self._native = False
                return None
            waiting = _Waiting(lowered, call.sources())
            with self._lock:
                _put(self._waiting, key, waiting, _MAX_WAITING)
        return self._made_step(key, waiting, store, recurs)

    def _made_step(
        self, key: _Shapes, waiting: _Waiting, store: RequestedKernels, recurs: bool
    ) -> Step | None:
        """Return a step of present code; request missing code of recurring shapes."""
        refused = any(store.refused(source) is not None for source in waiting.sources)
        own = all(store.lookup(source) is not None for source in waiting.sources)
        if not own and not refused and not waiting.requested:
            own = store.load_present(waiting.sources)
            if not own and recurs:
                store.request(waiting.sources)
                waiting.requested = True
        members = None if own else self._member_sources(waiting)
        ready = own or (members is not None and store.load_present(members))
        if refused and members is not None and not _is_final(store, members):
            store.request(members)
            return None
        if not ready and not refused:
            return None
        with self._lock:
            if self._waiting.get(key) is not waiting:  # another thread makes the step
                return self._steps.get(key)
            if own or refused:
                del self._waiting[key]
            elif key in self._steps:
                return self._steps[key]
        step = None
        if ready:
            with self._env.settings():
                folder = self._show(waiting.lowered)
            environment = replace(self._env.step_environment(self._device.name), dump_folder=folder)
            step = Step(waiting.lowered, environment, self._node.name)
        with self._lock:
            _put(self._steps, key, step, _MAX_SHAPES)
        return step

    def _member_sources(self, waiting: _Waiting) -> tuple[KernelSource, ...] | None:
        """Return the kernels of a group's members; None for other nodes."""
        (instruction,) = waiting.lowered.instructions
        if not waiting.has_members:
            waiting.has_members = True
            if instruction.spec.op == "_Fused":
                memo = self._env.memo(self._device.backend)
                add_member_calls(waiting.lowered, lambda call: True, memo=memo)
        return instruction.unfused.sources() if instruction.unfused is not None else None

    def _show(self, lowered: Lowered) -> Path | None:
        """Dump and log the node's code if wanted; return the dump folder."""
        dumps = settings.path("TFJIT_DUMP")
        folder = dumps / "nodes" if dumps is not None else None
        if folder is not None:
            dump_kernels(folder, lowered.instructions)
        titles = (
            dict.fromkeys(source.title for source in lowered.instructions[0].call.sources())
            if lowered.instructions[0].call
            else ()
        )
        settings.say(
            "kernels", "%s (%s): native %s", self._node.name, self._node.op, "; ".join(titles)
        )
        return folder

    def _lowered(self, arrays: Sequence[np.ndarray]) -> Lowered | None:
        node = self._node
        shapes: Sequence[Shape] | None = node.output_shapes
        constants = self._constants
        if self._inferred is not None:
            shapes, values_read = self._inferred.of(arrays)
            constants = {**constants, **values_read}
            self._forms += 1
        if shapes is None:
            return None
        if any(a.dtype == object for a in arrays):
            return None
        outputs = tuple(
            TensorSpec(d.base_dtype, tuple(int(x) for x in s or () if x is not None))
            for d, s in zip(node.output_dtypes, shapes, strict=True)
        )
        spec = replace(self._spec(arrays, outputs), constants=constants)
        backend = self._device.backend
        with self._env.settings():
            call, _ = self._env.memo(backend).call(spec, group_of(spec))
        values: list[Value] = []

        def value(dtype: Any, shape: tuple[int, ...], storage: Any, **kw: Any) -> Value:
            made = Value(len(values), dtype.base_dtype, shape, storage, producer=node.name, **kw)
            values.append(made)
            return made

        inputs = [
            value(_value_dtype(d, a), a.shape, "feed", feed=i)
            for i, (d, a) in enumerate(zip(node.input_dtypes, arrays, strict=True))
        ]
        results = [
            inputs[0] if d.is_ref else value(d, s.shape, "buffer")
            for d, s in zip(node.output_dtypes, outputs, strict=True)
        ]
        instruction = Instruction(node, "reference", inputs, results, spec, self._reference, call)
        fetches = [r for r in results if r.storage == "buffer"]
        for fetched in fetches:
            fetched.fetched = True
        return Lowered(
            [instruction],
            values,
            fetches,
            dict(enumerate(inputs)),
            len(inputs),
            backend=self._device.backend,
        )


_V = TypeVar("_V")


def _is_final(store: RequestedKernels, sources: Sequence[KernelSource]) -> bool:
    """Return whether each kernel is loaded or refused."""
    return all(store.lookup(s) is not None or store.refused(s) is not None for s in sources)


def _put(table: OrderedDict[_Shapes, _V], key: _Shapes, value: _V, limit: int) -> None:
    """Set an entry of a table; drop the oldest beyond the limit."""
    table[key] = value
    if len(table) > limit:
        table.popitem(last=False)


def variant_array(value: Any) -> np.ndarray:
    """A variant as an array of objects, of shape [] where it is a scalar."""
    if isinstance(value, np.ndarray):
        return value
    array = np.empty((), object)
    array[()] = value
    return array


def _value_dtype(dtype: DType, value: Any) -> DType:
    """What a kernel sees of an edge: of a resource edge, the dtype of the variable behind it."""
    return (
        as_dtype(value.dtype)
        if dtype is dtypes.resource and isinstance(value, np.ndarray)
        else dtype._base
    )


def _constant(node: Node, device: Device) -> NodeRunner:
    value = node.attrs["value"]
    if isinstance(value, OpaqueTensor):
        raise errors.UnimplementedError(
            None,
            None,
            f"Const {node.name} is a {value.dtype.name}, which refers to something of another "
            "process: make it with an op, or feed it",
        )
    return _Const(device.backend.to_device(np.asarray(value)))


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
    if env.store is None or not backend.compiles(op):
        return _Referenced(node, reference, env, device, constants)
    shapes = tuple(
        graph.node(source).output_shapes[slot] for source, slot in graph.inputs(node.name)
    )
    return _Computed(node, reference, env, device, constants, shapes)
