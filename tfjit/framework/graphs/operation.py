"""Operation and Tensor: nodes and edges of a Graph, for users."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from traceback import FrameSummary
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from tfjit.framework.errors import InvalidGraphError
from tfjit.framework.op_defs import attrs as attr_values
from tfjit.framework.types import shape as shapes
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import Shape, TensorShape

if TYPE_CHECKING:
    from tfjit.framework.graphs.function_graph import FunctionGraph
    from tfjit.framework.graphs.graph import Graph
    from tfjit.framework.op_defs.op_def import OpDef

_PACKAGE: Final = (
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
)

# Set by the client: returns this thread's default session, or None.
_default_session: Callable[[], Any] = lambda: None  # noqa: E731


def set_default_session_getter(getter: Callable[[], Any]) -> None:
    """Set the function that `Operation.run` and `Tensor.eval` find sessions by.

    The session must have `graph` and `run(fetches, feed_dict)`.
    """
    global _default_session
    _default_session = getter


def user_frame() -> tuple[CodeType, int] | None:
    """Return code and line of the nearest caller outside this package.

    Cheap enough to take for every operation.
    """
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE):
            return code, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return None


class OperatorNotAllowedInGraphError(TypeError):
    """A Python operation needs a tensor's value while the graph is built.

    Examples are bool and iteration.
    """


class Tensor:
    """One output of an Operation."""

    # assign: only a slice of a variable has it
    __slots__ = (
        "__weakref__",
        "_consumers",
        "_dtype",
        "_handle_data",
        "_id",
        "_shape",
        "_value_index",
        "assign",
        "op",
    )

    assign: Callable[..., Any]

    # NumPy leaves `array + tensor` to the tensor.
    __array_priority__ = 100

    OVERLOADABLE_OPERATORS: Final = frozenset(
        [
            "__add__",
            "__radd__",
            "__sub__",
            "__rsub__",
            "__mul__",
            "__rmul__",
            "__div__",
            "__rdiv__",
            "__truediv__",
            "__rtruediv__",
            "__floordiv__",
            "__rfloordiv__",
            "__mod__",
            "__rmod__",
            "__lt__",
            "__le__",
            "__gt__",
            "__ge__",
            "__ne__",
            "__eq__",
            "__and__",
            "__rand__",
            "__or__",
            "__ror__",
            "__xor__",
            "__rxor__",
            "__getitem__",
            "__pow__",
            "__rpow__",
            "__invert__",
            "__neg__",
            "__abs__",
            "__matmul__",
            "__rmatmul__",
        ]
    )

    if TYPE_CHECKING:  # tfjit.ops puts them in

        def __neg__(self) -> Tensor: ...
        def __getitem__(self, item: Any) -> Tensor: ...
        def __add__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __floordiv__(self, other: object) -> Tensor: ...
        def __rfloordiv__(self, other: object) -> Tensor: ...
        def __mod__(self, other: object) -> Tensor: ...
        def __rmod__(self, other: object) -> Tensor: ...
        def __lt__(self, other: object) -> Tensor: ...
        def __gt__(self, other: object) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...

    def __init__(self, op: Operation, value_index: int, dtype: DType, shape: Shape) -> None:
        self.op = op
        self._value_index = value_index
        self._dtype = dtype
        self._shape = shape
        self._consumers: list[Operation] = []
        # (shape, dtype) pairs of the values that a resource or variant refers to
        self._handle_data: Any = None

    @staticmethod
    def _override_operator(operator: str, func: Callable[..., Any]) -> None:
        """Attach an arithmetic operator; done by tfjit.ops as it is imported."""
        if operator not in Tensor.OVERLOADABLE_OPERATORS:
            raise ValueError(f"Overriding {operator} is disallowed.")
        setattr(Tensor, operator, func)

    @property
    def graph(self) -> Graph:
        """The graph that holds this tensor."""
        return self.op.graph

    @property
    def value_index(self) -> int:
        """The index among the operation's outputs."""
        return self._value_index

    @property
    def name(self) -> str:
        """ "op:index"."""
        return f"{self.op.name}:{self._value_index}"

    @property
    def dtype(self) -> DType:
        """Element type; a reference type for the output of a TF1 variable."""
        return self._dtype

    @property
    def device(self) -> str:
        """Device asked for its operation."""
        return self.op.device

    @property
    def shape(self) -> TensorShape:
        """The static shape."""
        return TensorShape._of(self._shape)

    def get_shape(self) -> TensorShape:
        """Return the static shape."""
        return TensorShape._of(self._shape)

    def set_shape(self, shape: Any) -> None:
        """Merge `shape` into the static shape.

        Raises ValueError when it contradicts the known shape.
        """
        self._shape = shapes.merge(self._shape, shapes.as_shape(shape))

    @property
    def shape_tuple(self) -> Shape:
        """The static shape as a tuple of int or None, or None."""
        return self._shape

    @property
    def ndim(self) -> int:
        """Rank. Raises ValueError when it is unknown."""
        if self._shape is None:
            raise ValueError("ndim of a tensor of unknown rank is not known")
        return len(self._shape)

    def consumers(self) -> list[Operation]:
        """Return the operations that take this tensor.

        An operation that takes it twice stands twice.
        """
        return list(self._consumers)

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Return the value, from `session` or this thread's default session.

        Raises ValueError without one.
        """
        return _session_for(self.graph, session, "evaluate tensor", "eval").run(self, feed_dict)

    def ref(self) -> TensorReference:
        """Return a hashable stand-in, for dictionaries and sets."""
        return TensorReference(self)

    experimental_ref = ref

    def _as_tf_output(self) -> tuple[Operation, int]:
        return self.op, self._value_index

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __copy__(self) -> Tensor:
        return self

    def __deepcopy__(self, memo: Any) -> Tensor:
        raise TypeError(
            f"Tensor {self.name} belongs to its graph and can't be copied; use tfjit.identity"
        )

    def __bool__(self) -> bool:
        raise OperatorNotAllowedInGraphError(
            f"Using a symbolic `tf.Tensor` as a Python `bool` is not allowed. {self.name} has no "
            "value while the graph is built, and "
            "there is no AutoGraph: use cond, while_loop or where for a choice inside the graph, "
            "or `is not None` to test for a tensor."
        )

    def __iter__(self) -> Iterator[Any]:
        raise OperatorNotAllowedInGraphError(
            f"Iterating over a symbolic `tf.Tensor` is not allowed. {self.name} has no value while "
            "the graph is built, and there is no "
            "AutoGraph: use unstack, map_fn or while_loop."
        )

    def __len__(self) -> int:
        raise TypeError(
            f"len is not well defined for a symbolic Tensor ({self.name}). "
            "Please call `x.shape` rather than `len(x)` for shape information."
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise NotImplementedError(
            f"Cannot convert a symbolic tf.Tensor ({self.name}) to a numpy array. This error may "
            "indicate that you're trying to pass "
            "a Tensor to a NumPy call, which is not supported."
        )

    def __repr__(self) -> str:
        return f"<tf.Tensor '{self.name}' shape={self.shape} dtype={self._dtype.name}>"

    def __str__(self) -> str:
        shape = "" if self._shape is None else f", shape={self.shape}"
        device = f", device={self.device}" if self.device else ""
        return f'Tensor("{self.name}"{shape}, dtype={self._dtype.name}{device})'


class TensorReference:
    """A tensor by identity."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def deref(self) -> Tensor:
        """Return the tensor."""
        return self._tensor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorReference) and self._tensor is other._tensor

    def __hash__(self) -> int:
        return id(self._tensor)

    def __repr__(self) -> str:
        return f"<Reference wrapping {self._tensor!r}>"


