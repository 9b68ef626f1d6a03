"""Define the expressions of patterns and replacements: tensors, constants, ops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.passes.patterns.literals import Literal, text_of

Dim = int | str | None
Dtypes = frozenset[DType] | None
AttrValue = Any
"""An attr in Python form, or a predicate over one."""


class Value:
    """A tensor of an expression; Python's operators build ops over such tensors.

    `x + y` is AddV2 or Add, `x @ y` for MatMul, `x / y` for RealDiv. Numbers and arrays
    beside a `Value` are constants.
    """

    __slots__ = ()
    __array_ufunc__ = None  # an array on the left of an operator leaves the operator to the class

    def __add__(self, other: object) -> Op:
        return op.any_of("AddV2", "Add")(self, other)

    def __radd__(self, other: object) -> Op:
        return op.any_of("AddV2", "Add")(other, self)

    def __sub__(self, other: object) -> Op:
        return op.Sub(self, other)

    def __rsub__(self, other: object) -> Op:
        return op.Sub(other, self)

    def __mul__(self, other: object) -> Op:
        return op.Mul(self, other)

    def __rmul__(self, other: object) -> Op:
        return op.Mul(other, self)

    def __truediv__(self, other: object) -> Op:
        return op.RealDiv(self, other)

    def __rtruediv__(self, other: object) -> Op:
        return op.RealDiv(other, self)

    def __matmul__(self, other: object) -> Op:
        return op.MatMul(self, other)

    def __rmatmul__(self, other: object) -> Op:
        return op.MatMul(other, self)

    def __neg__(self) -> Op:
        return op.Neg(self)

    def __bool__(self) -> bool:
        raise TypeError("an expression of a pattern has no truth value")


# Plain classes: the built-in rules are made in the first moments of a process, and the definition
# of a dataclass takes a millisecond.
class Tensor(Value):
    """Any tensor; each use of a name is the same tensor.

    dtypes: the possible ones, None for all. shape: sizes; None in it is any size, a string a known
    size that is equal wherever that string stands. rank: of the shape, which is then known.
    """

    __slots__ = ("dtypes", "name", "rank", "shape")

    def __init__(
        self,
        name: str,
        dtypes: Dtypes = None,
        shape: tuple[Dim, ...] | None = None,
        rank: int | None = None,
    ) -> None:
        self.name, self.dtypes, self.shape, self.rank = name, dtypes, shape, rank

    def __str__(self) -> str:
        return self.name


class Constant(Tensor):
    """A tensor with a value that is known before the run.

    value: a number that each element has, or an array; None for any value. A number is compared in
    the tensor's dtype, bit by bit: -0.0 is not 0.0, NaN is NaN. when: a predicate over the array.
    """

    __slots__ = ("value", "when")

    def __init__(
        self,
        name: str = "",
        dtypes: Dtypes = None,
        shape: tuple[Dim, ...] | None = None,
        rank: int | None = None,
        value: Literal = None,
        when: Callable[[np.ndarray], object] | None = None,
    ) -> None:
        super().__init__(name, dtypes, shape, rank)
        self.value, self.when = value, when

    def __str__(self) -> str:
        return self.name or text_of(self.value)


class Attr:
    """An attr's value under a name, for guards and replacements."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name


class OpType:
    """An op type, or one of several; a call makes an `Op`.

    name: "" or the name under which the type of a match is known: with f of that name, f(f(x)) is
    two nodes of one type.
    """

    __slots__ = ("name", "types")

    def __init__(self, types: tuple[str, ...], name: str = "") -> None:
        self.types, self.name = types, name

    def __call__(self, *inputs: object, **attrs: AttrValue) -> Op:
        return Op(self, tuple(as_value(value) for value in inputs), attrs)

    def __str__(self) -> str:
        return self.name or "|".join(self.types)


ANY_USES: Final = -1


