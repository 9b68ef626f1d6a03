"""Compute losses and decodings of connectionist temporal classification (CTC), in NumPy.

Sources: Graves 2012, "Supervised Sequence Labelling with Recurrent Neural Networks", chapter 7.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfjit.framework.errors import FailedPreconditionError
from tfjit.framework.types.shape import format_shape
from tfjit.kernels.cpu.reference.inputs import invalid
from tfjit.kernels.cpu.reference.layers.beam_search import BeamSearch
from tfjit.kernels.registry import NodeSpec, reference

Arrays = Sequence[np.ndarray]
Rows = list[list[int]]


def _checked(inputs: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """Return logits [steps, batch, classes] and lengths [batch] of a decoder.

    Raises InvalidArgumentError or FailedPreconditionError where they do not fit.
    """
    logits, lengths = np.asarray(inputs[0]), np.asarray(inputs[1])
    if logits.ndim != 3:
        invalid("inputs is not a 3-Tensor")
    if not logits.size:
        invalid("inputs must not be empty")
    if lengths.ndim != 1:
        invalid("sequence_length is not a vector")
    if lengths.size != logits.shape[1]:
        raise FailedPreconditionError(
            None,
            None,
            f"len(sequence_length) != batch_size.  len(sequence_length):  {lengths.size} "
            f"batch_size: {logits.shape[1]}",
        )
    for k in np.flatnonzero(lengths > logits.shape[0])[:1]:
        raise FailedPreconditionError(None, None, f"sequence_length({k}) <= {logits.shape[0]}")
    return logits, lengths


def _sparse(rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of labels as indices, values and dense shape."""
    indices = [(b, k) for b, row in enumerate(rows) for k in range(len(row))]
    values = np.array([label for row in rows for label in row], np.int64)
    shape = np.array([len(rows), max(map(len, rows), default=0)], np.int64)
    return np.array(indices, np.int64).reshape(-1, 2), values, shape


