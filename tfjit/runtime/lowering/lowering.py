"""Lower a static partition to a list of instructions over values.

`lower` is pure: it runs no kernel, holds no thread and compiles nothing. Its result
(`lowered.py`) holds all that a step needs; `step.py` makes it runnable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework.cooperative_yield import yielding
from tfjit.framework.op_defs.op_traits import (
    ASSIGN,
    ASSIGN_ADD,
    CONTROL_FLOW,
    VARIABLE,
    WHILE,
)
from tfjit.kernels.ir.backend import Backend
from tfjit.kernels.registry import NativeCall, NodeSpec, TensorSpec, Unsupported
from tfjit.passes.analysis.resource_shapes import QUEUE_OPS, TABLE_OPS
from tfjit.passes.ir.offloaded_graph import returns_device_tensor
from tfjit.runtime.kernel_api.custom_kernels import custom_kernel
from tfjit.runtime.kernel_api.missing_kernels import missing_kernel
from tfjit.runtime.kernel_api.op_kernel import awaited, find_runtime_kernel
from tfjit.runtime.lowering.lowered import Instruction, Lowered, StorageKind, Value, copy_out
from tfjit.runtime.lowering.variable_hazards import sink_writes
from tfjit.runtime.lowering.variable_reads import (
    carries_variable,
    is_read,
    overwritten_reads,
    reads_that_share,
    variables_of,
)
from tfjit.runtime.resources.variables_and_resources import Variable

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
    from tfjit.runtime.lowering.structured_control_flow import Construct, Role

NOTHING_OPS: Final = frozenset({"NoOp", "ControlTrigger"})
SHARDS: Final = "_Parts"
"""Op type of an instruction that replaces a divided run of instructions."""


class NotStatic(Exception):
    """Signal that the partition needs the dataflow executor.

    The text gives the reason.
    """


class Lowering:
    """Lower one graph: a partition, or a body inside one.

    Callers use `lower`. The body is that of a loop or branch. arguments: variables among the
    arguments of a body that has a separate plan. outer: the lowering of the graph around a body.
    inputs: the values of the body's _Arg nodes. path: separates its nodes from those of other
    bodies. out: the list that receives its instructions. construct, level: the loop or branch
    around the instructions, and the number of loops around them.
    """

    def __init__(
        self,
        graph: DataflowGraph,
        find_variable: Callable[[Node], Variable],
        feed_count: int,
        arguments: Mapping[int, Variable] | None = None,
        outer: Lowering | None = None,
        inputs: Sequence[Value] = (),
        path: str = "",
        backend: Backend | None = None,
    ) -> None:
        self.graph = graph
        self.find_variable = find_variable
        self.arguments = arguments or {}
        made = Lowered([], [], [], {}, feed_count, graph=graph, is_body=arguments is not None)
        self.result: Lowered = outer.result if outer is not None else made
        if backend is not None:
            self.result.backend = backend
        self.by_output: dict[tuple[str, int], Value] = {}
        self.fetches: dict[int, Value] = {}
        self.outer, self.inputs, self.path = outer, inputs, path
        self.out = self.result.instructions
        self.construct: Construct | None = None
        self._blocks: bool | None = None
        # sequence of the present node
        self._sequence: list[int] = outer._sequence if outer is not None else [0]
        # ids of read nodes that share the variable's own memory
        self._shared: set[int] = outer._shared if outer is not None else set()

    @property
    def level(self) -> int:
        """Return the number of loops around the instructions."""
        return self.construct.level if self.construct is not None else 0

    def run(self) -> Lowered:
        """Lower the whole partition."""
        self.result.fetches = self.run_region()
        if any(value.storage == "handle" for value in self.result.values):
            self._keep_reads_before_writes()
        return self.result

    def run_region(self) -> list[Value]:
        """Lower the graph's nodes into `out`; return the _Retval values."""
        graph = self.graph
        order = [name for name in graph.topological_order() if name not in ("_SOURCE", "_SINK")]
        if graph.has_trait(VARIABLE):
            order = sink_writes(
                graph,
                order,
                self._is_read,
                lambda name: graph.node(name).is_view,
                variables_of(graph, order),
            )
            self._shared.update(id(graph.node(name)) for name in reads_that_share(graph, order))
        for name in yielding(order):
            node = graph.node(name)
            inputs = [self.by_output[source] for source in graph.inputs(name)]
            self._sequence[0] += 1
            self._node(node, inputs)
        return [self.fetches[i] for i in sorted(self.fetches)]

    @contextmanager
    def inside(self, construct: Construct, out: list[Instruction]) -> Iterator[None]:
        """Emit into `out`, the instructions of a loop or branch."""
        kept = self.construct, self.out
        self.construct, self.out = construct, out
        try:
            yield
        finally:
            self.construct, self.out = kept

    def _value(
        self, node: Node, output: int, storage: StorageKind, shape: tuple[int, ...], **kw: Any
    ) -> Value:
        value = self.new_value(
            node, output, node.output_dtypes[output].base_dtype, shape, storage=storage, **kw
        )
        self.by_output[node.name, output] = value
        return value

    def new_value(
        self,
        node: Node,
        output: int,
        dtype: DType,
        shape: tuple[int, ...],
        level: int | None = None,
        storage: StorageKind = "buffer",
        **kw: Any,
    ) -> Value:
        """Return a new value that is no output of a node yet."""
        level = self.level if level is None else level
        value = Value(
            len(self.result.values),
            dtype,
            shape,
            storage,
            producer=node.name,
            level=level,
            sequence=self._sequence[0],
            **kw,
        )
        self.result.values.append(value)
        return value

    def viewed_as(self, value: Value, like: Value) -> Value:
        """Return a view of `value` with the shape of another."""
        made = Value(
            len(self.result.values),
            like.dtype,
            like.shape,
            value.storage,
            base=value,
            producer=value.producer,
            level=value.level,
        )
        self.result.values.append(made)
        return made

    def _emit(self, instruction: Instruction, level: int | None = None) -> None:
        """Append an instruction.

        An instruction of a lower level goes in front of the loops that do not change its result.
        """
        construct, out, left = self.construct, self.out, self.construct
        while (
            level is not None
            and construct is not None
            and construct.is_loop
            and construct.level > level
        ):
            left, out = construct, construct.prelude
            construct = construct.parent
        instruction.construct = construct
        instruction.graph, instruction.path, instruction.sequence = (
            self.graph,
            self.path,
            self._sequence[0],
        )
        if out is not self.out and left is not None:
            instruction.sequence = left.sequence
        out.append(instruction)

    def marker(self, construct: Construct, role: Role, inputs: list[Value]) -> Instruction:
        """Return a marker that starts, decides or ends a construct."""
        node = construct.node
        spec = NodeSpec(node.name, node.op, {}, tuple(v.spec for v in inputs), ())
        self._sequence[0] += 1
        return Instruction(
            node,
            "control",
            inputs,
            [],
            spec,
            construct=construct,
            role=role,
            graph=self.graph,
            path=self.path,
            sequence=self._sequence[0],
        )

    def copy(self, source: Value, target: Value) -> None:
        """Emit a copy into a loop-carried value or a branch output."""
        node = (
            self.construct.node if self.construct is not None else self.graph.node(target.producer)
        )
        spec = NodeSpec(node.name, "DeepCopy", {}, (source.spec,), (target.spec,))
        self._sequence[0] += 1
        self._emit(Instruction(node, "copy", [source], [target], spec, copy_out, moves=True))

    def _note_kind(self, node: Node, how: str, why: str = "") -> None:
        if self.outer is None:
            self.result.kernel_kinds[node.name] = (how, why)

    def _node(self, node: Node, inputs: list[Value]) -> None:
        op = node.op
        if node.has_trait(CONTROL_FLOW):
            raise NotStatic(f"{node.name} ({op}) is control flow")
        if op in NOTHING_OPS:
            self._note_kind(node, "nothing")
        elif op == "_Arg" and self.outer is not None:
            self.by_output[node.name, 0] = self.inputs[node.attrs["index"]]
        elif op == "_Arg":
            index = node.attrs["index"]
            if index in self.arguments:
                variable = self.arguments[index]
                handle = self._value(
                    node, 0, "handle", _variable_shape(node, variable), variable=variable
                )
                handle.dtype = variable.dtype
                self._note_kind(node, "variable")
                return
            shape = static_shape(node, 0) if node.output_dtypes[0].is_numpy_compatible else ()
            self.result.feeds[index] = self._value(node, 0, "feed", shape, feed=index)
            self._note_kind(node, "feed")
        elif op == "_Retval":
            value = inputs[0]
            if (
                value.dtype.name == "variant"
                and self.outer is None
                and not self.result.is_body
                and not returns_device_tensor(self.graph, node)
            ):
                raise NotStatic(f"{node.name} fetches a variant")
            if value.storage == "handle" and self.outer is None and not self.result.is_body:
                value = self._fetched_reference(node, value)
            value.fetched = value.fetched or self.outer is None
            self.fetches[node.attrs["index"]] = value
            self._note_kind(node, "fetch")
        elif op == "Const":
            if not node.output_dtypes[0].is_numpy_compatible:
                raise NotStatic(f"{node.name} is a constant of type {node.output_dtypes[0].name}")
            array = np.asarray(node.attrs["value"])
            if not array.flags.c_contiguous:
                array = np.ascontiguousarray(array).reshape(array.shape)
            self._value(node, 0, "const", array.shape, array=array, level=0)
            self._note_kind(node, "constant")
        elif node.has_trait(VARIABLE):
            variable = self.find_variable(node)
            handle = self._value(
                node, 0, "handle", _variable_shape(node, variable), variable=variable, level=0
            )
            handle.dtype = variable.dtype  # kernels see the variable's own buffer
            self._note_kind(node, "variable")
        elif op == "ReadVariableOp" or (node.is_view and inputs[0].storage == "handle"):
            self._read(node, inputs[0])
        # A Reshape to a shape computed at run time is not a view: its kernel checks the shape.
        elif node.is_view and (op != "Reshape" or inputs[1].root.storage == "const"):
            self._view(node, inputs[0])
        elif node.name in self.graph.graph.get("bodies", ()):
            self._structured(node, inputs)
        else:
            self._kernel(node, inputs)

    def _structured(self, node: Node, inputs: list[Value]) -> None:
        """Lower a loop or branch whose bodies are in the graph.

        If that fails, the loop or branch becomes an ordinary node with a runtime kernel.
        """
        from tfjit.runtime.lowering.structured_control_flow import lower_branch, lower_loop

        bodies = self.graph.graph["bodies"][node.name]
        made, emitted, out = len(self.result.values), len(self.out), self.out
        try:
            if node.has_trait(WHILE):
                outputs = lower_loop(self, node, inputs, *bodies)
            else:
                outputs = lower_branch(self, node, inputs, bodies)
        except NotStatic as why:
            self.out = out
            del self.result.values[made:], self.out[emitted:]
            try:
                self._kernel(node, inputs)
            except NotStatic as other:
                raise NotStatic(f"{why}; {other}") from None
            self._note_kind(
                node, self.result.kernel_kinds.get(node.name, ("runtime", ""))[0], str(why)
            )
            return
        for output, value in enumerate(outputs):
            self.by_output[node.name, output] = value
        self._note_kind(node, "loop" if node.has_trait(WHILE) else "branch")

    def _is_read(self, name: str) -> bool:
        return is_read(self.graph.node(name))

    def _read(self, node: Node, handle: Value) -> None:
        if node.op != "ReadVariableOp" and carries_variable(node):
            # The output is the reference or handle itself.
            self.by_output[node.name, 0] = handle
            self._note_kind(node, "variable")
            return
        assert handle.variable is not None
        shape = static_shape(node, 0)
        construct, level = self.construct, self.level
        while construct is not None and construct.is_loop and not construct.changes_variables:
            level, construct = construct.level - 1, construct.parent
        value = self._value(node, 0, "variable", shape, variable=handle.variable, level=level)
        self.result.reads[value.index] = (node, self.construct)
        self._note_kind(node, "variable read")

    def _fetched_reference(self, node: Node, handle: Value) -> Value:
        """Return a fetched reference variable's value at the end of the step.

        No edge orders such a fetch against updates.
        """
        source, output = self.graph.inputs(node.name)[0]
        if not self.graph.node(source).output_dtypes[output].is_ref:
            raise NotStatic(f"{node.name} fetches a handle")
        value = Value(
            len(self.result.values),
            handle.dtype,
            handle.shape,
            "variable",
            variable=handle.variable,
            producer=source,
            read_at_end=True,
        )
        self.result.values.append(value)
        return value

    def _view(self, node: Node, source: Value) -> None:
        if not source.dtype.is_numpy_compatible or (
            source.storage == "object"
            and source.dtype.as_numpy_dtype == np.object_
            and node.op == "Identity"
        ):
            self.by_output[node.name, 0] = source
        else:
            self._value(
                node, 0, source.storage, static_shape(node, 0), base=source, level=source.level
            )
        self._note_kind(node, "view")

    def _kernel(self, node: Node, inputs: list[Value]) -> None:
        runtime = custom_kernel(node) or find_runtime_kernel(node)
        if runtime is None and node.has_variant:
            raise NotStatic(f"{node.name} ({node.op}) moves variants about")
        constants = {
            i: v.root.array.reshape(v.shape)
            for i, v in enumerate(inputs)
            if v.root.storage == "const" and v.root.array is not None
        }
        if runtime is not None:
            if runtime.blocking and not self._blocks_in_order():
                raise NotStatic(f"{node.name} ({node.op}) may wait")
            compute = awaited(runtime.compute) if runtime.blocking else runtime.compute
            if node.op in ("Assign", "AssignVariableOp") and inputs[0].shape != inputs[1].shape:
                raise NotStatic(f"{node.name} ({node.op}) may change the shape of its variable")
            outputs = []
            for output, dtype in enumerate(node.output_dtypes):
                # The output is the table itself, for Python kernels only.
                if node.op.removesuffix("V2") in TABLE_OPS or (
                    node.op.removesuffix("V2") in QUEUE_OPS and self._blocks_in_order()
                ):
                    outputs.append(self._value(node, output, "object", ()))
                elif dtype.name.startswith("resource") or (dtype.is_ref and not inputs):
                    raise NotStatic(f"{node.name} ({node.op}) makes a resource")
                elif dtype.is_ref:  # the reference itself (Assign)
                    self.by_output[node.name, output] = inputs[0]
                    outputs.append(inputs[0])
                elif dtype.name == "variant":
                    if node.output_shapes[output]:
                        raise NotStatic(f"{node.name} ({node.op}) makes an array of variants")
                    outputs.append(self._value(node, output, "object", ()))
                else:
                    outputs.append(self._value(node, output, "object", static_shape(node, output)))
            spec = NodeSpec(
                node.name,
                node.op,
                node.attrs,
                tuple(v.spec for v in inputs),
                tuple(v.spec for v in outputs),
                constants,
            )
            self._emit(Instruction(node, "runtime", list(inputs), outputs, spec, compute))
            self._note_kind(node, "runtime")
            return
        in_specs = tuple(v.spec for v in inputs)
        out_specs = tuple(
            TensorSpec(d.base_dtype, static_shape(node, i))
            for i, d in enumerate(node.output_dtypes)
        )
        spec = NodeSpec(node.name, node.op, node.attrs, in_specs, out_specs, constants)
        level = self._level(node, inputs)
        outputs = []
        for output, dtype in enumerate(node.output_dtypes):
            if dtype.is_ref:
                self.by_output[node.name, output] = inputs[0]
                outputs.append(inputs[0])
            else:
                outputs.append(
                    self._value(node, output, "buffer", out_specs[output].shape, level=level)
                )
        backend = self.result.backend
        reference = backend.kernel(node.op)
        if reference is None and not backend.compiles(node.op):
            raise missing_kernel(node)
        self._emit(Instruction(node, "reference", list(inputs), outputs, spec, reference), level)
        self._note_kind(node, "reference")

    def _blocks_in_order(self) -> bool:
        """Return whether blocking nodes may be instructions. Bodies have none."""
        if self._blocks is None:
            # few partitions block
            from tfjit.runtime.lowering.blocking_order import blocks_in_order

            outermost = self.outer is None and not self.result.is_body
            self._blocks = outermost and blocks_in_order(self.graph)
        return self._blocks

    def _level(self, node: Node, inputs: Sequence[Value]) -> int:
        """Return the number of loops that may change a node's result.

        A node that cannot leave a loop has the level of that loop.
        """
        if self.construct is None or not self.construct.is_loop:
            return self.level
        from tfjit.runtime.lowering.structured_control_flow import can_leave_loop

        if not can_leave_loop(node, inputs):
            return self.level
        level = max((value.level for value in inputs), default=0)
        construct: Construct | None = self.construct
        while construct is not None and construct.is_loop and construct.level > level:
            construct = construct.parent
        return min(self.level, construct.level if construct is not None else 0)

    def _keep_reads_before_writes(self) -> None:
        """Copy variable values that are overwritten before their last use.

        The copy is made at the read. TensorFlow leaves that order to the graph's edges. Here a use
        never sees a write that the graph does not order before the use.
        """
        instructions = self.result.instructions
        copies: list[tuple[int, Value]] = []
        for value in overwritten_reads(self.result):
            if id(self.result.reads[value.index][0]) in self._shared:
                continue
            # position of the first instruction after the read in the graph's order
            position = next(
                (i for i, ins in enumerate(instructions) if ins.sequence > value.sequence),
                len(instructions),
            )
            copies.append((position, value))
        for position, value in sorted(copies, key=lambda c: -c[0]):
            node, where = self.result.reads[value.index]
            source = Value(
                len(self.result.values),
                value.dtype,
                value.shape,
                "variable",
                variable=value.variable,
                producer=value.producer,
                level=value.level,
                sequence=value.sequence,
            )
            self.result.values.append(source)
            value.storage = "buffer"
            value.variable = None
            spec = NodeSpec(node.name, "DeepCopy", node.attrs, (source.spec,), (value.spec,))
            instructions.insert(
                position,
                Instruction(node, "copy", [source], [value], spec, copy_out, construct=where),
            )


