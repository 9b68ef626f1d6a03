"""Lower Einsum to transposes, sums, and a matrix or elementwise product."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from tfjit.framework.types import dtypes
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.ir.declined import Declined
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.rewriter import (
    constant,
    insert_constant,
    is_static,
    tensor_dtype,
    tensor_shape,
)

_DTYPES: Final = frozenset(
    {
        *(dtypes.bfloat16, dtypes.float16, dtypes.float32, dtypes.float64),
        *(dtypes.int32, dtypes.int64, dtypes.complex64, dtypes.complex128),
    }
)


@dataclass(frozen=True, eq=False, slots=True)
class Term:
    """A tensor of the lowered expression, one label an axis.

    op: "" for input `number` of the Einsum. inputs: operands of the op; arrays become constants.
    """

    op: str
    labels: str
    shape: tuple[int, ...]
    inputs: tuple[Term | np.ndarray, ...] = ()
    attrs: tuple[tuple[str, Any], ...] = ()
    number: int = -1


def lower_einsum(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Lower an Einsum node to simpler operations.

    Before: Einsum("bij,bjk->bik", x, y)
    After: BatchMatMulV2(x, y)

    Every equation with distinct labels within each term qualifies. Fires when the inputs' shapes
    are known. Sums are the same; their rounding may differ.
    Raises Declined, with the reason, elsewhere, and for everything that the run reports as an
    error.
    """
    inputs = graph.inputs(node.name)
    dtype = node.attrs["T"]
    if dtype not in _DTYPES:
        raise Declined(f"of {dtype.name}")
    shapes = []
    for src, output in inputs:
        shape = tensor_shape(graph, src, output)
        if shape is None or not is_static(shape):
            raise Declined(f"the shape of '{src}' is not known")
        if tensor_dtype(graph, src, output).is_ref:
            raise Declined(f"it reads the variable '{src}'")
        shapes.append(tuple(n for n in shape if n is not None))
    known = [constant(graph, ctx, *tensor) is not None for tensor in inputs]
    root = plan_einsum(node.attrs["equation"].decode(), shapes, known, dtype.is_complex)

    def name_of(term: Term) -> tuple[str, int]:
        if not term.op:
            return inputs[term.number]
        made = graph.add_node_op(
            graph.new_name(f"{node.name}/{term.op.lower()}"),
            term.op,
            read(term),
            dict(term.attrs),
            like=node,
            output_shapes=(term.shape,),
        )
        return made.name, 0

    def read(term: Term) -> list[tuple[str, int]]:
        return [
            insert_constant(graph, node, value, "sizes")
            if isinstance(value, np.ndarray)
            else name_of(value)
            for value in term.inputs
        ]

    if root.op:
        graph.change_op(node.name, root.op, read(root), dict(root.attrs))
    else:
        graph.change_op(node.name, "Identity", [name_of(root)], {})
    node.output_shapes = (root.shape,)
    return f"as {' and '.join(sorted(_ops(root))) or 'its input'}"


def _ops(term: Term) -> set[str]:
    return {term.op}.union(*(_ops(t) for t in term.inputs if isinstance(t, Term))) - {""}