class Operation:
    """A node of a Graph. Made by `Graph.create_op`, never directly."""

    __slots__ = (
        "__weakref__",
        "_attrs",
        "_bodies",
        "_control_flow_context",
        "_control_inputs",
        "_control_outputs",
        "_device",
        "_extra",
        "_frame",
        "_id",
        "_inputs",
        "_name",
        "_original_op",
        "_raw_attrs",
        "_type",
        "graph",
        "op_def",
        "outputs",
    )

    def __init__(
        self,
        graph: Graph,
        op_def: OpDef,
        name: str,
        inputs: tuple[Tensor, ...],
        control_inputs: tuple[Operation, ...],
        attrs: dict[str, Any],
        frame: tuple[CodeType, int] | None,
    ) -> None:
        self.graph = graph
        self.op_def = op_def
        self._type = op_def.name
        self._name = name
        self._id = 0
        self._inputs = inputs
        self._control_inputs = control_inputs
        self._control_outputs: list[Operation] = []
        self._attrs = attrs
        self._raw_attrs: dict[str, bytes] | None = None
        # NodeDef fields that are carried, not interpreted: experimental_type,
        # experimental_debug_info
        self._extra = b""
        self._device = ""
        self._frame = frame
        self._control_flow_context: Any = None
        self._original_op: Operation | None = None
        # bodies of the functions in the attrs, in the graph that built or read them
        self._bodies: tuple[FunctionGraph, ...] = ()
        self.outputs: list[Tensor] = []

    @property
    def name(self) -> str:
        """Full name in the graph."""
        return self._name

    @property
    def type(self) -> str:
        """Op type, such as "MatMul"."""
        return self._type

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Data inputs in order."""
        return self._inputs

    @property
    def control_inputs(self) -> list[Operation]:
        """Operations that must have run before."""
        return list(self._control_inputs)

    @property
    def _control_outputs_list(self) -> list[Operation]:
        return list(self._control_outputs)

    @property
    def device(self) -> str:
        """Device asked for; "" leaves it to placement."""
        return self._device

    def _set_device(self, device: Any) -> None:
        from tfjit.framework.types.device_spec import canonical_name

        self._device = canonical_name(device)

    @property
    def attrs(self) -> Mapping[str, Any]:
        """All attrs in Python form (see framework.attrs); not writable."""
        return self._attrs

    def attr(self, name: str) -> Any:
        """Return one attr in its Python form.

        Raises ValueError when the node has none of that name.
        """
        try:
            return self._attrs[name]
        except KeyError:
            raise ValueError(f"Operation '{self._name}' has no attr named '{name}'.") from None

    def get_attr(self, name: str) -> Any:
        """Return one attr as TensorFlow's Operation gives it.

        Lists come as list; shapes, tensors and functions as messages. Raises ValueError when the
        node has none of that name.
        """
        value = self.attr(name)
        if isinstance(value, tuple):
            return [_public(item) for item in value]
        return _public(value)

    def _set_attr(self, name: str, value: Any) -> None:
        """Set an attr from a Python form, or an AttrValue message."""
        definition = self.op_def.attr_by_name.get(name)
        descriptor = getattr(value, "DESCRIPTOR", None)
        if descriptor is not None and descriptor.full_name.endswith("AttrValue"):
            value = attr_values.from_proto(value)
        elif definition is not None:
            value = attr_values.convert(value, definition.type, name, self._type)
        else:
            value = attr_values.guess(value)
        self._attrs[name] = value
        if self._raw_attrs is not None:
            self._raw_attrs.pop(name, None)

    def _clear_attr(self, name: str) -> None:
        self._attrs.pop(name, None)
        if self._raw_attrs is not None:
            self._raw_attrs.pop(name, None)

    def colocation_groups(self) -> list[bytes]:
        """Return names b"loc:@x" of the operations that share a device.

        An operation without any has its own name.
        """
        groups = [g for g in self._attrs.get("_class", ()) if g.startswith(b"loc:@")]
        return groups or [b"loc:@" + self._name.encode()]

    def values(self) -> tuple[Tensor, ...]:
        """Return the outputs."""
        return tuple(self.outputs)

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """Run in `session` or this thread's default session. Raises ValueError without one."""
        _session_for(self.graph, session, "execute operation", "run").run(self, feed_dict)

    @property
    def node_def(self) -> Any:
        """The NodeDef of this operation, made now."""
        from tfjit.protos import node_def_pb2

        node = node_def_pb2.NodeDef()
        self.fill_node_def(node)
        return node

    def fill_node_def(self, node: Any) -> None:
        """Write this operation into an empty NodeDef.

        Control inputs come last, by name, as TensorFlow writes them.
        """
        node.name = self._name
        node.op = self._type
        if self._inputs:
            node.input.extend(
                [
                    t.op._name if not t._value_index else f"{t.op._name}:{t._value_index}"
                    for t in self._inputs
                ]
            )
        if self._control_inputs:
            node.input.extend(
                ["^" + name for name in sorted({op._name for op in self._control_inputs})]
            )
        if self._device:
            node.device = self._device
        if self._extra:
            node.MergeFromString(self._extra)
        raw = self._raw_attrs
        messages = node.attr
        for name, value in self._attrs.items():
            if raw is not None and name in raw:
                messages[name].MergeFromString(raw[name])
            else:
                attr_values.fill_proto(messages[name], value)

    @property
    def built_at(self) -> str:
        """Return the line of the user's code that made the operation.

        The form is "train.py:41 in mlp"; "" for an unknown place.
        """
        if self._frame is None:
            return ""
        code, line = self._frame
        path = code.co_filename
        relative = os.path.relpath(path) if os.path.isabs(path) else path
        shown = path if relative.startswith("..") else relative
        return f"{shown}:{line} in {code.co_name}"

    @property
    def traceback(self) -> list[FrameSummary]:
        """The place in the user's code that made this operation, if known.

        A list of one entry, or of none.
        """
        if self._frame is None:
            return []
        code, line = self._frame
        return [FrameSummary(code.co_filename, line, code.co_name)]

    def _add_control_input(self, op: Operation) -> None:
        self._add_control_inputs([op])

    def _add_control_inputs(self, ops: list[Operation]) -> None:
        new = [op for op in dict.fromkeys(ops) if op not in self._control_inputs]
        for op in new:
            if op.graph is not self.graph:
                raise ValueError(
                    f"Control input '{op.name}' is of another graph than '{self._name}'"
                )
            op._control_outputs.append(self)
        self._control_inputs = (*self._control_inputs, *new)

    def _remove_all_control_inputs(self) -> None:
        for op in self._control_inputs:
            op._control_outputs.remove(self)
        self._control_inputs = ()

    def _update_input(self, index: int, tensor: Tensor) -> None:
        """Replace data input `index`; control flow closes its loops so.

        Raises InvalidGraphError for another dtype.
        """
        old = self._inputs[index]
        if tensor.graph is not self.graph:
            raise ValueError(f"{tensor} must be from the same graph as {old}.")
        if tensor._dtype.base_dtype is not old._dtype.base_dtype:
            raise InvalidGraphError(
                None,
                self,
                f"Input {index} of node {self._name} was passed {tensor.dtype.name} incompatible "
                f"with expected {old.dtype.name}.",
            )
        old._consumers.remove(self)
        tensor._consumers.append(self)
        self._inputs = (*self._inputs[:index], tensor, *self._inputs[index + 1 :])

    def _get_control_flow_context(self) -> Any:
        return self._control_flow_context

    def _set_control_flow_context(self, context: Any) -> None:
        self._control_flow_context = context

    def __repr__(self) -> str:
        return f"<tf.Operation '{self._name}' type={self._type}>"

    def __str__(self) -> str:
        return str(self.node_def)

    def __deepcopy__(self, memo: Any) -> Operation:
        raise TypeError(f"Operation {self._name} belongs to its graph and can't be copied")


def _public(value: Any) -> Any:
    if isinstance(value, (DType, bytes, int, float)):
        return value
    message = attr_values.to_proto(value)
    kind = message.WhichOneof("value")
    return value if kind is None or kind == "placeholder" else getattr(message, kind)


def _session_for(graph: Graph, session: Any, what: str, method: str) -> Any:
    noun = what.split()[-1]
    if session is None:
        session = _default_session()
        if session is None:
            raise ValueError(
                f"Cannot {what} using `{method}()`: No default session is registered. "
                f"Use `with sess.as_default(){':' if method == 'run' else ''}` or pass an explicit "
                f"session to `{method}(session=sess)`"
            )
        if session.graph is not graph:
            raise ValueError(
                f"Cannot use the default session to {what}: the {noun}'s graph is different from "
                "the session's graph. "
                "Pass an explicit session to "
                f"{'`eval(session=sess)`' if method == 'eval' else f'{method}(session=sess)'}."
            )
    elif session.graph is not graph:
        raise ValueError(
            f"Cannot use the given session to {what}: the {noun}'s graph is different from the "
            "session's graph."
        )
    return session