def lower(
    graph: DataflowGraph,
    find_variable: Callable[[Node], Variable],
    feed_count: int,
    arguments: Mapping[int, Variable] | None = None,
    backend: Backend | None = None,
) -> Lowered:
    """Return the instructions of a static partition.

    find_variable: returns the session's Variable of a VariableV2/VarHandleOp node. arguments: for a
    body, the variables that all its callers must pass. backend: of the partition's device; None
    selects the host's. Raises NotStatic when the partition needs the dataflow executor,
    UnimplementedError naming the node when an op has no kernel.
    """
    return Lowering(graph, find_variable, feed_count, arguments, backend=backend).run()


def compilable(lowered: Lowered) -> list[Instruction]:
    """Return the instructions that compiled code may serve.

    These are all but runtime kernels. An assignment to a variable that has a buffer and keeps the
    buffer counts too.
    """
    destroys = any(
        instruction.node.op == "DestroyResourceOp" for instruction in lowered.instructions
    )
    return [
        i
        for i in lowered.instructions
        if i.role is None and (i.serving != "runtime" or (_writes_in_place(i) and not destroys))
    ]


def _writes_in_place(instruction: Instruction) -> bool:
    variable = instruction.inputs[0].variable if instruction.inputs else None
    return (
        instruction.node.has_trait(ASSIGN | ASSIGN_ADD)
        and variable is not None
        and variable.value_shape is not None
    )


def native_call(backend: Backend, spec: NodeSpec) -> tuple[NativeCall | None, str]:
    """Return (launches, "") or (None, reason) for one node."""
    try:
        return backend.native_call(spec), ""
    except Unsupported as unsupported:
        return None, str(unsupported)


def static_shape(node: Node, output: int) -> tuple[int, ...]:
    shape = node.output_shapes[output]
    if shape is None or any(d is None for d in shape):
        raise NotStatic(
            f"the shape of {node.name}:{output} ({node.op}) is not known before it runs"
        )
    return tuple(int(d) for d in shape if d is not None)


def _variable_shape(node: Node, variable: Variable) -> tuple[int, ...]:
    known = variable.value_shape
    if known is not None:
        return known
    shape = variable.shape
    if shape is None or any(d is None for d in shape):
        raise NotStatic(f"the shape of variable {node.name} is not known before it is assigned")
    return tuple(int(d) for d in shape if d is not None)
