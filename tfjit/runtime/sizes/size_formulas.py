"""Find the parts of a lowered partition that depend on sizes.

The partition is built for several sample sizes. Where the results have one structure, each number
that differs is a formula of the symbols: it must fit all samples. A constant that differs is
computed again from the run's graph, by the nodes that made it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np

from tfjit.framework.scalar import elementwise
from tfjit.kernels.ir.fused_group import CONSTANT, FusedGroup
from tfjit.kernels.registry import NodeSpec
from tfjit.runtime.lowering.lowered import Instruction, Lowered, Value
from tfjit.runtime.schedule.kernel_selection import call_key, group_of

Symbols = Sequence[Any]  # an int for each symbol, or a Size while builders are traced
_DIVISORS: Final = (2, 4, 8, 16, 32)
_MAX_PARAMETERS: Final = 64  # numbers in a constant that a builder reads
_FARTHEST: Final = 40  # largest width of a window without padding
_PREDICTED: Final = frozenset({"reason", "bytes_moved", "bytes_unfused", "flops", "op_def"})


class NotGeneric(Exception):
    """Signal that one plan cannot serve all sizes.

    The text gives the reason.
    """


class OtherStructure(NotGeneric):
    """Signal that the passes give other nodes for other sizes."""


class NoFormula(NotGeneric):
    """Signal that no formula gives a number for all samples."""


class Ambiguous(NotGeneric):
    """Signal that several formulas fit, so more samples are needed."""


@dataclass(frozen=True, slots=True)
class Formula:
    """An integer over the symbols.

    It is scale * ((sum of terms + start) // divisor).
    terms: (coefficient, symbols that are multiplied).
    """

    terms: tuple[tuple[int, tuple[int, ...]], ...]
    start: int = 0
    divisor: int = 1
    scale: int = 1

    def at(self, symbols: Symbols) -> Any:
        """Return the value for these sizes."""
        total: Any = self.start
        for coefficient, factors in self.terms:
            term: Any = coefficient
            for k in factors:
                term = term * symbols[k]
            total = total + term
        if self.divisor != 1:
            total = total // self.divisor
        return total * self.scale

    __call__ = at


def fit(values: Sequence[int], samples: Sequence[tuple[int, ...]]) -> Formula:
    """Return the formula with these values for the samples.

    Raises NotGeneric when there is none of the known forms: sums and products of the symbols, and
    rounded quotients of one symbol (a strided convolution's output).
    """
    return _fit(tuple(values), tuple(samples))


@lru_cache(maxsize=1024)  # a graph has few different sizes
def _fit(values: tuple[int, ...], samples: tuple[tuple[int, ...], ...]) -> Formula:
    count = len(samples[0])
    candidates: list[tuple[int, ...]] = [(k,) for k in range(count)]
    candidates += [(i, k) for i in range(count) for k in range(i, count)]
    for chosen in (candidates[:count], candidates):
        found = _linear(values, samples, chosen)
        if found is not None:
            return found
    for k in range(count):
        found = _quotient(values, [sample[k] for sample in samples], k)
        if found is not None:
            return found
    if len(samples) < len(candidates) + 2:
        raise Ambiguous(f"too few samples for products: {list(values)} for {list(samples)}")
    raise NoFormula(f"no formula gives {list(values)} for sizes {[list(s) for s in samples]}")


def _linear(
    values: Sequence[int], samples: Sequence[tuple[int, ...]], chosen: Sequence[tuple[int, ...]]
) -> Formula | None:
    """Return the sum of multiples of the chosen products with these values."""
    if len(samples) < len(chosen) + 2:  # a formula with fewer checks may fit by chance
        return None
    rows = [[*(_product(sample, key) for key in chosen), 1] for sample in samples]
    matrix = np.array(rows, np.float64)
    scale = np.abs(matrix).max(axis=0)
    solution = np.linalg.lstsq(matrix / scale, np.array(values, np.float64), rcond=None)[0] / scale
    numbers = [round(float(x)) for x in solution]
    for row, value in zip(rows, values, strict=True):
        if sum(a * b for a, b in zip(row, numbers, strict=True)) != value:
            return None
    terms = tuple((c, key) for c, key in zip(numbers, chosen) if c)
    return Formula(terms, numbers[-1])


def _product(sample: Sequence[int], key: Sequence[int]) -> int:
    product = 1
    for k in key:
        product *= sample[k]
    return product


def _quotient(values: Sequence[int], sizes: Sequence[int], symbol: int) -> Formula | None:
    """Return the formula of a rounded quotient with these values.

    Raises Ambiguous when two that fit differ for some size of the range.
    """
    largest = max(range(len(sizes)), key=lambda j: sizes[j])
    every = np.arange(min(sizes), max(sizes) + 1)
    found: Formula | None = None
    all_values: np.ndarray | None = None
    for divisor in _DIVISORS:
        for start in range(-_FARTHEST, 2 * divisor):
            whole = (sizes[largest] + start) // divisor
            if whole <= 0 or values[largest] % whole:
                continue
            scale = values[largest] // whole
            if any((n + start) // divisor * scale != v for n, v in zip(sizes, values)):
                continue
            own = (every + start) // divisor * scale
            if all_values is None:
                found, all_values = Formula(((1, (symbol,)),), start, divisor, scale), own
            elif (all_values != own).any():
                raise Ambiguous(f"several formulas give {list(values)} for sizes {list(sizes)}")
    return found


Made = Callable[[Symbols], Any]
"""Make an item for other sizes; such objects can be stored."""


@dataclass(frozen=True, slots=True)
class _Entries:
    """Make a mapping: some of its values depend on sizes."""

    first: Mapping[object, object]
    parts: Mapping[object, Made | None]

    def __call__(self, symbols: Symbols) -> dict[object, object]:
        return {
            key: self.first[key] if part is None else part(symbols)
            for key, part in self.parts.items()
        }


@dataclass(frozen=True, slots=True)
class _Items:
    """Make a tuple or list: some of its items depend on sizes."""

    first: Sequence[object]
    parts: Sequence[Made | None]

    def __call__(self, symbols: Symbols) -> Any:
        kind: Any = type(self.first)
        make = kind._make if hasattr(kind, "_make") else kind
        return make(
            [x if part is None else part(symbols) for x, part in zip(self.first, self.parts)]
        )


@dataclass(frozen=True, slots=True)
class _Integers:
    """Make an array of integers.

    Its dtype is object where an element is no number.
    """

    dtype: np.dtype
    shape: tuple[int, ...]
    elements: Made

    def __call__(self, symbols: Symbols) -> np.ndarray:
        numbers = self.elements(symbols)
        exact = all(isinstance(n, int) for n in numbers)
        array = np.empty(len(numbers), self.dtype if exact else object)
        array[:] = numbers
        return array.reshape(self.shape)


@dataclass(frozen=True, slots=True)
class _Fields:
    """Make a dataclass: some of its fields depend on sizes."""

    first: Any
    parts: Mapping[str, Made]

    def __call__(self, symbols: Symbols) -> Any:
        changes = {name: part(symbols) for name, part in self.parts.items()}
        if isinstance(self.first, FusedGroup):
            return replace(self.first, _anchor=self.first.anchor, **changes)
        return replace(self.first, **changes)


@dataclass(frozen=True, slots=True)
class _Constantly:
    """Return one value for all sizes."""

    value: object

    def __call__(self, symbols: Symbols) -> object:
        return self.value


def merged(items: Sequence[Any], samples: Sequence[tuple[int, ...]], title: str) -> Made | None:
    """Return a function that makes the item for other sizes.

    Return None where all items are the same.
    items: one a sample: numbers, tuples, mappings, dataclasses. Raises NotGeneric.
    """
    first = items[0]
    if all(item is first for item in items):
        return None
    if any(type(item) is not type(first) for item in items):
        raise NotGeneric(f"{title}: {first!r} is of another kind for other sizes")
    if isinstance(first, np.ndarray):
        return _merged_arrays(items, samples, title)
    if is_dataclass(first) and not isinstance(first, type):
        return _merged_fields(items, samples, title)
    if isinstance(first, Mapping):
        if any(list(item) != list(first) for item in items):
            raise NotGeneric(f"{title}: other attributes for other sizes")
        parts = {key: merged([i[key] for i in items], samples, title) for key in first}
        if not any(parts.values()):
            return None
        return _Entries(first, parts)
    if isinstance(first, (tuple, list)):
        if any(len(item) != len(first) for item in items):
            raise NotGeneric(f"{title}: another number of parts for other sizes")
        made = [merged(column, samples, title) for column in zip(*items)]
        if not any(made):
            return None
        return _Items(first, made)
    if all(item == first for item in items):
        return None
    if isinstance(first, int) and not isinstance(first, bool):
        return fit(items, samples)
    raise NotGeneric(f"{title}: {first!r} is another for other sizes")


def _merged_arrays(
    arrays: Sequence[np.ndarray], samples: Sequence[tuple[int, ...]], title: str
) -> Made | None:
    """Return a function that makes an array of few integers.

    Formulas give those that differ. The array has the dtype object where an element is no number.
    """
    first = arrays[0]
    if all(_same_array(array, first) for array in arrays):
        return None
    if (
        first.dtype.kind not in "iu"
        or first.size > _MAX_PARAMETERS
        or any(a.shape != first.shape or a.dtype != first.dtype for a in arrays)
    ):
        raise NotGeneric(f"{title}: a constant inside of the node depends on a size")
    elements = merged([tuple(a.reshape(-1).tolist()) for a in arrays], samples, title)
    assert elements is not None

    return _Integers(first.dtype, first.shape, elements)


def _same_array(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and (a is b or a.tobytes() == b.tobytes())


def _merged_fields(
    items: Sequence[Any], samples: Sequence[tuple[int, ...]], title: str
) -> Made | None:
    first = items[0]
    parts: dict[str, Made] = {}
    for field in fields(first):
        if field.name in _PREDICTED:
            continue
        column = [getattr(item, field.name) for item in items]
        if isinstance(first, NodeSpec) and field.name == "constants":
            column = _fixed_constants(first.op, column)
        elif isinstance(first, FusedGroup) and field.name == "constants":
            column = _without_shape_operands(items)
        part = merged(column, samples, title)
        if part is not None:
            parts[field.name] = part
        elif column[0] is not getattr(first, field.name):
            parts[field.name] = _Constantly(column[0])
    if not parts:
        return None
    return _Fields(first, parts)


_SHAPE_OPERANDS: Final = {
    **dict.fromkeys(("Fill", "RandomUniform", "RandomStandardNormal", "TruncatedNormal"), 0),
    **dict.fromkeys(("BroadcastTo", "Tile", "Reshape"), 1),
    **dict.fromkeys(("Conv2DBackpropInput", "DepthwiseConv2dNativeBackpropInput"), 0),
    **dict.fromkeys((f"UnsortedSegment{kind}" for kind in ("Max", "Min", "Prod", "Sum")), 2),
}
"""Number of the operand that only says the shape of the result."""
_INDEX_OPERANDS: Final = {"Gather": 1, "GatherNd": 1, "GatherV2": 1, "ResourceGather": 1}
"""Number of the operand with indices.

Kernels read these, and builders do not.
"""


def _fixed_constants(op: str, column: Sequence[Mapping[int, np.ndarray]]) -> list[Any]:
    """Return the constants of a node without those that depend on sizes.

    A builder then reads a number as any other input. It takes the shape of a result from its spec.
    """
    first = column[0]
    # the parameters of a group's members are constants of the group, its known inputs are numbers
    numbers_alone = op == "_Fused" or elementwise.lookup(op) is not None
    keep = [
        k
        for k, array in first.items()
        if not (
            numbers_alone
            or array.dtype.kind == "f"
            or _SHAPE_OPERANDS.get(op) == k
            or _INDEX_OPERANDS.get(op) == k
        )
        or all(k in other and _same_array(other[k], array) for other in column)
    ]
    if len(keep) == len(first):
        return list(column)
    return [{k: other[k] for k in keep if k in other} for other in column]


def _without_shape_operands(groups: Sequence[FusedGroup]) -> list[tuple[np.ndarray, ...]]:
    """Return the constants inside of groups, with equal shape operands."""
    first = groups[0]
    read = {
        ref.index
        for member in first.members
        for k, ref in enumerate(member.inputs)
        if ref.member == CONSTANT and _SHAPE_OPERANDS.get(member.spec.op) != k
    }
    return [
        tuple(
            array if k in read or k >= len(first.constants) else first.constants[k]
            for k, array in enumerate(group.constants)
        )
        for group in groups
    ]


@dataclass(frozen=True, slots=True)
class GenericValue:
    """A value of the partition.

    shape: None if all sizes have one.
    """

    value: Value
    shape: Made | None


@dataclass(frozen=True, slots=True)
class GenericInstruction:
    """An instruction of the partition.

    spec: None if all sizes have one. alike: the number of the first instruction with the same
    formulas, the layer of an earlier cell; its own number if there is none.
    """

    instruction: Instruction
    spec: Made | None
    alike: int


class GenericLowered:
    """A lowered partition over symbols.

    constants: index of a value -> its arrays, one a sample, where they differ and are read.
    """

    def __init__(self, lowered: Sequence[Lowered], samples: Sequence[tuple[int, ...]]) -> None:
        """Compare the partitions of the samples.

        Raises NotGeneric.
        """
        self.samples = samples
        self._first = lowered[0]
        require_one_structure(lowered)
        first = lowered[0]
        self.values = [
            GenericValue(values[0], merged([v.shape for v in values], samples, values[0].producer))
            for values in zip(*(one.values for one in lowered))
        ]
        self.instructions = []
        firsts: dict[Hashable, int] = {}
        for number, same in enumerate(zip(*(one.instructions for one in lowered))):
            specs = [i.spec for i in same]
            spec = merged(specs, samples, same[0].node.name)
            key = _call_keys(specs) if spec is not None else None
            alike = number if key is None else firsts.setdefault(key, number)
            self.instructions.append(GenericInstruction(same[0], spec, alike))
        read = {v.root.index for i in first.instructions for v in i.inputs}
        read |= {v.root.index for v in first.fetches}
        self.constants: dict[int, list[np.ndarray]] = {}
        for values in zip(*(one.values for one in lowered)):
            arrays = [v.array for v in values if v.array is not None]
            differ = any(not _same_array(a, arrays[0]) for a in arrays)
            if values[0].index in read and differ:
                self.constants[values[0].index] = arrays

    def without_samples(self) -> GenericLowered:
        """Return the partition without the arrays of the samples, which were checked."""
        made = copy(self)
        made.constants = {index: [] for index in self.constants}
        return made

    def at(
        self, symbols: Sequence[int], constants: Mapping[int, np.ndarray]
    ) -> tuple[Lowered, list[Value]]:
        """Return the partition for these sizes, and its values by index.

        constants: the arrays of the constants that depend on sizes.
        """
        made: list[Value] = []
        for generic in self.values:
            value = replace(generic.value)
            if generic.shape is not None:
                value.shape = generic.shape(symbols)
            if value.index in constants:
                value.array = constants[value.index]
            made.append(value)
        for value in made:
            if value.base is not None:
                value.base = made[value.base.index]
        instructions = [
            replace(
                one.instruction,
                inputs=[made[v.index] for v in one.instruction.inputs],
                outputs=[made[v.index] for v in one.instruction.outputs],
                spec=one.instruction.spec if one.spec is None else one.spec(symbols),
                call=None,
                unfused=None,
            )
            for one in self.instructions
        ]
        first = self._first
        lowered = replace(
            first,
            instructions=instructions,
            values=made,
            fetches=[made[v.index] for v in first.fetches],
            feeds={k: made[v.index] for k, v in first.feeds.items()},
            splits=[],
        )
        return lowered, made


def _call_keys(specs: Sequence[NodeSpec]) -> Hashable:
    """Return the key of an instruction's calls for all samples, or None.

    Known inputs that depend on sizes are no part of it: the builder does not see them.
    """
    known = _fixed_constants(specs[0].op, [spec.constants for spec in specs])
    keys = tuple(
        call_key(replace(spec, constants=constants), group_of(spec))
        for spec, constants in zip(specs, known, strict=True)
    )
    return None if None in keys else keys


def require_one_structure(lowered: Sequence[Lowered]) -> None:
    """Raise NotGeneric unless partitions have the same nodes, values and order."""
    structures = [_structure(one) for one in lowered]
    for found in structures[1:]:
        if found != structures[0]:
            for a, b in zip(structures[0], found):
                if a != b:
                    raise OtherStructure(
                        f"the passes give {a[:2]} for one size, {b[:2]} for another"
                    )
            raise OtherStructure("the passes give another number of nodes for other sizes")


def _structure(lowered: Lowered) -> list[tuple[Any, ...]]:
    if any(i.construct is not None or i.role is not None for i in lowered.instructions):
        raise NotGeneric("a loop or branch")
    found: list[tuple[Any, ...]] = []
    for position, value in enumerate(lowered.values):
        base = value.base.index if value.base is not None else -1
        found.append(
            (value.producer, value.storage, value.index - position, base, value.feed)
            + (id(value.variable), value.dtype.name, value.fetched, len(value.shape))
        )
    for i in lowered.instructions:
        ends = tuple(v.index for v in i.inputs), tuple(v.index for v in i.outputs)
        found.append((i.node.name, i.node.op, i.serving, *ends, i.moves))
    found.append(("fetches", "", tuple(v.index for v in lowered.fetches)))
    found.append(("feeds", "", tuple((k, v.index) for k, v in lowered.feeds.items())))
    return found


__all__ = [
    "Ambiguous",
    "Formula",
    "GenericLowered",
    "NoFormula",
    "NotGeneric",
    "OtherStructure",
    "Symbols",
    "fit",
    "merged",
    "require_one_structure",
]