def plan_einsum(
    equation: str,
    shapes: Sequence[tuple[int, ...]],
    known: Sequence[bool],
    is_complex: bool = False,
) -> Term:
    """Return the expression of an equation with one or two inputs.

    shapes: of the inputs. known: whether each input is a constant; transposes of constants cost
    nothing.

    Raises Declined for labels that come twice in a term, and for shapes that do not fit the
    equation.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    texts = left.split(",")
    if not arrow or len(texts) != len(shapes) or len(texts) > 2:
        raise Declined(f"equation '{equation}' with {len(shapes)} inputs")
    letters = "".join((*texts, right)).replace("...", "")
    if letters and not letters.isalpha():
        raise Declined(f"equation '{equation}'")
    labels, out = _without_dots(texts, right, shapes)
    if any(len(set(term)) != len(term) for term in (*labels, out)):
        raise Declined(f"a label comes twice in a term of '{equation}'")
    terms = [
        Term("", term, shape, number=k)
        for k, (term, shape) in enumerate(zip(labels, shapes, strict=True))
    ]
    if len(terms) == 2:
        terms = [_without_broadcast(term, other) for term, other in (terms, terms[::-1])]
    sizes: dict[str, int] = {}
    for term in terms:
        for label, size in zip(term.labels, term.shape, strict=True):
            if sizes.setdefault(label, size) != size:
                raise Declined(f"sizes of '{label}' differ in '{equation}'")
    if not sizes.keys() >= set(out):
        raise Declined(f"a label of the result is in no input of '{equation}'")
    terms = [
        _summed(term, {label for label in term.labels if not _used(label, k, terms, out)})
        for k, term in enumerate(terms)
    ]
    if len(terms) == 1:
        return _transposed(terms[0], out)
    a, b = terms
    both = set(a.labels) & set(b.labels)
    if not both - set(out) or set(a.labels) == set(b.labels):
        return _elementwise(a, b, out, sizes)
    return _product(a, b, out, sizes, known, is_complex)


def _used(label: str, number: int, terms: Sequence[Term], out: str) -> bool:
    return label in out or any(label in term.labels for k, term in enumerate(terms) if k != number)


def _without_dots(
    texts: Sequence[str], right: str, shapes: Sequence[tuple[int, ...]]
) -> tuple[list[str], str]:
    """Return the terms and the result with digits for ellipsis axes.

    The digits count from the last axis.
    """
    hidden = [
        len(shape) - len(text) + 3 if "..." in text else 0
        for text, shape in zip(texts, shapes, strict=True)
    ]
    if min(hidden) < 0 or max(hidden) > 10 or ("..." not in right and max(hidden) > 0):
        raise Declined("its ellipsis does not fit the shapes")
    digits = [("9876543210"[10 - n :] if n else "") for n in (*hidden, max(hidden))]
    *labels, out = (
        text.replace("...", axes) for text, axes in zip((*texts, right), digits, strict=True)
    )
    if any(len(term) != len(shape) for term, shape in zip(labels, shapes, strict=True)):
        raise Declined("a term's labels do not fit the rank")
    return labels, out


def _without_broadcast(term: Term, other: Term) -> Term:
    """Return a term without the ellipsis axes that broadcast.

    Such an axis has one element, and another size in the other term.
    """
    sizes = dict(zip(other.labels, other.shape, strict=True))
    kept = [
        k
        for k, (label, n) in enumerate(zip(term.labels, term.shape, strict=True))
        if not (label.isdigit() and n == 1 and sizes.get(label, 1) != 1)
    ]
    return _reshaped(
        term, "".join(term.labels[k] for k in kept), tuple(term.shape[k] for k in kept)
    )


def _reshaped(term: Term, labels: str, shape: tuple[int, ...]) -> Term:
    if shape == term.shape:
        return Term(term.op, labels, shape, term.inputs, term.attrs, term.number)
    return Term("Reshape", labels, shape, (term, np.array(shape, np.int32).reshape(-1)))


def _transposed(term: Term, labels: str) -> Term:
    if labels == term.labels:
        return term
    axes = [term.labels.index(label) for label in labels]
    return Term(
        "Transpose", labels, tuple(term.shape[k] for k in axes), (term, np.array(axes, np.int32))
    )


def _summed(term: Term, over: set[str]) -> Term:
    """Return a term summed over some labels."""
    axes = [k for k, label in enumerate(term.labels) if label in over]
    if not axes:
        return term
    kept = [k for k in range(len(term.labels)) if k not in axes]
    labels, shape = "".join(term.labels[k] for k in kept), tuple(term.shape[k] for k in kept)
    return Term("Sum", labels, shape, (term, np.array(axes, np.int32)), (("keep_dims", False),))


def _elementwise(a: Term, b: Term, out: str, sizes: Mapping[str, int]) -> Term:
    """Return a product without sums, or of inputs with equal labels."""
    order = out + "".join(label for label in a.labels if label not in out)

    def aligned(term: Term) -> Term:
        moved = _transposed(term, "".join(label for label in order if label in term.labels))
        return _reshaped(
            moved, order, tuple(sizes[label] if label in term.labels else 1 for label in order)
        )

    product = Term("Mul", order, tuple(sizes[label] for label in order), (aligned(a), aligned(b)))
    return _summed(product, set(order) - set(out))


def _orders(labels: set[str], *like: str) -> list[str]:
    """Return the orders of labels that follow these terms."""
    return list(dict.fromkeys("".join(label for label in term if label in labels) for term in like))


@dataclass(frozen=True, slots=True)
class _Arrangement:
    """One matrix form of a product: the ordered labels of each part."""

    first: Term
    second: Term
    batch: str
    rows: str
    summed: str
    columns: str

    def layouts(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Return each input's label order, plain and with swapped matrix axes."""
        rows, summed, columns = self.rows, self.summed, self.columns
        return (self.batch + rows + summed, self.batch + summed + rows), (
            self.batch + summed + columns,
            self.batch + columns + summed,
        )


