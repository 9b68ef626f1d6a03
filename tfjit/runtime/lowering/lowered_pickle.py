"""Write and read a lowered partition with compiled calls as bytes.

The bytes are Python's pickle of the instructions and values. What belongs to the session is left
out and found again: its variables, the arrays of its graph's constants, the backend. Texts of
kernels and large arrays lie outside of the pickle. Only classes of tfjit and NumPy are read.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from tfjit.framework.cooperative_yield import yield_interpreter
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.op_defs.op_traits import RUNS_FUNCTIONS
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import TensorShape
from tfjit.kernels.ir.backend import Backend
from tfjit.kernels.ir.fused_group import Member
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, TensorSpec
from tfjit.kernels.source import KernelSource
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.ir.node import Node
from tfjit.runtime.kernel_api.op_kernel import find_runtime_kernel
from tfjit.runtime.lowering.lowered import Instruction, Serving, Value, copy_out
from tfjit.runtime.resources.variables_and_resources import Variable

if TYPE_CHECKING:
    from tfjit.passes.ir.dataflow_graph import Edge

_Root = TypeVar("_Root")

SHARED_BYTES: Final = 64
"""Least bytes of an array that is looked up among the constants."""
OUTSIDE_BYTES: Final = 4096
"""Least bytes of an array outside of the pickle.

Such arrays are compared by their contents.
"""
ALIGN_BYTES: Final = 64
"""Boundary of packed weights.

Arrays on such a boundary are read back to one.
"""
_PACKAGES: Final = ("tfjit.", "numpy.")
_BUILTINS: Final = frozenset({"frozenset", "set", "slice", "complex", "bytearray", "range"})


class NotStorable(Exception):
    """Signal that a plan holds an object that cannot be read back.

    The text names the object.
    """


@dataclass(frozen=True, slots=True)
class Encoded:
    """Hold a lowered partition as bytes.

    sources: the texts of its kernels. arrays: the buffers outside of the pickle.
    """

    pickled: bytes
    sources: tuple[KernelSource, ...]
    arrays: tuple[pickle.PickleBuffer, ...]


class NodeOrder:
    """The nodes of a graph that was lowered, with their successors.

    It replaces the graph where instructions change places.
    """

    __slots__ = ("_successors",)

    def __init__(self, names: Sequence[str], successors: Sequence[Sequence[int]]) -> None:
        self._successors = {
            name: [names[k] for k in after] for name, after in zip(names, successors, strict=True)
        }

    def __iter__(self) -> Iterator[str]:
        return iter(self._successors)

    def __len__(self) -> int:
        return len(self._successors)

    def successors(self, name: str) -> Iterator[str]:
        """Return the nodes with an edge from this one."""
        return iter(self._successors[name])

    def edges_into(self, name: str) -> list[Edge]:
        """Return no edges: the order has none."""
        return []

    edges_out_of = edges_into


class LateKernel:
    """Call an instruction's Python kernel, which is found at the first call.

    Finding it imports its family, and compiled code serves most instructions.
    """

    __slots__ = ("_find", "_found")

    def __init__(self, find: Callable[[], Callable[..., object]]) -> None:
        self._find = find
        self._found: Callable[..., object] | None = None

    def __call__(self, *args: object) -> object:
        if self._found is None:
            self._found = self._find()
        return self._found(*args)


def _late(node: Node, serving: str, backend: Backend) -> Callable[..., object]:
    if serving == "copy":
        return copy_out

    def find() -> Callable[..., object]:
        if serving == "runtime":
            runtime = find_runtime_kernel(node)
            assert runtime is not None
            return runtime.compute
        kernel = backend.kernel(node.op)
        assert kernel is not None
        return kernel

    return LateKernel(find)


# ---- functions that make objects while they are read


def _dtype(enum: int) -> DType:
    return dtypes.as_dtype(enum)


def _node(
    op: str, is_defined: bool, name: str, id: int, attrs: dict[str, object], *more: object
) -> Node:
    op_def = registry.lookup(op) if is_defined else None
    return Node(None, name, id, op, attrs, op_def, *more)  # type: ignore[arg-type]


def _order(names: tuple[str, ...], successors: tuple[tuple[int, ...], ...]) -> NodeOrder:
    return NodeOrder(names, successors)


def _message(kind: type[str], text: str, state: Mapping[str, object]) -> str:
    made = str.__new__(kind, text)
    vars(made).update(state)
    return made


def _instruction(
    serving: Serving,
    has_kernel: bool,
    backend: Backend,
    node: Node,
    inputs: list[Value],
    outputs: list[Value],
    spec: NodeSpec,
    *more: object,
) -> Instruction:
    compute = _late(node, serving, backend) if has_kernel else None
    made = Instruction(node, serving, inputs, outputs, spec, compute)
    for name, value in zip(_INSTRUCTION_FIELDS, more, strict=True):
        setattr(made, name, value)
    return made


_INSTRUCTION_FIELDS: Final = (
    "call",
    "reason",
    "unfused",
    "construct",
    "role",
    "graph",
    "path",
    "sequence",
    "moves",
)
_RECORDS: Final[Mapping[type, tuple[str, ...]]] = {
    kind: tuple(field.name for field in fields(kind))
    for kind in (Launch, Member, NativeCall, NodeSpec, Pointer, TensorSpec)
}
"""Frozen classes, read by a call of the class.