class Op(Value):
    """A node: op type, inputs and attrs.

    As a tensor it is output 0; `node[i]` is output i. Attrs that are not named may have any value
    in a pattern, and have their default in a replacement. A callable in a pattern is a predicate
    over the attr's value.
    use_count: None leaves the choice to the matcher: a node that the replacement computes anew has
    no other use. attrs_of: the name of a matched node; a new node has the attrs of that.
    """

    __slots__ = (
        *("attrs", "attrs_of", "dtypes", "inputs", "kind", "name", "rank", "shape"),
        "use_count",
    )

    def __init__(
        self, kind: OpType, inputs: tuple[Value, ...], attrs: Mapping[str, AttrValue]
    ) -> None:
        self.kind, self.inputs, self.attrs = kind, inputs, attrs
        self.name: str = ""
        self.attrs_of: str = ""
        self.use_count: int | None = None
        self.dtypes: Dtypes = None
        self.shape: tuple[Dim, ...] | None = None
        self.rank: int | None = None

    def _with(self, **changes: AttrValue) -> Op:
        made = Op(self.kind, self.inputs, self.attrs)
        for name in ("name", "attrs_of", "use_count", "dtypes", "shape", "rank"):
            setattr(made, name, changes.get(name, getattr(self, name)))
        return made

    def named(self, name: str) -> Op:
        """Return the node under a name, for guards and replacements."""
        return self._with(name=_identifier(name))

    def uses(self, count: int) -> Op:
        """Return the node with a required number of uses."""
        return self._with(use_count=count)

    def shared(self) -> Op:
        """Return the node with any number of uses.

        The other users keep the old node.
        """
        return self._with(use_count=ANY_USES)

    def of(self, *, dtype: object = None, shape: object = None, rank: int | None = None) -> Op:
        """Return the node with a dtype, shape or rank of output 0."""
        return self._with(dtypes=as_dtypes(dtype), shape=_as_dims(shape), rank=rank)

    def with_attrs_of(self, name: str) -> Op:
        """Return a new node with the attrs of a matched one.

        name: given by `named`, or "root". Attrs that the op type does not have are left out; attrs
        of the call come first.
        """
        return self._with(attrs_of=name)

    def __getitem__(self, index: int) -> Output:
        if not isinstance(index, int) or index < 0:
            raise IndexError(f"an output has a number from 0 on, got {index!r}")
        return Output(self, index)

    def __iter__(self) -> Iterator[Output]:
        raise TypeError("the number of outputs is not known: write node[0], node[1], ...")

    def __str__(self) -> str:
        parts = [str(value) for value in self.inputs]
        parts += [f"{name}={value}" for name, value in self.attrs.items()]
        return f"{self.kind}({', '.join(parts)})"


class Output(Value):
    """One output of a node of several."""

    __slots__ = ("index", "node")

    def __init__(self, node: Op, index: int) -> None:
        self.node, self.index = node, index

    def __str__(self) -> str:
        return f"{self.node}[{self.index}]"


class _OpTypes:
    """The op types as attributes: `op.Mul(x, y)`."""

    __slots__ = ()

    def __getattr__(self, name: str) -> OpType:
        if name.startswith("__"):
            raise AttributeError(name)
        return OpType((name,))

    def any_of(self, *names: str) -> OpType:
        """Return a choice of op types for each node by itself."""
        return OpType(_words(names))


op: Final = _OpTypes()


def op_type(name: str, *types: str) -> OpType:
    """Return a variable for op types.

    All of its nodes in a match have one op type.

    types: names, or one text of names with spaces between them.
    """
    return OpType(_words(types), name)


def tensor(
    name: str, *, dtype: object = None, shape: object = None, rank: int | None = None
) -> Tensor:
    """Return a variable for a tensor.

    dtype: a dtype, its name, several in a list, or a kind: "floating", "integer", "complex",
    "numeric". shape: sizes, None for any, a string for a size that is the same wherever that string
    stands.
    """
    return Tensor(_identifier(name), as_dtypes(dtype), _as_dims(shape), rank)


def tensors(names: str) -> tuple[Tensor, ...]:
    """Return variables for tensors: `x, y = tensors("x y")`."""
    return tuple(tensor(name) for name in names.split())


