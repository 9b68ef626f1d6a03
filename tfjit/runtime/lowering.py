"""A static partition as a list of instructions over values: what a step needs to know, before any memory or address is chosen.

`lower` is pure: it runs no kernel, holds no thread and compiles nothing. `step.py` turns its result into something that runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tfjit.framework import errors
from tfjit.kernels.registry import NativeCall, NodeSpec, TensorSpec, Unsupported, find_native, find_reference
from tfjit.passes.shapes import TABLE_OPS
from tfjit.runtime.custom_kernels import custom_kernel
from tfjit.runtime.op_kernel import find_runtime_kernel
from tfjit.runtime.resources import Variable
from tfjit.runtime.write_order import late_writes

if TYPE_CHECKING:
    from tfjit.framework.dtypes import DType
    from tfjit.passes.view import DataflowGraph, Node

# The output is the first input's buffer with another shape; nothing runs.
VIEW_OPS: Final = frozenset(
    {
        "Identity",
        "Reshape",
        "Squeeze",
        "ExpandDims",
        "StopGradient",
        "PreventGradient",
        "Snapshot",
        "GuaranteeConst",
        "EnsureShape",
        "PlaceholderWithDefault",
        "RefIdentity",
    }
)
VARIABLE_OPS: Final = frozenset({"Variable", "VariableV2", "VarHandleOp"})
NOTHING_OPS: Final = frozenset({"NoOp", "ControlTrigger"})
# What only the dataflow executor runs: control flow, and what waits.
DATAFLOW_OPS: Final = frozenset(
    {"Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond", "RefSwitch", "RefMerge", "RefEnter", "RefExit", "RefNextIteration"}
)


class NotStatic(Exception):
    """The partition needs the dataflow executor; the text says why."""


StorageKind = Literal["const", "feed", "variable", "buffer", "object", "handle"]


@dataclass(slots=True)
class Value:
    """One tensor of the step.

    storage: const (array known now), feed (an argument of the run), variable (a Variable's current buffer), buffer (arena or fresh
        output memory), object (a Python object a Python kernel returned), handle (a Variable standing for a ref or resource edge).
    base: the value whose memory this one shares (a view), or None.
    read_at_end: a fetched reference, whose variable is read when all else has run.
    """

    index: int
    dtype: DType
    shape: tuple[int, ...]
    storage: StorageKind
    array: np.ndarray | None = None
    feed: int = -1
    variable: Variable | None = None
    base: Value | None = None
    producer: str = ""
    fetched: bool = False
    read_at_end: bool = False

    @property
    def root(self) -> Value:
        """The value that owns the memory."""
        value = self
        while value.base is not None:
            value = value.base
        return value

    @property
    def spec(self) -> TensorSpec:
        """dtype and shape as kernels see them."""
        return TensorSpec(self.dtype, self.shape)


Serving = Literal["native", "reference", "runtime", "copy"]


@dataclass(slots=True)
class Instruction:
    """One node that does something at run time.

    serving: native (compiled), reference (NumPy), runtime (a kernel with the session's context), copy (a variable's value kept before
    the variable changes). compute: the Python kernel (not for native). spec: what its kernel knows.
    call: compiled code for it. one_by_one: for a group of small tensors, its members' own kernels; they serve while `call` is not loaded.
    """

    node: Node
    serving: Serving
    inputs: list[Value]
    outputs: list[Value]
    spec: NodeSpec
    compute: Callable[..., Any] | None = None
    call: NativeCall | None = None
    reason: str = ""
    one_by_one: NativeCall | None = None


@dataclass(slots=True)
class Lowered:
    """A partition's instructions in execution order, its values, and where feeds and fetches are.

    graph: what was lowered, for what may change places; None for a single node.
    is_body: what is fetched goes on in the caller's step as edges carry it: scalars are arrays, what came in unchanged is not copied.
    """

    instructions: list[Instruction]
    values: list[Value]
    fetches: list[Value]
    feeds: dict[int, Value]
    feed_count: int  # of the run; a feed that nothing needs has no value
    served: dict[str, tuple[str, str]] = field(default_factory=dict)  # node -> (how, why), for explain
    graph: DataflowGraph | None = None
    is_body: bool = False


class Lowering:
    """Lowers one partition graph. Use `lower`."""

    def __init__(
        self,
        graph: DataflowGraph,
        find_variable: Callable[[Node], Variable],
        feed_count: int,
        arguments: Mapping[int, Variable] | None,
    ) -> None:
        self.graph = graph
        self.find_variable = find_variable
        self.arguments = arguments or {}
        self.result = Lowered([], [], [], {}, feed_count, graph=graph, is_body=arguments is not None)
        self.by_output: dict[tuple[str, int], Value] = {}
        self.fetches: dict[int, Value] = {}
        self.position: dict[str, int] = {}  # of a node in the order of execution

    def run(self) -> Lowered:
        graph = self.graph
        order = [name for name in graph.topological_order() if name not in ("_SOURCE", "_SINK")]
        mutators = _mutators(graph, order)
        if mutators:
            order = late_writes(graph, order, self._is_read, lambda name: graph.node(name).op in VIEW_OPS, _variables(graph, order))
        self.position = {name: i for i, name in enumerate(order)}
        for name in order:
            node = graph.node(name)
            inputs = [self.by_output[source] for source in graph.inputs(name)]
            self._node(node, inputs)
        self.result.fetches = [self.fetches[i] for i in sorted(self.fetches)]
        if mutators:
            self._keep_reads_before_writes()
        return self.result

    def _value(self, node: Node, slot: int, storage: StorageKind, shape: tuple[int, ...], **kw: Any) -> Value:
        value = Value(len(self.result.values), node.output_dtypes[slot].base_dtype, shape, storage, producer=node.name, **kw)
        self.result.values.append(value)
        self.by_output[node.name, slot] = value
        return value

    def _served(self, node: Node, how: str, why: str = "") -> None:
        self.result.served[node.name] = (how, why)

    def _node(self, node: Node, inputs: list[Value]) -> None:
        op = node.op
        if op in DATAFLOW_OPS:
            raise NotStatic(f"{node.name} ({op}) is control flow")
        if any(dtype.name == "variant" for dtype in node.output_dtypes):
            raise NotStatic(f"{node.name} ({op}) makes a variant")
        if op in NOTHING_OPS:
            self._served(node, "nothing")
        elif op == "_Arg":
            index = node.attrs["index"]
            if index in self.arguments:
                variable = self.arguments[index]
                handle = self._value(node, 0, "handle", _variable_shape(node, variable), variable=variable)
                handle.dtype = variable.dtype
                self._served(node, "variable")
                return
            shape = _static_shape(node, 0) if node.output_dtypes[0].is_numpy_compatible else ()
            self.result.feeds[index] = self._value(node, 0, "feed", shape, feed=index)
            self._served(node, "feed")
        elif op == "_Retval":
            value = inputs[0]
            if value.storage == "handle" and not self.result.is_body:
                value = self._fetched_reference(node, value)
            value.fetched = True
            self.fetches[node.attrs["index"]] = value
            self._served(node, "fetch")
        elif op == "Const":
            array = np.asarray(node.attrs["value"])
            if not array.flags.c_contiguous:
                array = np.ascontiguousarray(array).reshape(array.shape)
            self._value(node, 0, "const", array.shape, array=array)
            self._served(node, "constant")
        elif op in VARIABLE_OPS:
            variable = self.find_variable(node)
            handle = self._value(node, 0, "handle", _variable_shape(node, variable), variable=variable)
            handle.dtype = variable.dtype  # kernels see the variable's own buffer
            self._served(node, "variable")
        elif op == "ReadVariableOp" or (op in VIEW_OPS and inputs[0].storage == "handle"):
            self._read(node, inputs[0])
        elif op in VIEW_OPS and (op != "Reshape" or inputs[1].root.storage == "const"):  # else it checks a shape that comes at run time
            self._view(node, inputs[0])
        else:
            self._kernel(node, inputs)

    def _is_read(self, name: str) -> bool:
        node = self.graph.node(name)
        return node.op == "ReadVariableOp" or (node.op in VIEW_OPS and not _carries_variable(node))

    def _read(self, node: Node, handle: Value) -> None:
        if node.op != "ReadVariableOp" and _carries_variable(node):
            # the reference or handle itself goes on
            self.by_output[node.name, 0] = handle
            self._served(node, "variable")
            return
        assert handle.variable is not None
        shape = _static_shape(node, 0)
        self._value(node, 0, "variable", shape, variable=handle.variable)
        self._served(node, "variable read")

    def _fetched_reference(self, node: Node, handle: Value) -> Value:
        """The value of a fetched reference variable, as it is when the step ends: nothing orders such a fetch against updates."""
        source, slot = self.graph.inputs(node.name)[0]
        if not self.graph.node(source).output_dtypes[slot].is_ref:
            raise NotStatic(f"{node.name} fetches a handle")
        value = Value(
            len(self.result.values), handle.dtype, handle.shape, "variable", variable=handle.variable, producer=source, read_at_end=True
        )
        self.result.values.append(value)
        return value

    def _view(self, node: Node, source: Value) -> None:
        if not source.dtype.is_numpy_compatible or (
            source.storage == "object" and source.dtype.as_numpy_dtype == np.object_ and node.op == "Identity"
        ):
            self.by_output[node.name, 0] = source
        else:
            self._value(node, 0, source.storage, _static_shape(node, 0), base=source)
        self._served(node, "view")

    def _kernel(self, node: Node, inputs: list[Value]) -> None:
        runtime = custom_kernel(node) or find_runtime_kernel(node)
        constants = {
            i: v.root.array.reshape(v.shape) for i, v in enumerate(inputs) if v.root.storage == "const" and v.root.array is not None
        }
        if runtime is not None:
            if runtime.blocking:
                raise NotStatic(f"{node.name} ({node.op}) may wait")
            if node.op in ("Assign", "AssignVariableOp") and inputs[0].shape != inputs[1].shape:
                raise NotStatic(f"{node.name} ({node.op}) may change the shape of its variable")
            outputs = []
            for slot, dtype in enumerate(node.output_dtypes):
                if node.op.removesuffix("V2") in TABLE_OPS:  # the table itself, for kernels of Python only
                    outputs.append(self._value(node, slot, "object", ()))
                elif dtype.name.startswith("resource") or (dtype.is_ref and not inputs):
                    raise NotStatic(f"{node.name} ({node.op}) makes a resource")
                elif dtype.is_ref:  # the reference passed through (Assign)
                    self.by_output[node.name, slot] = inputs[0]
                    outputs.append(inputs[0])
                else:
                    outputs.append(self._value(node, slot, "object", _static_shape(node, slot)))
            spec = NodeSpec(node.name, node.op, node.attrs, tuple(v.spec for v in inputs), tuple(v.spec for v in outputs), constants)
            self.result.instructions.append(Instruction(node, "runtime", list(inputs), outputs, spec, runtime.compute))
            self._served(node, "runtime")
            return
        in_specs = tuple(v.spec for v in inputs)
        out_specs = tuple(TensorSpec(d.base_dtype, _static_shape(node, i)) for i, d in enumerate(node.output_dtypes))
        spec = NodeSpec(node.name, node.op, node.attrs, in_specs, out_specs, constants)
        outputs = []
        for slot, dtype in enumerate(node.output_dtypes):
            if dtype.is_ref:
                self.by_output[node.name, slot] = inputs[0]
                outputs.append(inputs[0])
            else:
                outputs.append(self._value(node, slot, "buffer", out_specs[slot].shape))
        reference = find_reference(node.op)
        if reference is None and find_native(node.op) is None:
            raise errors.UnimplementedError(
                None,
                None,
                f"No kernel for op {node.op} used by {{{{node {node.name}}}}} with inputs "
                f"[{', '.join(f'{s.dtype.name}{list(s.shape)}' for s in in_specs)}]",
            )
        self.result.instructions.append(Instruction(node, "reference", list(inputs), outputs, spec, reference))
        self._served(node, "reference")

    def _keep_reads_before_writes(self) -> None:
        """Copy a variable's value at the read where the variable changes before the value's last use.

        TensorFlow leaves that order to the graph's edges; here a read never sees a write that the graph puts after it.
        """
        instructions = self.result.instructions
        writes: dict[int, list[int]] = {}
        for position, instruction in enumerate(instructions):
            for variable in _written(instruction):
                writes.setdefault(id(variable), []).append(position)
        if not writes:
            return
        last_use: dict[int, int] = {}
        for position, instruction in enumerate(instructions):
            for value in instruction.inputs:
                last_use[value.root.index] = position
        for value in self.result.fetches:
            last_use[value.root.index] = len(instructions)
        order = self.position
        copies: list[tuple[int, Value]] = []
        for value in self.result.values:
            if value.storage != "variable" or value.base is not None or value.variable is None or value.read_at_end:
                continue
            read = order[value.producer]
            for position in writes.get(id(value.variable), ()):
                after_read = order[instructions[position].node.name] > read
                if after_read and position < last_use.get(value.index, -1):
                    # the first instruction that the read precedes in the graph's order
                    at = next((i for i, ins in enumerate(instructions) if order[ins.node.name] > read), len(instructions))
                    copies.append((at, value))
                    break
        for at, value in sorted(copies, key=lambda c: -c[0]):
            node = self.graph.node(value.producer)
            source = Value(len(self.result.values), value.dtype, value.shape, "variable", variable=value.variable, producer=value.producer)
            self.result.values.append(source)
            value.storage = "buffer"
            value.variable = None
            spec = NodeSpec(node.name, "DeepCopy", node.attrs, (source.spec,), (value.spec,))
            instructions.insert(at, Instruction(node, "copy", [source], [value], spec, _copy_out))


def lower(
    graph: DataflowGraph,
    find_variable: Callable[[Node], Variable],
    feed_count: int,
    arguments: Mapping[int, Variable] | None = None,
) -> Lowered:
    """The instructions of a static partition.

    find_variable: the session's Variable of a VariableV2/VarHandleOp node. arguments: for a body, which must be called with just those
    variables as arguments. Raises NotStatic when the partition needs the dataflow
    executor, UnimplementedError naming the node when an op has no kernel.
    """
    return Lowering(graph, find_variable, feed_count, arguments).run()


ASSIGNMENTS: Final = frozenset({"Assign", "AssignVariableOp"})
ATOMIC: Final = frozenset({"AssignAdd", "AssignSub", "AssignAddVariableOp", "AssignSubVariableOp"})


def compilable(lowered: Lowered) -> list[Instruction]:
    """The instructions that compiled code may serve: all but runtime kernels, of which assignments to variables that have their
    buffer already, and keep it, count too."""
    destroys = any(instruction.node.op == "DestroyResourceOp" for instruction in lowered.instructions)
    return [i for i in lowered.instructions if i.serving != "runtime" or (_writes_in_place(i) and not destroys)]


def _writes_in_place(instruction: Instruction) -> bool:
    variable = instruction.inputs[0].variable if instruction.inputs else None
    return instruction.node.op in ASSIGNMENTS | ATOMIC and variable is not None and variable.value is not None


def native_call(spec: NodeSpec) -> tuple[NativeCall | None, str]:
    """(launches, "") or (None, reason) for one node."""
    builder = find_native(spec.op)
    if builder is None:
        return None, f"no native builder for {spec.op}"
    try:
        return builder(spec), ""
    except Unsupported as unsupported:
        return None, str(unsupported)


def _copy_out(spec: NodeSpec, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    return [np.array(inputs[0])]


def _static_shape(node: Node, slot: int) -> tuple[int, ...]:
    shape = node.output_shapes[slot]
    if shape is None or any(d is None for d in shape):
        raise NotStatic(f"the shape of {node.name}:{slot} ({node.op}) is not known before it runs")
    return tuple(int(d) for d in shape if d is not None)


def _variable_shape(node: Node, variable: Variable) -> tuple[int, ...]:
    if variable.value is not None:
        return variable.value.shape
    shape = variable.shape
    if shape is None or any(d is None for d in shape):
        raise NotStatic(f"the shape of variable {node.name} is not known before it is assigned")
    return tuple(int(d) for d in shape if d is not None)


_READS_ONLY: Final = frozenset({"IsVariableInitialized", "VarIsInitializedOp", "VariableShape", "CountUpTo"})


def _carries_variable(node: Node) -> bool:
    """Whether output 0 is a reference or a handle."""
    return bool(node.output_dtypes) and (node.output_dtypes[0].is_ref or node.output_dtypes[0].name == "resource")


def _variables(graph: DataflowGraph, order: Sequence[str]) -> dict[str, str]:
    """The variable that a node reads or changes, by node; an op with several slots counts for its first, the others are its own."""
    owner: dict[str, str] = {}  # nodes whose output 0 carries a variable
    found: dict[str, str] = {}
    for name in order:
        node = graph.node(name)
        if node.op in VARIABLE_OPS:
            owner[name] = name
            continue
        sources = graph.inputs(name)
        if not sources or sources[0][0] not in owner or sources[0][1] != 0 or node.op == "_Retval":
            continue
        variable = owner[sources[0][0]]
        if _carries_variable(node):
            owner[name] = variable
        if node.op in _READS_ONLY or (node.op in VIEW_OPS and _carries_variable(node)):
            continue
        found[name] = variable
    return found


def _mutators(graph: DataflowGraph, order: Sequence[str]) -> bool:
    return any(graph.node(name).op in VARIABLE_OPS for name in order)


def _written(instruction: Instruction) -> list[Variable]:
    if instruction.node.op in _READS_ONLY:
        return []
    return [v.variable for v in instruction.inputs if v.storage == "handle" and v.variable is not None]