@reference("CTCGreedyDecoder")
def _greedy(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Decode the likeliest class of each step to a sparse tensor.

    Blanks and (with merge_repeated) repeats are left out. Also returns minus the sum of the logits.
    """
    logits, lengths = _checked(inputs)
    _, batch, classes = logits.shape
    blank = int(node.attrs["blank_index"])
    if not -classes <= blank < classes:
        invalid(f"blank_index expected to be between {-classes} and {classes - 1} but was {blank}")
    blank = blank + classes if blank < 0 else blank
    best = logits.argmax(axis=2)
    rows = []
    cost = np.zeros((batch, 1), logits.dtype)
    for b in range(batch):
        length = max(int(lengths[b]), 0)
        path = best[:length, b]
        cost[b, 0] = -logits[np.arange(length), b, path].sum()
        before = -1
        kept = []
        for label in path.tolist():
            if label != blank and not (node.attrs["merge_repeated"] and label == before):
                kept.append(label)
            before = label
        rows.append(kept)
    return (*_sparse(rows), cost)


@reference("CTCBeamSearchDecoder")
def _beam_search(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Decode the likeliest `top_paths` label sequences; return them with their log probabilities.

    The last class is the blank.
    """
    logits, lengths = _checked(inputs)
    _, batch, classes = logits.shape
    width, paths = int(node.attrs["beam_width"]), int(node.attrs["top_paths"])
    scores = np.zeros((batch, paths), logits.dtype)
    found: list[Rows] = [[] for _ in range(paths)]
    for b in range(batch):
        search = BeamSearch(classes, width, logits.dtype)
        for t in range(int(lengths[b])):
            search.step(logits[t, b])
        if paths > width:
            invalid("requested more paths than the beam width.")
        best = search.best(paths)
        if len(best) < paths:
            invalid("Less leaves in the beam search than requested.")
        for k, entry in enumerate(best):
            found[k].append(entry.labels(bool(node.attrs["merge_repeated"])))
            scores[b, k] = entry.total
    parts = [_sparse(rows) for rows in found]
    return tuple(part[i] for i in range(3) for part in parts) + (scores,)


@reference("CTCLoss")
def _loss(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Return each sequence's loss and its gradient by the logits.

    inputs [steps, batch, classes], of which the last class is the blank; labels: the indices and
    values of a sparse matrix [batch, labels]. Sequences of length 0 have neither loss nor gradient.
    """
    logits, indices, values, lengths = (np.asarray(v) for v in inputs)
    labels = _label_rows(logits, indices, values, lengths)
    ignore = bool(node.attrs["ignore_longer_outputs_than_inputs"])
    collapse = bool(node.attrs["preprocess_collapse_repeated"])
    merge = bool(node.attrs["ctc_merge_repeated"])
    _, batch, classes = logits.shape
    for b, length in enumerate(lengths.tolist()):
        if length < 0:
            invalid(f"seq_len({b}) < 0")
    targets = [
        _target(labels[b], b, classes, collapse, None if ignore else int(lengths[b]))
        for b in range(batch)
    ]
    loss, gradient = np.zeros(batch, logits.dtype), np.zeros_like(logits)
    for b in range(batch):
        length = int(lengths[b])
        if length and not (ignore and len(labels[b]) > length):
            loss[b], gradient[:length, b] = _sequence_loss(logits[:length, b], targets[b], merge)
    return loss, gradient


def _label_rows(
    logits: np.ndarray, indices: np.ndarray, values: np.ndarray, lengths: np.ndarray
) -> Rows:
    """Return the labels of each sequence.

    Raises InvalidArgumentError for parts that do not fit.
    """
    if logits.ndim != 3:
        invalid("inputs is not a 3-Tensor")
    if lengths.ndim != 1:
        invalid("sequence_length is not a vector")
    if indices.ndim != 2:
        invalid("labels_indices is not a matrix")
    if values.ndim != 1:
        invalid("labels_values is not a vector")
    steps, batch, _ = logits.shape
    if lengths.size != batch:
        invalid(
            f"len(sequence_length) != batch_size.  len(sequence_length):  {lengths.size} "
            f"batch_size: {batch}"
        )
    if indices.shape[0] != values.shape[0]:
        invalid(
            "labels_indices and labels_values must contain the same number of rows, but saw "
            f"shapes: {format_shape(indices.shape)} vs. {format_shape(values.shape)}"
        )
    if not batch:
        invalid("batch_size must not be 0")
    rows: Rows = [[] for _ in range(batch)]
    width = int(indices[:, 1].max(initial=-1)) + 1
    before = (-1, -1)
    for n, (place, value) in enumerate(zip(indices.tolist(), values.tolist(), strict=True)):
        at = tuple(place)
        if not 0 <= at[0] < batch or at[1] < 0:
            invalid(
                f"label SparseTensor is not valid: indices[{n}] = [{at[0]},{at[1]}] is out of "
                f"bounds: need 0 <= index < [{batch},{width}]"
            )
        if at <= before:
            more = (
                "repeated"
                if at == before
                else "out of order. Many sparse ops require sorted indices."
            )
            invalid(f"label SparseTensor is not valid: indices[{n}] = [{at[0]},{at[1]}] is {more}")
        before = (at[0], at[1])
        rows[at[0]].append(value)
    for k in np.flatnonzero(lengths > steps)[:1]:
        invalid(f"sequence_length({k}) <= {steps}")
    return rows


def _target(
    labels: list[int], row: int, classes: int, collapse: bool, available: int | None
) -> list[int]:
    """Return a row's labels with blanks around each.

    Labels from classes - 1 on end the sequence. available: the number of steps that the labels have
    to fit in, or None.
    """
    if not labels:
        invalid(f"Labels length is zero in batch {row}")
    kept: list[int] = []
    ended = False
    for i, label in enumerate(labels):
        if i and collapse and label == labels[i - 1]:
            continue
        if label >= classes - 1:
            ended = True
        elif ended:
            invalid(
                "Saw a non-null label (index >= num_classes - 1) following a null label, batch: "
                f"{row} num_classes: {classes} labels: {','.join(map(str, labels))} labels seen "
                f"so far: {','.join(map(str, kept))}"
            )
        else:
            kept.append(label)
    if any(label < 0 for label in kept):
        invalid(
            f"All labels must be nonnegative integers, batch: {row} labels: "
            f"{','.join(map(str, kept))}"
        )
    if available is not None and len(labels) > available:
        invalid(
            f"Not enough time for target transition sequence (required: {len(labels)}, available: "
            f"{available}){row}You can turn this error into a warning by using the flag "
            "ignore_longer_outputs_than_inputs"
        )
    blank = classes - 1
    return [blank, *(label for one in kept for label in (one, blank))]


def _sequence_loss(logits: np.ndarray, target: list[int], merge: bool) -> tuple[float, np.ndarray]:
    """Return (loss, gradient [steps, classes]) of one sequence.

    They follow from forward and backward sums over states.
    """
    steps, classes = logits.shape
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    y = exponentials / exponentials.sum(axis=1, keepdims=True)
    path = np.array(target)
    states = path.size
    blank = path == classes - 1
    stays = blank | merge
    skips = ~blank
    skips[:2] = False
    if merge:
        skips[2:] &= path[2:] != path[:-2]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_y = np.log(y)[:, path]
        none = y.dtype.type(-np.inf)
        forward = np.full((steps, states), none)
        forward[0, :2] = log_y[0, :2]
        for t in range(1, steps):
            forward[t] = log_y[t] + _moved(forward[t - 1], stays, skips, none)
        # The backward sums are forward ones of the reversed sequence, without the step's own part.
        skips_back = np.zeros_like(skips)
        skips_back[2:] = ~blank[::-1][2:]
        if merge:
            skips_back[2:] &= path[::-1][2:] != path[::-1][:-2]
        backward = np.full((steps, states), none)
        backward[-1, -2:] = 0
        for t in range(steps - 2, -1, -1):
            after = (backward[t + 1] + log_y[t + 1])[::-1]
            backward[t] = _moved(after, stays[::-1], skips_back, none)[::-1]
        both = forward + backward
        total = np.logaddexp.reduce(both[0])
        gradient = y.copy()
        if total != none:
            of_class = np.full((steps, classes), none)
            for u, label in enumerate(path.tolist()):
                of_class[:, label] = np.logaddexp(of_class[:, label], both[:, u])
            gradient -= np.exp(of_class - total)
    return -total, gradient


def _moved(before: np.ndarray, stays: np.ndarray, skips: np.ndarray, none: float) -> np.ndarray:
    """Return the sums of states that reach each state.

    In one step, from the same state, or from one or two before it.
    """
    out = np.where(stays, before, none)
    out[1:] = np.logaddexp(out[1:], before[:-1])
    two: np.ndarray = np.where(skips[2:], before[:-2], none)
    out[2:] = np.logaddexp(out[2:], two)
    return out