def constant(
    value: object = None,
    *,
    name: str = "",
    when: Callable[[np.ndarray], object] | None = None,
    dtype: object = None,
    shape: object = None,
    rank: int | None = None,
) -> Constant:
    """Return a constant of a value, or any constant.

    value: a number for each element, an array, or the name of any constant. when: a predicate over
    the array.
    """
    if isinstance(value, str):
        name, value = value, None
    if value is not None and not isinstance(value, (bool, int, float, complex, bytes, np.generic)):
        value = np.asarray(value)
    kept = _identifier(name) if name else ""
    return Constant(kept, as_dtypes(dtype), _as_dims(shape), rank, value, when)


def constants(names: str) -> tuple[Constant, ...]:
    """Return variables for any constants: `c, d = constants("c d")`."""
    return tuple(constant(name) for name in names.split())


def attr(name: str) -> Attr:
    """Return a variable for an attr's value."""
    return Attr(_identifier(name))


def as_value(value: object) -> Value:
    """Return an expression, or a number or array as a constant."""
    if isinstance(value, Value):
        return value
    if isinstance(value, OpType):
        raise TypeError(f"{value} is an op type without inputs: write {value}(...)")
    if isinstance(value, (bool, int, float, complex, bytes, np.generic, np.ndarray, list)):
        return constant(value)
    raise TypeError(
        f"an input is an expression, a number or an array, not {value!r}; a text constant is "
        "given as bytes"
    )


def node_of(value: Value) -> tuple[Op, int] | None:
    """Return the node and output of a value; None for a variable."""
    if isinstance(value, Op):
        return value, 0
    return (value.node, value.index) if isinstance(value, Output) else None


def walk(value: Value) -> Iterator[Value]:
    """Yield the distinct values of an expression, users before their inputs."""
    seen: set[int] = set()
    queue = [value]
    for here in queue:
        found = node_of(here)
        here = found[0] if found else here
        if id(here) in seen:
            continue
        seen.add(id(here))
        yield here
        if isinstance(here, Op):
            queue += here.inputs


_KINDS: Final = ("floating", "integer", "complex", "numeric")


def all_dtypes() -> list[DType]:
    """Return every dtype that is no reference."""
    found = {d.name: d for d in vars(dtypes).values() if isinstance(d, DType) and not d.is_ref}
    return list(found.values())


def as_dtypes(wanted: object) -> Dtypes:
    """Return the dtypes that a user names; None for all."""
    if wanted is None:
        return None
    if isinstance(wanted, str) and wanted in _KINDS:
        return frozenset(d for d in all_dtypes() if getattr(d, f"is_{wanted}"))
    several = wanted if isinstance(wanted, (list, tuple, set, frozenset)) else [wanted]
    return frozenset(as_dtype(one) for one in several)


def dtypes_text(wanted: frozenset[DType]) -> str:
    """Return a set of dtypes as text, by its kind if any."""
    for kind in _KINDS:
        if wanted == as_dtypes(kind):
            return kind
    names = sorted(dtype.name for dtype in wanted)
    if len(names) > 6:
        return f"{', '.join(names[:5])} or {len(names) - 5} others"
    return " or ".join(names) or "none"


def _as_dims(shape: object) -> tuple[Dim, ...] | None:
    if shape is None:
        return None
    if isinstance(shape, str) or not isinstance(shape, Iterable):
        raise TypeError(f"a shape is a list of sizes, not {shape!r}")
    dims = tuple(shape)
    for dim in dims:
        if dim is not None and not isinstance(dim, (int, str)):
            raise TypeError(f"a size is a number, None or a name, not {dim!r}")
    return dims


def _words(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(word for name in names for word in name.split())


def _identifier(name: str) -> str:
    if not name.isidentifier() or name == "root":
        raise InvalidArgumentError(
            None, None, f"{name!r} is no name for a part of a pattern: a Python name but 'root' is"
        )
    return name