Their own `__setstate__` is slow.
"""


class _Pickler(pickle.Pickler):
    """Write the objects of a lowered partition.

    sources: the kernels so far, with their numbers.
    """

    def __init__(
        self,
        file: io.BytesIO,
        variables: Mapping[int, str],
        constants: Mapping[str, np.ndarray],
        outside: list[pickle.PickleBuffer],
        backend: Backend,
    ) -> None:
        def add(buffer: pickle.PickleBuffer) -> bool:
            raw = buffer.raw()
            if raw.nbytes < OUTSIDE_BYTES and not _is_aligned(np.frombuffer(raw, np.uint8)):
                return True
            outside.append(buffer)
            return False

        super().__init__(file, 5, buffer_callback=add)
        self.sources: dict[KernelSource, int] = {}
        self._variables = variables
        self._constants = constants
        self._backend = backend
        self._at = {
            (array.ctypes.data, array.nbytes): name
            for name, array in constants.items()
            if array.nbytes >= SHARED_BYTES
        }
        self._by_digest: dict[bytes, str] | None = None
        self._tensors: dict[TensorSpec, TensorSpec] = {}

    def persistent_id(self, obj: Any) -> object:
        kind = type(obj)
        if kind is np.ndarray:
            return self._constant(obj)
        if kind is KernelSource:
            return "kernel", self.sources.setdefault(obj, len(self.sources))
        if kind is Variable:
            name = self._variables.get(id(obj))
            if name is None:
                raise NotStorable(f"variable {obj.name} is no node of the run")
            return "variable", name
        if obj is self._backend:
            return ("backend",)
        return None

    def _constant(self, array: np.ndarray) -> object:
        """Return the reference to a constant of the graph, or None."""
        if array.nbytes < SHARED_BYTES or array.dtype == object:
            return None
        if not array.flags.c_contiguous:
            return None
        name = self._at.get((array.ctypes.data, array.nbytes))
        if name is None and array.nbytes >= OUTSIDE_BYTES and not _is_aligned(array):
            if self._by_digest is None:
                self._by_digest = {
                    _digest(known): name
                    for name, known in self._constants.items()
                    if known.nbytes >= OUTSIDE_BYTES and known.dtype != object
                }
            name = self._by_digest.get(_digest(array))
        if name is None or self._constants[name].dtype != array.dtype:
            return None
        return "constant", name, array.shape

    def reducer_override(self, obj: Any) -> Any:
        yield_interpreter()
        kind = type(obj)
        names = _RECORDS.get(kind)
        if names is not None:
            if kind is TensorSpec:
                found = self._tensors.setdefault(obj, obj)
                if found is not obj:
                    return _same, (found,)
            return kind, tuple(getattr(obj, name) for name in names)
        if kind is Instruction:
            return self._instruction(obj)
        if kind is Node:
            return self._node(obj)
        if kind is DType:
            return _dtype, (obj.as_datatype_enum,)
        if kind is TensorShape:
            return TensorShape._of, (obj.dims_tuple,)
        if isinstance(obj, str):  # a message with its own numbers
            return _message, (kind, str.__str__(obj), vars(obj))
        if kind in (DataflowGraph, NodeOrder):
            numbers = {name: k for k, name in enumerate(obj)}
            after = tuple(tuple(numbers[name] for name in obj.successors(node)) for node in obj)
            return _order, (tuple(numbers), after)
        return NotImplemented

    def _instruction(self, obj: Instruction) -> object:
        if obj.serving == "runtime" and obj.node.has_trait(RUNS_FUNCTIONS):
            raise NotStorable(f"{obj.node.name} ({obj.node.op}) runs functions")
        rest = (obj.node, obj.inputs, obj.outputs, obj.spec)
        unfused = obj.unfused if obj.unfused is obj.call else None
        more = [getattr(obj, name) for name in _INSTRUCTION_FIELDS]
        more[_INSTRUCTION_FIELDS.index("unfused")] = unfused
        has_kernel = obj.compute is not None
        return _instruction, (obj.serving, has_kernel, self._backend, *rest, *more)

    def _node(self, obj: Node) -> object:
        op_def = obj.op_def
        if op_def is not None and not (_is_builtin(obj.op) and op_def is registry.lookup(obj.op)):
            raise NotStorable(f"{obj.name} ({obj.op}) has an op or a kernel of the user's")
        return _node, (
            obj.op,
            op_def is not None,
            obj.name,
            obj.id,
            obj.attrs,
            obj.input_dtypes,
            obj.output_dtypes,
            obj.device,
            obj.assigned_device,
            obj.origin,
            obj.output_shapes,
        )


def _is_builtin(op: str) -> bool:
    return op.startswith("_") or bool(registry.family_name(op))


def _same(value: object) -> object:
    return value


def _is_aligned(array: np.ndarray) -> bool:
    """Return whether an array lies on a vector's boundary."""
    return bool(array.ctypes.data % ALIGN_BYTES == 0)


