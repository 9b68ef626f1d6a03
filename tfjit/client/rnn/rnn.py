"""Recurrent networks: a cell over the time steps of a batch.

The steps are a loop, or are built one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tfjit.client.rnn.rnn_cells import check_cell, with_batch
from tfjit.client.variables.variable_scope import variable_scope
from tfjit.framework.graphs.default_graph import control_dependencies
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes, nest
from tfjit.framework.types.shape import as_shape
from tfjit.ops.arithmetic.elementwise_functions import (
    cast,
    equal,
    greater,
    less_equal,
    maximum,
    minimum,
)
from tfjit.ops.arithmetic.reduction import reduce_all, reduce_max, reduce_min
from tfjit.ops.arrays.array import identity
from tfjit.ops.arrays.array import rank as rank_of
from tfjit.ops.arrays.array import shape as shape_of
from tfjit.ops.arrays.creation import range as range_of
from tfjit.ops.arrays.creation import zeros
from tfjit.ops.arrays.indexing_functions import where
from tfjit.ops.arrays.movement_functions import (
    concat,
    reverse,
    reverse_sequence,
    stack,
    transpose,
    unstack,
)
from tfjit.ops.control_flow.conditionals import Assert, cond
from tfjit.ops.control_flow.flow_tensor_array import TensorArray
from tfjit.ops.control_flow.loops import while_loop
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.client.rnn.rnn_cells import RNNCell
    from tfjit.client.variables.variable_scope import VariableScope
    from tfjit.framework.graphs.typing import DTypeLike, Structure, TensorLike


def _swapped(value: Tensor) -> Tensor:
    """Swap batch and time."""
    shape = value.shape_tuple
    if shape is not None and len(shape) < 2:
        return value
    made = transpose(value, concat([[1, 0], range_of(2, rank_of(value))], 0))
    made.set_shape(None if shape is None else (shape[1], shape[0], *shape[2:]))
    return made


def _batch_size(values: Sequence[Tensor]) -> Structure:
    """Return the batch size of inputs [time, batch, ...].

    It is a number where it is known.
    """
    for value in values:
        shape = value.shape_tuple
        if shape is None:
            continue
        if len(shape) < 2:
            raise ValueError(
                f"Input tensor should have rank >= 2. Received input={value} of rank {len(shape)}"
            )
        if shape[1] is not None:
            return shape[1]
    return shape_of(values[0])[1]


def _dtype_of(dtype: DTypeLike, state: Structure) -> Any:
    if dtype is not None:
        return dtype
    found = {leaf.dtype for leaf in nest.flatten(state)}
    if len(found) != 1:
        raise ValueError(
            f"Argument state={state} has tensors of different inferred dtypes. Unable to infer a "
            "single representative dtype."
        )
    return found.pop()


def _initial(cell: RNNCell, state: Structure, batch_size: Any, dtype: DTypeLike) -> Any:
    if state is not None:
        return state
    if not dtype:
        raise ValueError("If no initial_state is provided, argument `dtype` must be specified")
    if getattr(cell, "get_initial_state", None) is not None:
        return cell.get_initial_state(inputs=None, batch_size=batch_size, dtype=dtype)
    return cell.zero_state(batch_size, dtype)


def _lengths(sequence_length: object) -> Tensor:
    made = cast(convert_to_tensor(sequence_length, name="sequence_length"), dtypes.int32)
    if made.shape.rank not in (None, 1):
        raise ValueError(
            "Argument sequence_length must be a vector of length batch_size. Received "
            f"sequence_length={sequence_length} of shape: "
            f"{made.shape}"
        )
    return made


def _sizes(size: TensorLike) -> tuple[int | None, ...]:
    return tuple(as_shape([size] if isinstance(size, int) else size) or ())


def _kept(done: Any, old: Any, new: Any) -> Structure:
    """Return the old value of rows whose sequence has ended.

    Other rows have the new value. done: bool [batch].
    """
    if isinstance(old, TensorArray) or old.shape.rank == 0:
        return new
    return where(done, old, new)


def _step(
    done: object, zero_output: Structure, state: Structure, output: Structure, new_state: Structure
) -> tuple[Any, Any]:
    nest.assert_same_structure(zero_output, output)
    nest.assert_same_structure(state, new_state)
    pairs = zip(
        nest.flatten(zero_output) + nest.flatten(state),
        nest.flatten(output) + nest.flatten(new_state),
        strict=True,
    )
    made = []
    for old, new in pairs:
        kept = _kept(done, old, new)
        if isinstance(kept, Tensor):
            kept.set_shape(old.shape)
        made.append(kept)
    count = len(nest.flatten(zero_output))
    return nest.pack_sequence_as(zero_output, made[:count]), nest.pack_sequence_as(
        state, made[count:]
    )


def dynamic_rnn(
    cell: Any,
    inputs: Structure,
    sequence_length: TensorLike | None = None,
    initial_state: Any = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: VariableScope | str | None = None,
) -> tuple[Structure, Structure]:
    """Run a cell over all time steps, in a loop.

    Returns (outputs [batch, time, ...], the last state).

    inputs: [batch, time, depth...] (with time_major [time, batch, ...], and so the outputs), or a
    structure of them. sequence_length: int32 [batch]; behind it a row's outputs are zero and its
    state stays. initial_state: the first state; without it zeros of `dtype`. Raises TypeError for a
    value that is no cell, ValueError for inputs whose depth is not known or whose sizes differ.
    """
    check_cell("cell", cell)
    with variable_scope(scope or "rnn"):
        flat = [convert_to_tensor(value) for value in nest.flatten(inputs)]
        if not time_major:
            flat = [_swapped(value) for value in flat]
        lengths = None
        if sequence_length is not None:
            lengths = identity(_lengths(sequence_length), name="sequence_length")
        batch_size = _batch_size(flat)
        state = _initial(cell, initial_state, batch_size, dtype)
        if lengths is not None:
            found, wanted = shape_of(lengths), stack([batch_size])
            text = f"Expected shape for Tensor {lengths.name} is "
            with control_dependencies(
                [
                    Assert(
                        reduce_all(equal(found, wanted)), [text, wanted, " but saw shape: ", found]
                    )
                ]
            ):
                lengths = identity(lengths, name="CheckSeqLen")
        outputs, state = _loop(
            cell,
            nest.pack_sequence_as(inputs, flat),
            state,
            parallel_iterations or 32,
            swap_memory,
            lengths,
            _dtype_of(dtype, state),
        )
        return (outputs if time_major else nest.map_structure(_swapped, outputs)), state


def _loop(
    cell: RNNCell,
    inputs: object,
    state: Structure,
    parallel_iterations: int,
    swap_memory: bool,
    lengths: Tensor | None,
    dtype: DTypeLike,
) -> tuple[Structure, Structure]:
    flat = nest.flatten(inputs)
    steps = shape_of(flat[0])[0]
    batch_size = _batch_size(flat)
    _check_sizes(flat)
    first = flat[0].shape_tuple
    known_steps, known_batch = (None, None) if first is None else first[:2]
    sizes = nest.flatten(cell.output_size)
    zero_output = nest.pack_sequence_as(
        cell.output_size, [zeros(with_batch(batch_size, size), dtype) for size in sizes]
    )
    longest = steps if lengths is None else reduce_max(lengths)
    count = steps if known_steps is None else known_steps
    made = [
        TensorArray(
            dtype,
            size=count,
            element_shape=[known_batch, *_sizes(size)],
            tensor_array_name=f"output_{i}",
        )
        for i, size in enumerate(sizes)
    ]
    given = [
        TensorArray(
            value.dtype, size=count, element_shape=value.shape[1:], tensor_array_name=f"input_{i}"
        ).unstack(value)
        for i, value in enumerate(flat)
    ]

    def body(time: Any, arrays: Any, held: Any) -> Structure:
        rows = [array.read(time) for array in given]
        for row, value in zip(rows, flat, strict=True):
            row.set_shape(value.shape[1:])
        output, new_state = cell(nest.pack_sequence_as(inputs, rows), held)
        if lengths is not None:
            output, new_state = _step(time >= lengths, zero_output, held, output, new_state)
        return (
            time + 1,
            [
                array.write(time, part)
                for array, part in zip(arrays, nest.flatten(output), strict=True)
            ],
            new_state,
        )

    bound = minimum(steps, maximum(1, longest))
    _, arrays, state = while_loop(
        lambda time, *_: time < bound,
        body,
        (convert_to_tensor(0, dtype=dtypes.int32, name="time"), made, state),
        parallel_iterations=parallel_iterations,
        maximum_iterations=steps,
        swap_memory=swap_memory,
    )
    outputs = [array.stack() for array in arrays]
    for output, size in zip(outputs, sizes, strict=True):
        output.set_shape([known_steps, known_batch, *_sizes(size)])
    return nest.pack_sequence_as(cell.output_size, outputs), state


def _check_sizes(flat: Sequence[Tensor]) -> None:
    first = flat[0].shape_tuple
    for value in flat:
        shape = value.shape_tuple
        if shape is None or len(shape) < 3 or None in shape[2:]:
            raise ValueError(
                "Input size (depth of inputs) must be accessible via shape inference, but saw "
                f"value None for input={value}."
                if shape is None or len(shape) >= 3
                else f"Shape {value.shape} must have rank at least 3"
            )
        assert first is not None
        if shape[0] != first[0]:
            raise ValueError(
                "Time steps is not the same for all the elements in the input in a batch. Received "
                "time "
                f"steps={shape[0]} for input={value}."
            )
        if shape[1] != first[1]:
            raise ValueError(
                "Batch_size is not the same for all the elements in the input. Received batch "
                f"size={shape[1]} for input={value}."
            )


def bidirectional_dynamic_rnn(
    cell_fw: RNNCell,
    cell_bw: RNNCell,
    inputs: TensorLike,
    sequence_length: TensorLike | None = None,
    initial_state_fw: Structure | None = None,
    initial_state_bw: Structure | None = None,
    dtype: DTypeLike | None = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: VariableScope | str | None = None,
) -> tuple[Structure, Structure]:
    """Run one cell from the first step on, another from the last.

    The last step is the end of each row's own sequence. Returns ((outputs, outputs), (state,
    state)). Arguments and errors as `dynamic_rnn`.
    """
    check_cell("cell_fw", cell_fw)
    check_cell("cell_bw", cell_bw)
    time, batch = (0, 1) if time_major else (1, 0)

    def backwards(value: TensorLike) -> Tensor:
        if sequence_length is None:
            return reverse(value, axis=[time])
        return reverse_sequence(value, seq_lengths=sequence_length, seq_axis=time, batch_axis=batch)

    def run(cell: RNNCell, values: TensorLike, state: Structure, name: str) -> tuple[Any, Any]:
        with variable_scope(name) as inner:
            return dynamic_rnn(
                cell,
                values,
                sequence_length,
                state,
                dtype,
                parallel_iterations,
                swap_memory,
                time_major,
                inner,
            )

    with variable_scope(scope or "bidirectional_rnn"):
        there, state_there = run(cell_fw, inputs, initial_state_fw, "fw")
        back, state_back = run(
            cell_bw, nest.map_structure(backwards, inputs), initial_state_bw, "bw"
        )
        return (there, nest.map_structure(backwards, back)), (state_there, state_back)


def static_rnn(
    cell: Any,
    inputs: Any,
    initial_state: Any = None,
    dtype: Any = None,
    sequence_length: object = None,
    scope: VariableScope | str | None = None,
) -> tuple[list[Structure], Structure]:
    """Run a cell over a list of inputs, without a loop.

    inputs: [batch, depth], one time step each. Returns (a list of outputs, the last state).
    sequence_length, initial_state, dtype and errors as for `dynamic_rnn`.
    """
    check_cell("cell", cell)
    if not nest.is_nested(inputs):
        raise TypeError(f"Argument `inputs` must be a sequence. Received: {inputs}")
    if not inputs:
        raise ValueError("Argument `inputs` must not be empty.")
    with variable_scope(scope or "rnn") as scope_of_cell:
        first = nest.flatten(inputs)[0]
        for value in nest.flatten(inputs):
            shape = value.shape_tuple
            if shape is None or None in shape[1:]:
                raise ValueError(
                    f"Input size (a dimension of input {value}) must be accessible via shape "
                    "inference, but saw value None."
                )
        rows = first.shape_tuple[0]
        state = _initial(cell, initial_state, shape_of(first)[0] if rows is None else rows, dtype)
        lengths = None if sequence_length is None else _lengths(sequence_length)
        if lengths is not None:
            made = []
            for size in nest.flatten(cell.output_size):
                blank = zeros(
                    with_batch(shape_of(first)[0] if rows is None else rows, size),
                    _dtype_of(dtype, state),
                )
                blank.set_shape([rows, *_sizes(size)])
                made.append(blank)
            zero_output = nest.pack_sequence_as(cell.output_size, made)
            shortest, longest = reduce_min(lengths), reduce_max(lengths)
        outputs = []
        for time, value in enumerate(inputs):
            if time:
                scope_of_cell.reuse_variables()
            if lengths is None:
                output, state = cell(value, state)
            else:
                output, state = _step_if_needed(
                    cell, value, state, time, lengths, shortest, longest, zero_output
                )
            outputs.append(output)
        return outputs, state


def _step_if_needed(
    cell: RNNCell,
    value: object,
    state: Structure,
    time: int,
    lengths: Tensor,
    shortest: Tensor,
    longest: Tensor,
    zero_output: object,
) -> tuple[Any, Any]:
    """Return a step that is skipped once all rows have ended.

    Before any row has ended, the step chooses no rows.
    """
    count = len(nest.flatten(zero_output))

    def flat(output: Structure, new_state: Structure) -> list[Any]:
        return nest.flatten(output) + nest.flatten(new_state)

    def step() -> list[Any]:
        output, new_state = cell(value, state)

        def chosen() -> Any:
            running = less_equal(lengths, time)
            return flat(*_step(running, zero_output, state, output, new_state))

        found: list[object] = cond(
            greater(shortest, time), lambda: flat(output, new_state), chosen, strict=True
        )
        return found

    made = cond(less_equal(longest, time), lambda: flat(zero_output, state), step, strict=True)
    for part, like in zip(made, flat(zero_output, state), strict=True):
        part.set_shape(like.shape)
    return nest.pack_sequence_as(zero_output, made[:count]), nest.pack_sequence_as(
        state, made[count:]
    )


def _reversed(inputs: Sequence[Any], lengths: Any) -> list[Any]:
    """Return the time steps in reverse, each row from its last."""
    if lengths is None:
        return list(reversed(inputs))
    flat = [nest.flatten(value) for value in inputs]
    transposed = [
        unstack(reverse_sequence(stack(list(parts)), lengths, 0, 1), num=len(inputs))
        for parts in zip(*flat, strict=True)
    ]
    return [
        nest.pack_sequence_as(value, [parts[i] for parts in transposed])
        for i, value in enumerate(inputs)
    ]


def static_bidirectional_rnn(
    cell_fw: RNNCell,
    cell_bw: RNNCell,
    inputs: Any,
    initial_state_fw: Structure | None = None,
    initial_state_bw: Structure | None = None,
    dtype: DTypeLike | None = None,
    sequence_length: Any = None,
    scope: VariableScope | str | None = None,
) -> tuple[list[Structure], Structure, Structure]:
    """Run `static_rnn` in both directions.

    Returns (outputs of both side by side, the last state of each).
    """
    check_cell("cell_fw", cell_fw)
    check_cell("cell_bw", cell_bw)
    if not nest.is_nested(inputs):
        raise TypeError(f"Argument `inputs` must be a sequence. Received: {inputs}")
    if not inputs:
        raise ValueError("Argument `inputs` must not be empty.")
    with variable_scope(scope or "bidirectional_rnn"):
        with variable_scope("fw") as there:
            outputs_fw, state_fw = static_rnn(
                cell_fw, inputs, initial_state_fw, dtype, sequence_length, there
            )
        with variable_scope("bw") as back:
            outputs_bw, state_bw = static_rnn(
                cell_bw,
                _reversed(inputs, sequence_length),
                initial_state_bw,
                dtype,
                sequence_length,
                back,
            )
        both = zip(outputs_fw, _reversed(outputs_bw, sequence_length), strict=True)
        joined = [nest.map_structure(lambda a, b: concat([a, b], 1), *pair) for pair in both]
        return joined, state_fw, state_bw
