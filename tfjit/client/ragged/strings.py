"""Functions of ragged strings, and functions of strings whose results are ragged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.ragged.elementwise import map_flat_values
from tfjit.client.ragged.factories import number_of_rows
from tfjit.client.ragged.ragged_tensor import RaggedTensor, dense_or_ragged, is_ragged
from tfjit.client.ragged.reductions import Reduction, reduced
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.core.apply import call, tensor
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.renamed import renamed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfjit.framework.graphs.typing import AxisLike, DenseOrRagged, Structure, TensorLike


def split(
    input: DenseOrRagged,
    sep: TensorLike | None = None,
    maxsplit: int = -1,
    name: str | None = None,
) -> DenseOrRagged:
    """Return the pieces of each string between separators, in a new axis.

    The separator is white space where none is given. maxsplit: the number of splits, if not -1.
    """
    with name_scope(name, "StringSplit", [input]):
        text = dense_or_ragged(input, dtype=dtypes.string, name="input")
        if isinstance(text, RaggedTensor):
            return text.with_flat_values(split(text.flat_values, sep, maxsplit))
        rank = text.shape.rank
        if rank == 0:
            return split(ops.stack([text]), sep, maxsplit)[0]
        if rank is not None and rank > 1:
            return split(RaggedTensor.from_tensor(text), sep, maxsplit)
        cut = convert_to_tensor("" if sep is None else sep, dtype=dtypes.string)
        return _pieces(call("StringSplitV2", None, input=text, sep=cut, maxsplit=maxsplit))


def split_at_bytes(
    source: TensorLike, sep: TensorLike | None, skip_empty: bool, name: str | None
) -> DenseOrRagged:
    """Return the pieces of each string between any bytes of the separator."""
    with name_scope(name, "StringSplit", [source]):
        text = convert_to_tensor(source, dtype=dtypes.string)
        cut = convert_to_tensor(" " if sep is None else sep, dtype=dtypes.string)
        return _pieces(call("StringSplit", None, input=text, delimiter=cut, skip_empty=skip_empty))


def _pieces(sparse: tuple[Tensor, Tensor, Tensor]) -> RaggedTensor:
    """Return the ragged tensor of the parts of a sparse matrix."""
    indices, values, shape = sparse
    return RaggedTensor.from_value_rowids(values, indices[:, 0], nrows=shape[0], validate=False)


def join(
    inputs: Sequence[DenseOrRagged], separator: str = "", name: str | None = None
) -> DenseOrRagged:
    """Join strings of the same rows, element by element; see `tf.strings.join`."""
    with name_scope(name, "RaggedStringJoin", list(inputs)):

        def joined(values: list[Tensor]) -> Tensor:
            return tensor("StringJoin", None, inputs=values, separator=separator)

        return map_flat_values(joined, list(inputs))


def reduce_join(
    inputs: DenseOrRagged,
    axis: AxisLike | None = None,
    keep_dims: bool | None = None,
    separator: str = "",
    name: str | None = None,
    reduction_indices: AxisLike | None = None,
    keepdims: bool | None = None,
) -> DenseOrRagged:
    """Join the strings along axes, in their order; see `tf.strings.reduce_join`."""
    keep = renamed(keepdims, keep_dims, "keepdims", "keep_dims")
    axes = renamed(axis, reduction_indices, "axis", "reduction_indices")

    def of_axes(text: Tensor, axis: AxisLike | None, keepdims: bool | None, name: str) -> Tensor:
        places: Structure = axis
        if axis is None:
            rank = text.shape.rank
            last = ops.rank(text) - 1 if rank is None else rank - 1
            places = ops.range(last, -1, -1)
        return tensor(
            "ReduceJoin",
            name,
            inputs=text,
            reduction_indices=convert_to_tensor(places, dtype=dtypes.int32),
            keep_dims=bool(keepdims),
            separator=separator,
        )

    def of_segments(text: Tensor, ids: Tensor, count: Tensor, name: str | None) -> Tensor:
        parts = {"segment_ids": ids, "num_segments": count}
        return tensor("UnsortedSegmentJoin", name, inputs=text, separator=separator, **parts)

    scope = name or "RaggedSegmentJoin"
    return reduced(Reduction(of_axes, of_segments), dense_or_ragged(inputs), axes, keep, scope)


def format(
    template: str,
    inputs: DenseOrRagged,
    placeholder: str = "{}",
    summarize: int = 3,
    name: str | None = None,
) -> Tensor:
    """Replace each placeholder of a template by a tensor's summary; see `tf.strings.format`.

    Raises ValueError for another number of tensors than placeholders and for an unknown rank.
    """
    values = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    texts = template.split(placeholder)
    if len(values) != len(texts) - 1:
        raise ValueError(
            "num placeholders in template and num inputs must match: "
            f"{len(texts) - 1} vs {len(values)}"
        )
    with name_scope(name, "StringFormat", values):
        pieces: list[TensorLike] = [texts[0]]
        for value, text in zip(values, texts[1:]):
            if is_ragged(value):
                pieces.append(_summary(dense_or_ragged(value), summarize))
            else:
                part = tensor(
                    "StringFormat",
                    None,
                    inputs=[value],
                    template="{}",
                    placeholder="{}",
                    summarize=summarize,
                )
                pieces.append(part)
            pieces.append(text)
        return tensor("StringJoin", None, inputs=pieces, separator="")


def _summary(ragged: RaggedTensor, summarize: int) -> Tensor:
    """Return the text of nested rows, each cut to its two ends.

    summarize: the number of elements at each end, -1 for all.

    Raises ValueError for a number that is neither -1 nor positive.
    """
    if summarize != -1 and not (isinstance(summarize, int) and summarize > 0):
        raise ValueError(f"Expected summarize to be -1 or a positive int, got {summarize!r}")
    rank = ragged.shape.rank
    if rank is None:
        raise ValueError("RaggedTensor to_string requires that rt.shape.rank is not None.")
    flat = ragged.flat_values
    if flat.dtype == dtypes.string:
        escaped = tensor(
            "StaticRegexReplace", None, input=flat, pattern=r"(['\\])", rewrite=r"\\\1"
        )
        text = tensor("StringJoin", None, inputs=["'", escaped, "'"], separator="")
    else:
        text = tensor("AsString", None, input=flat)
    # From the innermost axis: each row becomes one string.
    value: DenseOrRagged = ragged.with_flat_values(text)
    for _ in range(rank - 1):
        value = _rows_as_text(value, summarize)
    rows = number_of_rows(value, ragged.row_splits.dtype)
    whole = RaggedTensor.from_row_lengths(value, [rows])
    return _rows_as_text(whole, summarize)[0]


def _rows_as_text(ragged: RaggedTensor, summarize: int) -> DenseOrRagged:
    """Return the text of each row of the innermost axis."""
    inner = ragged.values
    if isinstance(inner, RaggedTensor):
        return ragged.with_values(_rows_as_text(inner, summarize))
    if inner.shape.rank > 1:
        return ragged.with_values(_rows_as_text(RaggedTensor.from_tensor(inner), summarize))
    lengths = ragged.row_lengths()
    if summarize != -1:
        half = ops.constant(summarize, lengths.dtype)
        dots = ops.fill(ops.expand_dims(ragged.nrows(), 0), "...")
        row = RaggedTensor.from_uniform_row_length(dots, 1, nrows=ragged.nrows(), validate=False)
        some = ops.cast(ops.greater(lengths, 2 * half), lengths.dtype)
        cut = _firsts(row, some)
        ragged = ops.concat([_firsts(ragged, half), cut, _lasts(ragged, half, lengths)], axis=1)
    joined = reduce_join(ragged, axis=1, separator=", ")
    return tensor("StringJoin", None, inputs=["[", joined, "]"], separator="")


def _firsts(ragged: RaggedTensor, count: Tensor) -> RaggedTensor:
    """Return the beginning of each row."""
    starts = ragged.row_starts()
    return _ranges(ragged, starts, ops.minimum(starts + count, ragged.row_limits()))


def _lasts(ragged: RaggedTensor, count: Tensor, lengths: Tensor) -> RaggedTensor:
    """Return the end of each row, without what `_firsts` returns."""
    limits = ragged.row_limits()
    own = ops.minimum(count, ops.maximum(lengths - count, 0))
    return _ranges(ragged, limits - own, limits)


def _ranges(ragged: RaggedTensor, starts: Tensor, limits: Tensor) -> RaggedTensor:
    one = ops.constant(1, starts.dtype)
    places = call(
        "RaggedRange", None, starts=starts, limits=limits, deltas=one, Tsplits=starts.dtype
    )
    values = ops.gather(ragged.values, places.rt_dense_values)
    return RaggedTensor.from_row_splits(values, places.rt_nested_splits, validate=False)
