"""Compute one node: references first, compiled code for shapes that recur."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from tfjit.framework import errors, settings
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.kernels.executor.blas_threads import on_session_threads
from tfjit.kernels.registry import NodeSpec, Reference, TensorSpec, find_initial_state
from tfjit.runtime.executor.output_shapes import OutputShapes
from tfjit.runtime.executor.runner import NodeRunner, RunnerEnvironment
from tfjit.runtime.host.device import Device
from tfjit.runtime.host.fork_safety import release_lock
from tfjit.runtime.kernel_api.op_kernel import (
    StepContext,
)
from tfjit.runtime.lowering.lowered import Instruction, Lowered, Value
from tfjit.runtime.resources.variables_and_resources import Variable
from tfjit.runtime.schedule.compile_cost import Meanwhile, MissingKernel, choose
from tfjit.runtime.schedule.group_division import divide_refused
from tfjit.runtime.schedule.kernel_selection import (
    add_member_calls,
    gain_ns,
    group_of,
    sources,
)
from tfjit.runtime.step.dumps import dump_kernels
from tfjit.runtime.step.loop_osr import run_loop
from tfjit.runtime.step.run_count import RunCount
from tfjit.runtime.step.step import Step

if TYPE_CHECKING:
    from pathlib import Path

    from tfjit.framework.types.shape import Shape
    from tfjit.kernels.source import KernelSource
    from tfjit.passes.ir.dataflow_graph import Node
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


class ReferencedNode(NodeRunner):
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
    members has been built, if there is one. divided: parts have replaced a group. awaited: kernels
    of the parts that may still arrive. runs: counts the runs of members, until they pay for the
    group's kernel. is_deferred: they have not paid yet.
    """

    lowered: Lowered
    sources: tuple[KernelSource, ...]
    requested: bool = False
    has_members: bool = False
    divided: bool = False
    awaited: list[KernelSource] = field(default_factory=list)
    runs: RunCount | None = None
    is_deferred: bool = False


class ComputedNode(ReferencedNode):
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
        self._latest: tuple[list[tuple[int, tuple[int, ...]]], Step] | None = None
        self._has_plain_constants = all(array.flags.c_contiguous for array in constants.values())
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
        if latest is not None:
            for k, shape in latest[0]:
                a = inputs[k]
                # A variable has a shape too, but is no array.
                if type(a) is not np.ndarray or a.shape != shape or not a.flags.c_contiguous:
                    break
            else:
                return latest[1].run(inputs, context)
        if self._native:
            arrays = [v.initialized_value() if isinstance(v, Variable) else v for v in inputs]
            found = self._step(arrays)
            if found is not None:
                # else a better step may follow
                if (
                    self._is_plain
                    and self._has_plain_constants
                    and all(form.is_deferred for form in list(self._waiting.values()))
                ):
                    varying = [k for k in range(len(arrays)) if k not in self._constants]
                    self._latest = [(k, arrays[k].shape) for k in varying], found
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
            and (self._env.compiled is not None or sum(a.nbytes for a in arrays) >= _HEAVY_BYTES)
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
        if waiting.awaited and not store.are_final(waiting.awaited):
            return self._steps.get(key)
        refused = any(store.refused(source) is not None for source in waiting.sources)
        own = all(store.lookup(source) is not None for source in waiting.sources)
        if not own and not refused and not waiting.requested:
            own = store.load_present(waiting.sources)
            if not own and recurs:
                waiting.requested = True
                self._request(key, waiting, store)
        if refused:
            self._divide_refused(waiting, store)
        members = None if own or waiting.divided else self._member_sources(waiting)
        ready = own or waiting.divided or (members is not None and store.load_present(members))
        is_final = own or (refused and not waiting.awaited)
        if not ready and not is_final:
            return None
        with self._lock:
            if self._waiting.get(key) is not waiting:  # another thread makes the step
                return self._steps.get(key)
            if is_final:
                del self._waiting[key]
            elif key in self._steps:
                return self._steps[key]
        step = None
        if ready:
            with self._env.settings():
                folder = self._show(waiting.lowered)
            environment = replace(self._env.step_environment(self._device.name), dump_folder=folder)
            step = Step(waiting.lowered, environment, self._node.name, waiting.runs)
        with self._lock:
            _put(self._steps, key, step, _MAX_SHAPES)
        return step

    def _request(self, key: _Shapes, waiting: _Waiting, store: RequestedKernels) -> None:
        """Request a form's kernels, or defer them.

        They are deferred for a group whose members' kernels are present.
        """
        members = self._member_sources(waiting)
        group = group_of(waiting.lowered.instructions[0].spec)
        if group is None or members is None or not store.load_present(members):
            store.request(waiting.sources)
            return
        saved_ns = gain_ns(self._device.backend, group) / len(waiting.sources)
        missing = [MissingKernel(s, saved_ns, Meanwhile.MEMBERS) for s in waiting.sources]
        choice = choose(missing, 0, store.has_compiler())
        if not choice.deferred:
            store.request(waiting.sources)
            return
        waiting.runs, waiting.is_deferred = RunCount(), True
        found = weakref.ref(self)  # the count belongs to a step of this node

        def request() -> None:
            node = found()
            if node is not None:
                node._request_deferred(key, store)

        waiting.runs.call_at(choice.runs, request)
        store.defer(self)

    def request_deferred(self, store: RequestedKernels) -> None:
        """Request the deferred kernels of all forms."""
        for key in list(self._waiting):
            self._request_deferred(key, store)

    def _request_deferred(self, key: _Shapes, store: RequestedKernels) -> None:
        """Request the deferred kernels of a form, unless that is done."""
        with self._lock:
            waiting = self._waiting.get(key)
            if waiting is None or not waiting.is_deferred:
                return
            waiting.is_deferred = False
            self._latest = None
        store.request(waiting.sources)

    def _divide_refused(self, waiting: _Waiting, store: RequestedKernels) -> None:
        """Divide a refused group, or request the kernels of its parts."""
        memo = self._env.memo(self._device.backend)
        with self._env.settings():
            lowered, waiting.awaited = divide_refused(waiting.lowered, memo, store)
        if lowered is not waiting.lowered:
            waiting.lowered, waiting.divided = lowered, True
            waiting.sources = tuple(sources(i.call for i in lowered.instructions))
            waiting.awaited = [s for s in waiting.sources if not store.are_final([s])]
        if waiting.awaited:
            store.request(waiting.awaited)

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


def _value_dtype(dtype: DType, value: Any) -> DType:
    """Return the dtype of an edge, or of its variable."""
    return (
        as_dtype(value.dtype)
        if dtype is dtypes.resource and isinstance(value, np.ndarray)
        else dtype._base
    )