def _digest(array: np.ndarray) -> bytes:
    yield_interpreter()
    header = f"{array.dtype.str} {array.nbytes} ".encode()
    return hashlib.sha256(header + array.tobytes()).digest()


class _Unpickler(pickle.Unpickler):
    """Read a lowered partition for a session."""

    def __init__(
        self,
        file: io.BytesIO,
        buffers: Iterable[memoryview],
        sources: Sequence[KernelSource],
        variable: Callable[[str], Variable],
        constant: Callable[[str], np.ndarray],
        backend: Backend,
    ) -> None:
        super().__init__(file, buffers=buffers)
        self._sources, self._variable, self._constant = sources, variable, constant
        self._backend = backend

    def persistent_load(self, pid: Any) -> object:
        kind = pid[0]
        if kind == "kernel":
            return self._sources[pid[1]]
        if kind == "constant":
            return self._constant(pid[1]).reshape(pid[2])
        if kind == "variable":
            return self._variable(pid[1])
        if kind == "backend":
            return self._backend
        raise pickle.UnpicklingError(f"unknown reference {kind!r}")

    def find_class(self, module: str, name: str) -> object:
        if module.startswith(_PACKAGES) or module == "numpy":
            return super().find_class(module, name)
        if module == "builtins" and name in _BUILTINS:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is no part of a plan")


def encode(
    root: object,
    backend: Backend,
    variables: Mapping[int, str],
    constants: Mapping[str, np.ndarray],
) -> Encoded:
    """Return a lowered partition, or an object that holds one, as bytes.

    variables: node names by id of the session's Variables. constants: the arrays of the graph's
    constants by node. Raises NotStorable.
    """
    file, outside = io.BytesIO(), list[pickle.PickleBuffer]()
    pickler = _Pickler(file, variables, constants, outside, backend)
    try:
        pickler.dump(root)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
        raise NotStorable(f"{type(error).__name__}: {error}") from error
    return Encoded(file.getvalue(), tuple(pickler.sources), tuple(outside))


def decode(
    kind: type[_Root],
    pickled: memoryview,
    buffers: Iterable[memoryview],
    sources: Sequence[KernelSource],
    variable: Callable[[str], Variable],
    constant: Callable[[str], np.ndarray],
    backend: Backend,
) -> _Root:
    """Return the object that `encode` wrote.

    kind: its class. buffers: the arrays outside of the pickle, in order and on boundaries of
    ALIGN_BYTES. variable, constant: the session's Variable and array of a node. Raises
    UnpicklingError and others for damaged bytes.
    """
    file = io.BytesIO(pickled)
    found = _Unpickler(file, buffers, sources, variable, constant, backend).load()
    if type(found) is not kind:
        raise pickle.UnpicklingError(f"a {type(found).__name__} is no {kind.__name__}")
    return found


__all__ = ["ALIGN_BYTES", "Encoded", "LateKernel", "NodeOrder", "NotStorable", "decode", "encode"]