def _arrangements(a: Term, b: Term, out: str) -> Iterator[_Arrangement]:
    both = set(a.labels) & set(b.labels)
    for first, second in ((a, b), (b, a)):
        rows, columns = set(first.labels) - both, set(second.labels) - both
        parts = (
            _orders(both & set(out), out, first.labels, second.labels),
            _orders(rows, out, first.labels),
            _orders(both - set(out), first.labels, second.labels),
            _orders(columns, out, second.labels),
        )
        for batch, row, term, column in itertools.product(*parts):
            yield _Arrangement(first, second, batch, row, term, column)


def _product(
    a: Term, b: Term, out: str, sizes: Mapping[str, int], known: Sequence[bool], is_complex: bool
) -> Term:
    """Return the matrix product, or batch of these, with fewest moves.

    Moved elements count before and after the product.
    """

    def swaps(choice: _Arrangement) -> bool:
        return not (is_complex and choice.batch)  # an adjoint is conjugated

    def moved(choice: _Arrangement) -> int:
        total = (
            prod(sizes[label] for label in out)
            if choice.batch + choice.rows + choice.columns != out
            else 0
        )
        for term, (plain, swapped) in zip(
            (choice.first, choice.second), choice.layouts(), strict=True
        ):
            in_place = term.labels == plain or (term.labels == swapped and swaps(choice))
            total += 0 if in_place or (not term.op and known[term.number]) else prod(term.shape)
        return total

    best = min(_arrangements(a, b, out), key=moved)

    def size(labels: str) -> int:
        return prod(sizes[label] for label in labels)

    batch = tuple(sizes[label] for label in best.batch)
    names = ("adj_x", "adj_y") if batch else ("transpose_a", "transpose_b")
    inputs, attrs = [], []
    sides = ((best.first, best.rows, best.summed), (best.second, best.summed, best.columns))
    for name, (term, high, low), (plain, swapped) in zip(names, sides, best.layouts(), strict=True):
        swap = term.labels == swapped != plain and swaps(best)
        matrix = (size(low), size(high)) if swap else (size(high), size(low))
        inputs.append(
            _reshaped(_transposed(term, swapped if swap else plain), "", (*batch, *matrix))
        )
        attrs.append((name, swap))
    matrices = Term(
        "BatchMatMulV2" if batch else "MatMul",
        "",
        (*batch, size(best.rows), size(best.columns)),
        tuple(inputs),
        tuple(attrs),
    )
    order = best.batch + best.rows + best.columns
    return _transposed(_reshaped(matrices, order, tuple(sizes[label] for label in order)), out)
