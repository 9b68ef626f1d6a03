"""`raw_rnn`: a cell in a loop that a user's function controls.

At each step the function decides on the inputs, outputs, state and end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfjit.client.rnn.rnn_cells import check_cell, with_batch
from tfjit.client.variables.variable_scope import variable_scope
from tfjit.framework.types import dtypes, nest
from tfjit.framework.types.shape import as_shape
from tfjit.ops.arithmetic.elementwise_functions import logical_not, logical_or
from tfjit.ops.arithmetic.reduction import reduce_all
from tfjit.ops.arrays.array import shape as shape_of
from tfjit.ops.arrays.creation import zeros
from tfjit.ops.arrays.indexing_functions import where
from tfjit.ops.arrays.movement_functions import concat
from tfjit.ops.control_flow.flow_tensor_array import TensorArray
from tfjit.ops.control_flow.loops import while_loop
from tfjit.ops.core.convert import constant, convert_to_tensor

if TYPE_CHECKING:
    from tfjit.client.rnn.rnn_cells import RNNCell
    from tfjit.client.variables.variable_scope import VariableScope
    from tfjit.framework.graphs.operation import Tensor
    from tfjit.framework.graphs.typing import DTypeLike, Structure, TensorLike


def raw_rnn(
    cell: RNNCell,
    loop_fn: Callable[..., Any],
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    scope: VariableScope | str | None = None,
) -> tuple[Any, Any, Any]:
    """Return (TensorArrays of emitted values, last state, last loop state).

    loop_fn(time, cell_output, cell_state, loop_state) gives (finished: bool [batch], the next
    input, the next state, the emitted values, the next loop state). It is asked first with time 0
    and None for the rest, and gives the first input and state, and zeros like the emitted values of
    one row, or None for the cell's output. The loop ends when all rows have finished; the state of
    a finished row stays and zeros are emitted. Raises TypeError for a value that is no cell or
    function, either for structures that change.
    """
    check_cell("cell", cell)
    if not callable(loop_fn):
        raise TypeError(f"Argument `loop_fn` must be a callable. Received: {loop_fn}.")
    with variable_scope(scope or "rnn"):
        start = constant(0, dtype=dtypes.int32)
        finished, first_input, state, emitted, first_loop_state = loop_fn(start, None, None, None)
        loop_state = (
            constant(0, dtype=dtypes.int32) if first_loop_state is None else first_loop_state
        )
        first = nest.flatten(first_input)[0]
        rows = first.shape_tuple[0] if first.shape_tuple else None
        batch_size = shape_of(first)[0] if rows is None else rows
        nest.assert_same_structure(state, cell.state_size)
        state = nest.map_structure(convert_to_tensor, state)
        if emitted is None:
            emitted, sizes = cell.output_size, nest.flatten(cell.output_size)
            types = [nest.flatten(state)[0].dtype] * len(sizes)
        else:
            sizes = [_size(value) for value in nest.flatten(emitted)]
            types = [value.dtype for value in nest.flatten(emitted)]
        made = [
            TensorArray(
                dtype,
                size=0,
                dynamic_size=True,
                element_shape=_shape(rows, size),
                name=f"rnn_output_{i}",
            )
            for i, (dtype, size) in enumerate(zip(types, sizes, strict=True))
        ]
        blank = [_zeros(batch_size, size, dtype) for dtype, size in zip(types, sizes, strict=True)]
        arrays = nest.pack_sequence_as(emitted, made)
        zero = nest.pack_sequence_as(emitted, blank)

        def body(
            time: Any, done: Any, current: object, written: object, held: Any, carried: Any
        ) -> Structure:
            output, cell_state = cell(current, held)
            nest.assert_same_structure(held, cell_state)
            nest.assert_same_structure(cell.output_size, output)
            next_done, next_input, next_state, emit, next_carried = loop_fn(
                time + 1, output, cell_state, carried
            )
            nest.assert_same_structure(held, next_state)
            nest.assert_same_structure(current, next_input)
            nest.assert_same_structure(written, emit)

            def kept(old: Any, new: Any) -> Any:
                if isinstance(old, TensorArray) or old.shape.rank == 0:
                    return new
                return where(done, old, new)

            emit = nest.map_structure(kept, zero, emit)
            next_state = nest.map_structure(kept, held, next_state)
            written = nest.map_structure(
                lambda array, value: array.write(time, value), written, emit
            )
            return (
                time + 1,
                logical_or(done, next_done),
                next_input,
                written,
                next_state,
                carried if next_carried is None else next_carried,
            )

        found = while_loop(
            lambda _, done, *rest: logical_not(reduce_all(done)),
            body,
            [start, finished, first_input, arrays, state, loop_state],
            parallel_iterations=parallel_iterations or 32,
            swap_memory=swap_memory,
        )
        return found[-3], found[-2], None if first_loop_state is None else found[-1]


def _size(value: Any) -> Tensor:
    shape = value.shape_tuple
    return shape if shape is not None and None not in shape else shape_of(value)


def _shape(rows: int | None, size: TensorLike) -> Any:
    if isinstance(size, int):
        return [rows, size]
    return (
        [rows, *size]
        if isinstance(size, tuple)
        else None
        if not hasattr(size, "as_list")
        else [rows, *(as_shape(size) or ())]
    )


def _zeros(batch_size: Any, size: Any, dtype: DTypeLike) -> Any:
    if isinstance(size, (int, tuple)) or hasattr(size, "as_list"):
        return zeros(with_batch(batch_size, size), dtype)
    return zeros(concat([[batch_size], size], 0), dtype)  # known when it runs
