"""Register op types with their contracts and shape functions."""

from __future__ import annotations

import importlib
import platform
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tfjit.framework.errors import (
    InternalError,
    InvalidArgumentError,
    InvalidGraphError,
    NotFoundError,
    OpError,
)
from tfjit.framework.op_defs.op_def import OpDef, define_op
from tfjit.framework.op_defs.shape_context import ShapeContext, keeps_equal_shapes
from tfjit.framework.types.shape import Shape

ShapeFn = Callable[[ShapeContext], Sequence[Shape]]


@dataclass(frozen=True, slots=True)
class OpFamily:
    """A module of `tfjit.ops`.

    subject: its docstring's first line. instead: advice for an op of the family without kernel, or
    "".
    """

    name: str
    subject: str
    instead: str


class OpRegistry:
    """Op type -> OpDef and shape function."""

    def __init__(self) -> None:
        self._ops: dict[str, OpDef] = {}
        self._shape_fns: dict[str, ShapeFn] = {}
        self._planned_shape_fns: dict[str, ShapeFn] = {}
        self._families: dict[str, str] = {}
        self._equal_shapes: set[str] = set()
        # op families not imported yet; None before the list was read
        self._unread: tuple[str, ...] | None = None
        self._load_lock = threading.RLock()

    def register(
        self,
        op_def: OpDef,
        shape: ShapeFn | None = None,
        family: str = "",
        planned_shape: ShapeFn | None = None,
    ) -> None:
        """Add an op.

        Raises ValueError when its type is registered with another definition.

        family: the module of `tfjit.ops` that declares it, "" for an op of the user's.
        planned_shape: the shape function of plans, for an op whose shapes TensorFlow's graphs leave
        unknown. It raises no error: a shape that it does not find is the kernel's to refuse.
        """
        known = self._ops.get(op_def.name)
        if known is not None and known != op_def:
            raise ValueError(f"Op type {op_def.name} is registered with another definition")
        self._ops[op_def.name] = op_def
        if family:
            self._families[op_def.name] = family
        if shape is not None:
            self._shape_fns[op_def.name] = shape
            if keeps_equal_shapes(shape):
                self._equal_shapes.add(op_def.name)
        if planned_shape is not None:
            self._planned_shape_fns[op_def.name] = planned_shape

    def unregister(self, op_type: str) -> None:
        """Forget an op type, if it is registered.

        Graphs that use it keep their nodes.
        """
        self._ops.pop(op_type, None)
        self._shape_fns.pop(op_type, None)
        self._planned_shape_fns.pop(op_type, None)
        self._families.pop(op_type, None)
        self._equal_shapes.discard(op_type)

    def lookup(self, op_type: str) -> OpDef | None:
        """Return the op's definition, or None."""
        found = self._ops.get(op_type)
        if found is None and self._unread != ():
            self._load(op_type)
            found = self._ops.get(op_type)
        return found

    def _load(self, op_type: str = "") -> None:
        """Import op families until one defines `op_type`, or all.

        A thousand definitions cost more than a small graph.
        """
        with self._load_lock:
            if self._unread is None:
                self._unread = importlib.import_module("tfjit.ops.core.families").FAMILIES
            while self._unread and op_type not in self._ops:
                family = self._unread[0]
                importlib.import_module(f"tfjit.ops.{family}")
                # by name: importing a family may look an op up, and so come here again
                self._unread = tuple(name for name in self._unread if name != family)

    def require(self, op_type: str, node_name: str = "") -> OpDef:
        """Return the op's definition. Raises NotFoundError for unknown types."""
        found = self.lookup(op_type)
        if found is None:
            where = f", needed by node '{node_name}'" if node_name else ""
            raise NotFoundError(
                None,
                None,
                f"Op type not registered '{op_type}' in binary running on {platform.node()}. "
                f"tfjit knows {len(self._ops)} op types and '{op_type}' is none of them{where}.",
            )
        return found

    def has_trait(self, op_type: str, traits: int) -> bool:
        """Tell whether an op type has one of these traits.

        A type without definition has none.
        """
        found = self._ops.get(op_type)
        # The name of a fused group or loop has an underscore and no definition. The ops whose names
        # have one are made by passes, which import their families.
        if found is None and not op_type.startswith("_"):
            found = self.lookup(op_type)
        return found is not None and found.traits & traits != 0

    def loaded_traits(self, op_type: str) -> int:
        """Return the traits of a node's op type.

        The family of a node's type is imported. Fused groups and calls by a function's name have no
        definition and no traits; no family is imported to find that out.
        """
        found = self._ops.get(op_type)
        return found.traits if found is not None else 0

    def shape_fn(self, op_type: str) -> ShapeFn | None:
        """Return the op's shape function, or None."""
        return self._shape_fns.get(op_type)

    def planned_shape_fn(self, op_type: str) -> ShapeFn | None:
        """Return the op's shape function in plans, or None."""
        return self._planned_shape_fns.get(op_type) or self._shape_fns.get(op_type)

    def family_name(self, op_type: str) -> str:
        """Return the module of `tfjit.ops` that declares the op.

        "" for an op of the user's, and for a type that is not registered.
        """
        known = op_type in self._ops or self.lookup(op_type) is not None
        return self._families.get(op_type, "") if known else ""

    def family(self, op_type: str) -> OpFamily | None:
        """Return the family that declares the op, or None."""
        name = self.family_name(op_type)
        if not name:
            return None
        module = importlib.import_module(f"tfjit.ops.{name}")
        subject = (module.__doc__ or name).strip().splitlines()[0].rstrip(".")
        return OpFamily(name, subject[0].lower() + subject[1:], getattr(module, "INSTEAD", ""))

    def equal_shape(self, op_type: str, inputs: Sequence[Shape]) -> Shape:
        """Return the output shape of an elementwise op with equal inputs.

        None for other ops, and for inputs of unknown or different shapes. Most nodes of most graphs
        need no more of the shape function than that.
        """
        if not inputs or op_type not in self._equal_shapes:
            return None
        first = inputs[0]
        if first is None or None in first:
            return None
        for other in inputs:
            if other is not first and other != first:
                return None
        return first

    def list(self) -> tuple[OpDef, ...]:
        """Return every op, by name."""
        self._load()
        ops = self._ops.copy()  # in one step: other threads register and unregister
        return tuple(ops[name] for name in sorted(ops))

    def __contains__(self, op_type: str) -> bool:
        return self.lookup(op_type) is not None

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(self._ops.copy())

    def __len__(self) -> int:
        self._load()
        return len(self._ops)


