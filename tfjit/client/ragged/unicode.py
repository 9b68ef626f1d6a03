"""Code points, characters and bytes of strings, in ragged axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.ragged.ragged_tensor import RaggedTensor, dense_or_ragged
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types.dtypes import int32, string
from tfjit.ops.core.apply import call, tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DenseOrRagged


def bytes_split(input: DenseOrRagged, name: str | None = None) -> DenseOrRagged:
    """Return the bytes of each string, in a new ragged axis.

    Raises ValueError for a rank that is not known.
    """
    with name_scope(name, "StringsByteSplit", [input]):
        text = dense_or_ragged(input, name="input")
        if isinstance(text, RaggedTensor):
            return text.with_flat_values(bytes_split(text.flat_values))
        rank = text.shape.rank
        if rank is None:
            raise ValueError("input must have a statically-known rank.")
        if rank == 0:
            return bytes_split(ops.stack([text]))[0]
        if rank > 1:
            return bytes_split(RaggedTensor.from_tensor(text))
        indices, values, shape = call(
            "StringSplit", None, input=text, delimiter="", skip_empty=False
        )
        return RaggedTensor.from_value_rowids(values, indices[:, 0], shape[0], validate=False)


def unicode_encode(
    input: DenseOrRagged,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    name: str | None = None,
) -> DenseOrRagged:
    """Return the string of the code points along the last axis.

    input: int32 [..., length], where lengths may differ. Raises ValueError for a scalar and for a
    rank that is not known.
    """
    with name_scope(name, "UnicodeEncode", [input]):
        options = (output_encoding, errors, replacement_char)
        points = dense_or_ragged(input)
        rank = points.shape.rank
        if rank is None:
            raise ValueError("Rank of input_tensor must be statically known.")
        if isinstance(points, RaggedTensor):
            if (points.flat_values.shape.rank or 0) > 1:
                return points.with_flat_values(unicode_encode(points.flat_values, *options))
            if points.ragged_rank > 1:
                return points.with_values(unicode_encode(points.values, *options))
            return tensor(
                "UnicodeEncode",
                None,
                input_values=points.values,
                input_splits=points.row_splits,
                output_encoding=output_encoding,
                errors=errors,
                replacement_char=replacement_char,
            )
        if rank == 0:
            raise ValueError("input_tensor's rank must be at least 1.")
        if rank == 2:
            return unicode_encode(RaggedTensor.from_tensor(points), *options)
        if rank > 2:
            sizes = ops.shape(points)
            flat = unicode_encode(ops.reshape(points, ops.stack([-1, sizes[-1]])), *options)
            return ops.reshape(flat, sizes[:-1])
        splits = ops.stack([0, ops.shape(points, out_type=int32)[0]])
        row = RaggedTensor.from_row_splits(points, splits, validate=False)
        return ops.reshape(unicode_encode(row, *options), [])


def unicode_decode(
    input: DenseOrRagged,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> DenseOrRagged:
    """Return the code points of each string in a new axis: int32."""
    with name_scope(name, "UnicodeDecode", [input]):
        options = (errors, replacement_char, replace_control_characters)
        return _decoded(input, input_encoding, options, offsets=False)[0]


def unicode_decode_with_offsets(
    input: DenseOrRagged,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> tuple[DenseOrRagged, DenseOrRagged]:
    """Return the code points of each string, and their first bytes.

    int32 and int64, each in a new ragged axis.
    """
    with name_scope(name, "UnicodeDecodeWithOffsets", [input]):
        options = (errors, replacement_char, replace_control_characters)
        points, offsets = _decoded(input, input_encoding, options, offsets=True)
        return points, offsets


def unicode_split(
    input: DenseOrRagged,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    name: str | None = None,
) -> DenseOrRagged:
    """Return the characters of each string in a new axis: strings."""
    with name_scope(name, "UnicodeSplit", [input]):
        options = (errors, replacement_char, False)
        (points,) = _decoded(input, input_encoding, options, offsets=False)
        return _characters(points, input_encoding, errors, replacement_char)


def unicode_split_with_offsets(
    input: DenseOrRagged,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    name: str | None = None,
) -> tuple[DenseOrRagged, DenseOrRagged]:
    """Return the characters of each string, and their first bytes.

    Strings and int64, each in a new ragged axis.
    """
    with name_scope(name, "UnicodeSplitWithOffsets", [input]):
        options = (errors, replacement_char, False)
        points, offsets = _decoded(input, input_encoding, options, offsets=True)
        return _characters(points, input_encoding, errors, replacement_char), offsets


def _characters(
    points: DenseOrRagged, encoding: str, errors: str, replacement_char: int
) -> DenseOrRagged:
    return unicode_encode(ops.expand_dims(points, -1), encoding, errors, replacement_char)


def _decoded(
    input: DenseOrRagged, encoding: str, options: tuple[str, int, bool], offsets: bool
) -> list[DenseOrRagged]:
    """Return code points and, with `offsets`, their first bytes.

    Raises ValueError for a rank that is not known.
    """
    text = dense_or_ragged(input, name="input")
    rank = text.shape.rank
    if rank is None:
        raise ValueError("Rank of `input` must be statically known.")
    if rank > 1:
        if not isinstance(text, RaggedTensor):
            text = RaggedTensor.from_tensor(text, ragged_rank=rank - 1)
        elif text.ragged_rank < rank - 1:
            inner = RaggedTensor.from_tensor(
                text.flat_values, ragged_rank=rank - text.ragged_rank - 1
            )
            text = text.with_flat_values(inner)
    flat: Tensor = text.flat_values if isinstance(text, RaggedTensor) else text
    made = call(
        "UnicodeDecodeWithOffsets" if offsets else "UnicodeDecode",
        None,
        input=ops.reshape(flat, [-1]),
        input_encoding=encoding,
        errors=options[0],
        replacement_char=options[1],
        replace_control_characters=options[2],
    )
    parts = [made.char_values, made.char_to_byte_starts] if offsets else [made.char_values]
    if rank == 0:
        return parts
    rows = [RaggedTensor.from_row_splits(p, made.row_splits, validate=False) for p in parts]
    return [text.with_flat_values(row) for row in rows] if rank > 1 else rows


def ngrams(
    data: DenseOrRagged,
    ngram_width: int | list[int],
    separator: str = " ",
    pad_values: str | tuple[str, str] | None = None,
    padding_width: int | None = None,
    preserve_short_sequences: bool = False,
    name: str | None = None,
) -> DenseOrRagged:
    """Return all sequences of `ngram_width` strings along the last axis, joined.

    ngram_width: one or several widths. pad_values: stands before and behind each row, padding_width
    times, by default one less than the width. preserve_short_sequences: keep rows that are shorter,
    as one sequence. Raises ValueError for widths below 1 and for a rank that is 0 or not known,
    TypeError for pad_values that are no strings.
    """
    with name_scope(name, "StringNGrams", [data]):
        left, right = _padding(pad_values)
        if padding_width is not None and padding_width < 1:
            raise ValueError("padding_width must be greater than 0.")
        if padding_width is not None and pad_values is None:
            raise ValueError("pad_values must be provided if padding_width is set.")
        options = (ngram_width, separator, pad_values, padding_width, preserve_short_sequences)
        text = dense_or_ragged(data, dtype=string, name="data")
        if not isinstance(text, RaggedTensor):
            rank = text.shape.rank
            if rank is None:
                raise ValueError("Rank of data must be known.")
            if rank == 0:
                raise ValueError("Data must have rank>0")
            if rank == 1:
                row = RaggedTensor.from_row_starts(text, [0], validate=False)
                return ngrams(row, *options, name)[0]
            made = ngrams(RaggedTensor.from_tensor(text, ragged_rank=rank - 1), *options, name)
            outer = ops.concat([ops.shape(text)[:-1], [-1]], axis=0)
            return ops.reshape(made.flat_values, outer)
        if text.ragged_rank > 1:
            return text.with_values(ngrams(text.values, *options, name))
        widths = list(ngram_width) if isinstance(ngram_width, (list, tuple)) else [ngram_width]
        if any(width < 1 for width in widths):
            raise ValueError(f"All ngram_widths must be greater than 0. Got {ngram_width}")
        width = 0 if pad_values is None else -1 if padding_width is None else padding_width
        values, splits = call(
            "StringNGrams",
            None,
            data=text.flat_values,
            data_splits=text.row_splits,
            separator=separator,
            ngram_widths=widths,
            left_pad=left,
            right_pad=right,
            pad_width=width,
            preserve_short_sequences=preserve_short_sequences,
        )
        return RaggedTensor.from_row_splits(values, splits, validate=False)


def _padding(pad_values: object) -> tuple[str | bytes, str | bytes]:
    """Return the strings before and behind each row."""
    if pad_values is None:
        return "", ""
    both = pad_values if isinstance(pad_values, (list, tuple)) else (pad_values, pad_values)
    left, right = both[0], both[1]
    if not isinstance(left, (str, bytes)) or not isinstance(right, (str, bytes)):
        raise TypeError("pad_values must be a string, tuple of strings, or None.")
    return left, right
