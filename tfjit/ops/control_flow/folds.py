"""Functions over the rows of tensors, as loops.

They are `map_fn`, `scan`, `foldl` and `foldr`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import nest
from tfjit.framework.types.dtypes import as_dtype
from tfjit.ops.arrays.array import shape as shape_of
from tfjit.ops.control_flow.flow_tensor_array import TensorArray
from tfjit.ops.control_flow.loops import while_loop
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.dispatch import dispatched

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, InitializerLike, Structure


def _elements(fn: Any, elems: Structure, name: str | None, default: str) -> tuple[Any, list[Any]]:
    if not callable(fn):
        raise TypeError(
            f"{fn.__name__ if hasattr(fn, '__name__') else fn} is not callable. Please provide a "
            "callable function."
        )
    flat = nest.flatten(elems)
    if not flat:
        raise ValueError(
            f"elems must be a Tensor or (possibly nested) sequence of Tensors. Got {elems}, which "
            "does not contain any Tensors."
        )
    return name_scope(name, default, [leaf for leaf in flat if isinstance(leaf, Tensor)]), flat


def _tensors(flat: list[Any]) -> list[Tensor]:
    made = [convert_to_tensor(leaf, name="elem") for leaf in flat]
    for value in made:
        if value.shape_tuple == ():
            raise ValueError("Elements in elems must be 1+ dimensional Tensors, not scalars")
    return made


def _count(values: list[Tensor]) -> tuple[Any, int | None]:
    """Return the number of rows, and the same number if known.

    The first is a tensor, or an int where it is known; the second may be None.
    """
    known = {value.shape_tuple[0] for value in values if value.shape_tuple} - {None}
    if len(known) > 1:
        raise ValueError(
            "All elements in elems must have as many rows. Received: "
            f"{[str(value.shape) for value in values]}"
        )
    if known:
        n = known.pop()
        return n, n
    return shape_of(values[0])[0], None


def _unstacked(values: list[Tensor], count: Any, shaped: bool = False) -> list[TensorArray]:
    """Return an array of the rows of each value.

    shaped: the arrays get their rows' shape, rather than infer it.
    """
    return [
        TensorArray(
            value.dtype.base_dtype,
            size=count,
            dynamic_size=False,
            infer_shape=True,
            element_shape=value.shape[1:] if shaped else None,
        ).unstack(value)
        for value in values
    ]


def _row_shape(results: list[Tensor], known: int | None) -> None:
    for result in results:
        shape = result.shape_tuple
        if shape is not None:
            result.set_shape((known, *shape[1:]))


@dispatched
def map_fn(
    fn: Callable[..., Any],
    elems: Structure,
    dtype: DTypeLike | None = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> Structure:
    """Return `fn` of each row of `elems`, stacked: [n, ...].

    elems: a tensor [n, ...] or a structure of them; `fn` gets the rows one by one. dtype (or
    fn_output_signature): of the results of `fn`, with their structure, where these differ from
    `elems`. infer_shape: all results have one shape. Raises TypeError for a function that cannot be
    called, ValueError for scalars and for another structure of results.
    """
    dtype = fn_output_signature if fn_output_signature is not None else dtype
    scope, flat = _elements(fn, elems, name, "map")
    with scope:
        values = _tensors(flat)
        count, known = _count(values)
        rows = _unstacked(values, count)
        wanted = (
            dtype
            if dtype is not None
            else nest.pack_sequence_as(elems, [value.dtype.base_dtype for value in values])
        )
        dtypes = [as_dtype(d).base_dtype for d in nest.flatten(wanted)]
        i = convert_to_tensor(0)
        made = [
            TensorArray(d, size=count, dynamic_size=False, infer_shape=infer_shape) for d in dtypes
        ]

        def compute(i: Any, arrays: Any) -> Structure:
            given = nest.pack_sequence_as(elems, [row.read(i) for row in rows])
            result = fn(given)
            nest.assert_same_structure(wanted, result)
            written = [
                array.write(i, value)
                for array, value in zip(arrays, nest.flatten(result), strict=True)
            ]
            return i + 1, written

        _, arrays = while_loop(
            lambda i, _: i < count,
            compute,
            (i, made),
            parallel_iterations=parallel_iterations or 10,
            back_prop=back_prop,
            swap_memory=swap_memory,
            maximum_iterations=count,
        )
        results = [array.stack() for array in arrays]
        _row_shape(results, known)
        return nest.pack_sequence_as(wanted, results)


def scan(
    fn: Callable[..., Any],
    elems: Structure,
    initializer: InitializerLike | None = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
) -> Structure:
    """Return all results of fn(a, x) over the rows of `elems`.

    a: the result before. x: the row. The results are stacked: [n, ...]. initializer: the first `a`,
    and the structure of the results; without one the first row is the first result. reverse: from
    the last row on. Raises TypeError for a function that cannot be called, ValueError for scalars
    and for another structure of results.
    """
    scope, flat = _elements(fn, elems, name, "scan")
    with scope:
        values = _tensors(flat)
        count, known = _count(values)
        rows = _unstacked(values, count, shaped=True)
        if initializer is None:
            structure, start = elems, [row.read(count - 1 if reverse else 0) for row in rows]
        else:
            structure, start = (
                initializer,
                [convert_to_tensor(leaf) for leaf in nest.flatten(initializer)],
            )
        made = [
            TensorArray(
                a.dtype.base_dtype,
                size=count,
                element_shape=a.shape if infer_shape else None,
                dynamic_size=False,
                infer_shape=infer_shape,
            )
            for a in start
        ]
        if initializer is None:
            made = [
                array.write(count - 1 if reverse else 0, a)
                for array, a in zip(made, start, strict=True)
            ]
        skipped = 1 if initializer is None else 0
        i = count - 1 - skipped if reverse else skipped

        def compute(i: Any, held: Any, arrays: Any) -> Structure:
            result = fn(
                nest.pack_sequence_as(structure, held),
                nest.pack_sequence_as(elems, [row.read(i) for row in rows]),
            )
            nest.assert_same_structure(structure, result)
            flat_result = nest.flatten(result)
            written = [
                array.write(i, value) for array, value in zip(arrays, flat_result, strict=True)
            ]
            return (i - 1 if reverse else i + 1), flat_result, written

        _, _, arrays = while_loop(
            lambda i, *_: i >= 0 if reverse else i < count,
            compute,
            (i, start, made),
            parallel_iterations=parallel_iterations,
            back_prop=back_prop,
            swap_memory=swap_memory,
            maximum_iterations=count,
        )
        results = [array.stack() for array in arrays]
        _row_shape(results, known)
        return nest.pack_sequence_as(structure, results)


def _fold(
    fn: Callable[..., Any],
    elems: Structure,
    initializer: InitializerLike,
    options: dict[str, Any],
    name: str | None,
    left: bool,
) -> Structure:
    scope, flat = _elements(fn, elems, name, "foldl" if left else "foldr")
    with scope:
        values = _tensors(flat)
        count, _ = _count(values)
        rows = _unstacked(values, count)
        if initializer is None:
            i = convert_to_tensor(1) if left else count - 1
            structure, start = elems, [row.read(0 if left else i) for row in rows]
        else:
            i = convert_to_tensor(0) if left else count
            structure, start = (
                initializer,
                [convert_to_tensor(leaf) for leaf in nest.flatten(initializer)],
            )

        def compute(i: Any, held: Any) -> Structure:
            at = i if left else i - 1
            result = fn(
                nest.pack_sequence_as(structure, held),
                nest.pack_sequence_as(elems, [row.read(at) for row in rows]),
            )
            nest.assert_same_structure(structure, result)
            return (i + 1 if left else at), nest.flatten(result)

        _, folded = while_loop(
            lambda i, _: (i < count) if left else (i > 0),
            compute,
            (i, start),
            maximum_iterations=count,
            **options,
        )
        return nest.pack_sequence_as(structure, folded)


def foldl(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """Return the last result of fn(a, x) over the rows of `elems`.

    a: the result before. x: the row, from the first on. initializer: the first `a`, and the
    structure of the result; without one it is the first row. Raises as `scan`.
    """
    options = {
        "parallel_iterations": parallel_iterations,
        "back_prop": back_prop,
        "swap_memory": swap_memory,
    }
    return _fold(fn, elems, initializer, options, name, left=True)


def foldr(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """Do as `foldl`, from the last row on."""
    options = {
        "parallel_iterations": parallel_iterations,
        "back_prop": back_prop,
        "swap_memory": swap_memory,
    }
    return _fold(fn, elems, initializer, options, name, left=False)
