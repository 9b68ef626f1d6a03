"""Define the loss of dense label sequences (CTC).

It is computed by sums over states in a loop. Each sequence of n labels has 2 (n + 1) states: a
start, a state for each label, and a blank behind the start and each label. Probabilities are
logarithms; those of each step are normalised, and the normalisers sum up to the likelihood.

Source: Graves et al. 2006, "Connectionist Temporal Classification".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops import nn
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike

_ALMOST_NEVER = math.log(1e-307)  # of states that a sequence cannot begin or end in


# A size of a tensor: a number where it is known.
Size = int | Tensor


def size_of(x: Tensor, axis: int) -> Size:
    """Return a tensor's size along an axis."""
    sizes = x.shape_tuple
    known = None if sizes is None else sizes[axis]
    return ops.shape(x)[axis] if known is None else known


def dense_loss(
    labels: TensorLike,
    logits: TensorLike,
    label_length: TensorLike | None,
    logit_length: TensorLike,
    time_major: bool,
    unique: Sequence[Tensor] | None,
    blank_index: int,
    name: str | None,
) -> Tensor:
    """Return minus the log likelihood of each label sequence, [batch].

    The arguments are those of `ctc_loss_v2`, with dense labels [batch, labels].
    """
    with name_scope(name, "ctc_loss_dense", [logits, labels, label_length, logit_length]):
        values = convert_to_tensor(logits, name="logits")
        rows = convert_to_tensor(labels, name="labels")
        counts = convert_to_tensor(label_length, name="label_length")
        steps = convert_to_tensor(logit_length, name="logit_length")
        kind = values.dtype
        narrow = kind in (dtypes.float16, dtypes.bfloat16)
        if narrow:
            values = ops.cast(values, dtypes.float32)
        if not time_major:
            values = ops.transpose(values, [1, 0, 2])
        places = list(unique) if unique else []
        if blank_index != 0:
            blank: Size = blank_index + size_of(values, 2) if blank_index < 0 else blank_index
            parts = [
                values[:, :, blank : blank + 1],
                values[:, :, :blank],
                values[:, :, blank + 1 :],
            ]
            values = ops.concat(parts, axis=2)
            rows = ops.where(rows < ops.cast(blank, rows.dtype), rows + 1, rows)
            if places:
                places[0] = _shifted(places[0], places[1], blank)

        @ops.custom_gradient
        def loss(x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
            found, gradient = _loss_and_gradient(x, rows, counts, steps, places)
            return found, lambda grad: ops.reshape(grad, [1, -1, 1]) * gradient

        result: Tensor = loss(values)
        return ops.cast(result, kind) if narrow else result


def _shifted(unique: Tensor, places: Tensor, blank: Size) -> Tensor:
    """Return unique labels as they are with the blank in front.

    The zeros behind them stay.
    """
    moved = ops.where(unique < ops.cast(blank, unique.dtype), unique + 1, unique)
    lengths = ops.reduce_max(places, axis=1) + 1
    return ops.where(ops.sequence_mask(lengths, size_of(moved, 1)), moved, ops.zeros_like(moved))


def _loss_and_gradient(
    logits: Tensor, labels: Tensor, counts: Tensor, steps: Tensor, unique: list[Tensor]
) -> tuple[Tensor, Tensor]:
    """Return the loss [batch] and its gradient by logits [steps, batch, classes].

    The first class is the blank.
    """
    classes, width = size_of(logits, 2), size_of(labels, 1)
    of_class = nn.log_softmax(logits)
    of_state = _states_of_classes(of_class, labels, classes, width)
    moves = ops.log(_transitions(labels, width))
    start, end = _ends(counts, width, size_of(labels, 0))
    posterior, likelihood = _forward_backward(moves, start, end, of_state, steps)
    if unique:
        found = _classes_of_states_by_label(posterior, width, classes, unique)
    else:
        found = _classes_of_states(posterior, labels, classes, width)
    gradient = ops.exp(of_class) - ops.exp(found)
    mask = ops.sequence_mask(steps, size_of(logits, 0), dtypes.float32)
    gradient *= ops.expand_dims(ops.transpose(mask, [1, 0]), 2)
    return -likelihood, gradient


def _states_of_classes(of_class: Tensor, labels: Tensor, classes: Size, width: Size) -> Tensor:
    """Return the log probability of each state's class, [steps, batch, states]."""
    blanks = ops.tile(of_class[:, :, :1], ops.stack([1, 1, width + 1]))
    chosen = ops.expand_dims(ops.one_hot(labels, depth=classes), 0)
    of_labels = ops.reduce_sum(ops.expand_dims(of_class, 2) * chosen, axis=3)
    every = ops.concat([of_labels, blanks], axis=2)
    return ops.pad(every, [[0, 0], [0, 0], [1, 0]], constant_values=-math.inf)


def _transitions(labels: Tensor, width: Size) -> Tensor:
    """Return 1 for the moves between states that labels allow.

    float32 [batch, to, from].
    """
    batch = size_of(labels, 0)
    label = ops.range(width + 1)
    blank = label + (width + 1)
    states = 2 * (width + 1)
    moves = ops.concat(
        [
            [[1, 0]],
            ops.stack([label[1:], blank[:-1]], 1),
            ops.stack([blank, label], 1),
        ],
        0,
    )
    ones = ops.ones([size_of(moves, 0)])
    always = ops.scatter_nd(moves, ones, ops.stack([states, states])) + ops.eye(states)
    # From a label to the next one, unless both are the same: those need a blank between them.
    first = ops.stack([ops.zeros_like(label[2:]), label[2:], label[1:-1]], 1)
    rows = ops.expand_dims(ops.range(batch), 1) * [1, 0, 0]
    places = ops.tile(ops.expand_dims(first, 0), ops.stack([batch, 1, 1])) + ops.expand_dims(
        rows, 1
    )
    differ = 1.0 - ops.cast(ops.equal(labels[:, :-1], labels[:, 1:]), dtypes.float32)
    between = ops.scatter_nd(places, differ, ops.stack([batch, states, states]))
    return ops.expand_dims(always, 0) + between


def _ends(counts: Tensor, width: Size, batch: Size) -> tuple[Tensor, Tensor]:
    """Return log probabilities of first and of last states.

    Both are [batch, states].
    """
    never = ops.constant(_ALMOST_NEVER, dtypes.float32)
    states = 2 * (width + 1)
    start = ops.one_hot(
        ops.zeros(ops.stack([batch]), dtypes.int32),
        depth=states,
        on_value=0.0,
        off_value=_ALMOST_NEVER,
        axis=1,
    )
    last = ops.one_hot(counts, depth=width + 1)
    return start, (1.0 - ops.concat([last, last], 1)) * never


def _forward_backward(
    moves: Tensor, start: Tensor, end: Tensor, observed: Tensor, steps: Tensor
) -> tuple[Tensor, Tensor]:
    """Return log probabilities of states, and the log likelihood [batch].

    moves [batch, to, from], observed [steps, batch, states] -> [steps, batch, states].
    """
    mask = ops.transpose(ops.sequence_mask(steps, size_of(observed, 0), dtypes.float32), [1, 0])
    backward_moves = ops.transpose(moves, [0, 2, 1])

    def forward(state: Tensor, here: Tensor) -> Tensor:
        reached = ops.reduce_logsumexp(ops.expand_dims(state, 1) + moves, axis=-1) + here
        return reached - ops.reduce_logsumexp(reached, axis=-1, keepdims=True)

    def backward(
        before: tuple[Tensor, Tensor], elements: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        state, total = before
        here, present = elements
        reached = ops.expand_dims(state + here, 1) + backward_moves
        reached = ops.reduce_logsumexp(reached, axis=-1)
        scale = ops.reduce_logsumexp(reached, axis=-1, keepdims=True)
        total += ops.squeeze(scale, axis=[-1]) * present
        present = ops.expand_dims(present, 1)
        return (reached - scale) * present + end * (1.0 - present), total

    ahead = ops.scan(forward, observed, initializer=start)
    zeros = ops.zeros_like(end[:, 0])
    back, totals = ops.scan(backward, (observed, mask), initializer=(end, zeros), reverse=True)
    # `back` at step t is behind the step's own observation; the last step's is the end.
    behind = ops.concat([back[1:], ops.expand_dims(end, 0)], 0)
    both = ahead + behind
    both -= ops.reduce_logsumexp(both, axis=2, keepdims=True)
    both += ops.log(ops.expand_dims(mask, 2))
    return both, back[0, :, 0] + totals[0]


def _classes_of_states(posterior: Tensor, labels: Tensor, classes: Size, width: Size) -> Tensor:
    """Sum the states of each class, [steps, batch, classes]."""
    of_labels = posterior[:, :, 1 : width + 1]
    chosen = ops.one_hot(labels - 1, depth=classes - 1, on_value=0.0, off_value=-math.inf)
    summed = ops.reduce_logsumexp(
        ops.expand_dims(of_labels, 3) + ops.expand_dims(chosen, 0), axis=2
    )
    blanks = ops.reduce_logsumexp(posterior[:, :, width + 1 :], axis=2, keepdims=True)
    return ops.concat([blanks, summed], axis=-1)


def _classes_of_states_by_label(
    posterior: Tensor, width: Size, classes: Size, unique: list[Tensor]
) -> Tensor:
    """Sum the states of each class by way of the unique labels."""
    values, places = unique
    of_labels = ops.expand_dims(posterior[:, :, 1 : width + 1], 2)
    chosen = ops.one_hot(places, depth=width, on_value=0.0, off_value=-math.inf, axis=1)
    summed = ops.reduce_logsumexp(of_labels + chosen, axis=-1)
    steps, batch = size_of(posterior, 0), size_of(posterior, 1)
    rows = ops.reshape(ops.transpose(summed, [1, 2, 0]), ops.stack([batch * width, steps]))
    starts = ops.range(batch, dtype=values.dtype) * ops.cast(classes, values.dtype)
    indices = ops.reshape(values + ops.expand_dims(starts, -1), [-1, 1])
    flat = ops.cast(ops.stack([batch * classes, steps]), values.dtype)
    scattered = ops.scatter_nd(indices, rows, flat)
    present = ops.scatter_nd(indices, ops.ones_like(rows, dtype=dtypes.bool), flat)
    found = ops.where(present, scattered, ops.fill(ops.shape(scattered), -math.inf))
    cube = ops.reshape(found, ops.stack([batch, classes, steps]))
    of_classes = ops.transpose(cube, [2, 0, 1])[:, :, 1:]
    blanks = ops.reduce_logsumexp(posterior[:, :, width + 1 :], axis=2, keepdims=True)
    return ops.concat([blanks, of_classes], axis=-1)