registry: Final = OpRegistry()


def register_op(
    name: str,
    inputs: Iterable[str] = (),
    outputs: Iterable[str] = (),
    attrs: Iterable[str] = (),
    shape: ShapeFn | None = None,
    **flags: Any,
) -> OpDef:
    """Define an op and add it to the registry."""
    op_def = define_op(name, inputs, outputs, attrs, **flags)
    registry.register(op_def, shape)
    return op_def


def infer_shapes(context: ShapeContext, op_def: OpDef, planned: bool = False) -> list[Shape]:
    """Return output shapes by the shape function; unknown without one.

    planned: by the shape function of plans.

    Raises InvalidGraphError (also a ValueError) with the node, its attrs and input shapes in the
    message.
    """
    find = registry.planned_shape_fn if planned else registry.shape_fn
    shape_fn = find(op_def.name)
    if shape_fn is None:
        return [None] * context.num_outputs
    try:
        shapes = list(shape_fn(context))
    except (OpError, ValueError) as error:
        if isinstance(error, OpError) and not isinstance(error, InvalidArgumentError):
            raise
        message = error.message if isinstance(error, OpError) else str(error)
        raise InvalidGraphError(None, None, f"{message}{context.where()}") from None
    if len(shapes) != context.num_outputs:
        raise InternalError(
            None,
            None,
            f"the shape function of {op_def.name} gave {len(shapes)} shapes for "
            f"{context.num_outputs} outputs of '{context.name}'",
        )
    return shapes
