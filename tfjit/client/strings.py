"""`tfjit.strings`: functions of string tensors, with TensorFlow 1's names and argument names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit import ops
from tfjit.client.data.parsing import string_to_hash_bucket as to_hash_bucket
from tfjit.client.data.parsing import string_to_hash_bucket_fast as to_hash_bucket_fast
from tfjit.client.data.parsing import string_to_hash_bucket_strong as to_hash_bucket_strong
from tfjit.client.data.parsing import string_to_number as to_number
from tfjit.client.data.sparse_tensors import SparseTensor
from tfjit.client.ragged import strings as ragged_strings
from tfjit.client.ragged.handlers import handles
from tfjit.client.ragged.ragged import RaggedTensor
from tfjit.client.ragged.ragged_tensor import dense_or_ragged
from tfjit.client.ragged.unicode import (
    bytes_split,
    ngrams,
    unicode_decode,
    unicode_decode_with_offsets,
    unicode_encode,
    unicode_split,
    unicode_split_with_offsets,
)
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.core.apply import call, tensor
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.dispatch import dispatched, unary_elementwise
from tfjit.ops.core.renamed import renamed

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import AxisLike, DTypeLike, TensorLike

__all__ = [
    "as_string",
    "bytes_split",
    "format",
    "join",
    "length",
    "lower",
    "ngrams",
    "reduce_join",
    "regex_full_match",
    "regex_replace",
    "split",
    "strip",
    "substr",
    "to_hash_bucket",
    "to_hash_bucket_fast",
    "to_hash_bucket_strong",
    "to_number",
    "unicode_decode",
    "unicode_decode_with_offsets",
    "unicode_encode",
    "unicode_script",
    "unicode_split",
    "unicode_split_with_offsets",
    "unicode_transcode",
    "unsorted_segment_join",
    "upper",
]


@unary_elementwise
def as_string(
    input: TensorLike,
    precision: int = -1,
    scientific: bool = False,
    shortest: bool = False,
    width: int = -1,
    fill: str = "",
    name: str | None = None,
) -> Tensor:
    """Return each element as text, in the forms of printf."""
    return tensor(
        "AsString",
        name,
        input=input,
        precision=precision,
        scientific=scientific,
        shortest=shortest,
        width=width,
        fill=fill,
    )


@dispatched
def format(
    template: str,
    inputs: TensorLike,
    placeholder: str = "{}",
    summarize: int = 3,
    name: str | None = None,
) -> Tensor:
    """Replace each placeholder of a template by a tensor's summary."""
    values = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    return tensor(
        "StringFormat",
        name,
        inputs=list(values),
        template=template,
        placeholder=placeholder,
        summarize=summarize,
    )


@dispatched
def join(inputs: Sequence[object], separator: str = "", name: str | None = None) -> Tensor:
    """Join string tensors element by element.

    Scalars are joined with every element.
    """
    return tensor("StringJoin", name, inputs=list(inputs), separator=separator)


@dispatched
def reduce_join(
    inputs: TensorLike,
    axis: AxisLike | None = None,
    keep_dims: bool | None = None,
    separator: str = "",
    name: str | None = None,
    reduction_indices: AxisLike | None = None,
    keepdims: bool | None = None,
) -> Tensor:
    """Join the strings along axes, in their order.

    axis: one or several axes; all of them, joined in the order of elements, by default.
    reduction_indices, keep_dims: former names.
    """
    keep = renamed(keepdims, keep_dims, "keepdims", "keep_dims")
    given = renamed(axis, reduction_indices, "axis", "reduction_indices")
    with name_scope(None, "ReduceJoin", [inputs, given]):
        text = convert_to_tensor(inputs)
        if given is None:
            rank = text.shape.rank
            given = (
                ops.range(ops.rank(text) - 1, -1, -1)
                if rank is None
                else ops.constant(np.arange(rank - 1, -1, -1), dtypes.int32)
            )
        return tensor(
            "ReduceJoin",
            name,
            inputs=text,
            reduction_indices=given,
            keep_dims=bool(keep),
            separator=separator,
        )


@unary_elementwise
def length(input: TensorLike, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """Return the length of each string, int32.

    It is in bytes, or in characters of UTF-8 ("UTF8_CHAR").
    """
    return tensor("StringLength", name, input=input, unit=unit)


@unary_elementwise
def lower(input: TensorLike, encoding: str = "", name: str | None = None) -> Tensor:
    """Convert to small letters.

    Letters of ASCII, or of all Unicode where encoding is "utf-8".
    """
    return tensor("StringLower", name, input=input, encoding=encoding)


@unary_elementwise
def upper(input: TensorLike, encoding: str = "", name: str | None = None) -> Tensor:
    """Convert to capital letters.

    Letters of ASCII, or of all Unicode where encoding is "utf-8".
    """
    return tensor("StringUpper", name, input=input, encoding=encoding)


@unary_elementwise
def strip(input: TensorLike, name: str | None = None) -> Tensor:
    """Remove white space at both ends."""
    return tensor("StringStrip", name, input=input)


@unary_elementwise
def regex_full_match(input: TensorLike, pattern: TensorLike, name: str | None = None) -> Tensor:
    """Return whether the pattern matches each whole string."""
    if isinstance(pattern, (str, bytes)):
        return tensor("StaticRegexFullMatch", name, input=input, pattern=pattern)
    return tensor("RegexFullMatch", name, input=input, pattern=pattern)


@unary_elementwise
def regex_replace(
    input: TensorLike,
    pattern: TensorLike,
    rewrite: object,
    replace_global: bool = True,
    name: str | None = None,
) -> Tensor:
    """Replace the matches of a pattern by `rewrite`.

    In `rewrite`, \\1 to \\9 mean groups. Without replace_global only the first match is replaced.
    """
    if isinstance(pattern, (str, bytes)) and isinstance(rewrite, (str, bytes)):
        return tensor(
            "StaticRegexReplace",
            name,
            input=input,
            pattern=pattern,
            rewrite=rewrite,
            replace_global=replace_global,
        )
    return tensor(
        "RegexReplace",
        name,
        input=input,
        pattern=pattern,
        rewrite=rewrite,
        replace_global=replace_global,
    )


@unary_elementwise
def substr(
    input: TensorLike, pos: TensorLike, len: TensorLike, name: str | None = None, unit: str = "BYTE"
) -> Tensor:
    """Return `len` bytes from `pos` on, or characters.

    unit: "BYTE" or "UTF8_CHAR". A negative place counts from the end.
    """
    start = convert_to_tensor(pos)
    return tensor(
        "Substr",
        name,
        input=input,
        pos=start,
        len=convert_to_tensor(len, dtype=start.dtype.base_dtype),
        unit=unit,
    )


def string_split(
    source: Any = None,
    sep: TensorLike | None = None,
    skip_empty: bool = True,
    delimiter: TensorLike | None = None,
    result_type: str = "SparseTensor",
    name: str | None = None,
) -> SparseTensor | RaggedTensor:
    """Split each string of a vector at any of the separator's bytes.

    The separator is a space where none is given. The result is a sparse matrix, or ragged with
    result_type "RaggedTensor". Raises ValueError for another result_type.
    """
    _check_result_type(result_type)
    if result_type == "RaggedTensor":
        return ragged_strings.split_at_bytes(
            source, renamed(sep, delimiter, "sep", "delimiter"), skip_empty, name
        )
    given = sep if sep is not None else delimiter if delimiter is not None else " "
    text = convert_to_tensor(source, dtype=dtypes.string)
    cut = convert_to_tensor(given, dtype=dtypes.string)
    return SparseTensor(
        *call("StringSplit", name, input=text, delimiter=cut, skip_empty=skip_empty)
    )


def split(
    input: TensorLike | None = None,
    sep: TensorLike | None = None,
    maxsplit: int = -1,
    result_type: str = "SparseTensor",
    source: Any = None,
    name: str | None = None,
) -> SparseTensor | RaggedTensor:
    """Split each string at separators.

    It is split at white space where no separator is given. The pieces are in a new axis: of a
    sparse tensor, or of a ragged one with result_type "RaggedTensor". Raises ValueError for another
    result_type.
    """
    _check_result_type(result_type)
    given = input if input is not None else source
    text = dense_or_ragged(given, dtype=dtypes.string, name="input")
    if text.shape.rank == 0:
        text = ops.expand_dims(text, 0)
    if result_type == "RaggedTensor":
        return ragged_strings.split(text, sep, maxsplit, name)
    if text.shape.rank != 1:
        return ragged_strings.split(text, sep, maxsplit, name).to_sparse()
    cut = convert_to_tensor("" if sep is None else sep, dtype=dtypes.string)
    return SparseTensor(*call("StringSplitV2", name, input=text, sep=cut, maxsplit=maxsplit))


def _check_result_type(result_type: object) -> None:
    if result_type not in ("SparseTensor", "RaggedTensor"):
        raise ValueError("result_type must be 'RaggedTensor' or 'SparseTensor'.")


@unary_elementwise
def unicode_transcode(
    input: TensorLike,
    input_encoding: str,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> Tensor:
    """Convert strings to another encoding: UTF-8, UTF-16-BE or UTF-32-BE."""
    return tensor(
        "UnicodeTranscode",
        name,
        input=input,
        input_encoding=input_encoding,
        output_encoding=output_encoding,
        errors=errors,
        replacement_char=replacement_char,
        replace_control_characters=replace_control_characters,
    )


@unary_elementwise
def unicode_script(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the number of each code point's script."""
    return tensor("UnicodeScript", name, input=input)


def unsorted_segment_join(
    inputs: TensorLike,
    segment_ids: TensorLike,
    num_segments: TensorLike,
    separator: str = "",
    name: str | None = None,
) -> Tensor:
    """Return the strings of each segment in one."""
    return tensor(
        "UnsortedSegmentJoin",
        name,
        inputs=inputs,
        segment_ids=segment_ids,
        num_segments=num_segments,
        separator=separator,
    )


@unary_elementwise
def encode_base64(input: TensorLike, pad: bool = False, name: str | None = None) -> Tensor:
    """Encode strings in the Base64 that is safe in URLs."""
    return tensor("EncodeBase64", name, input=input, pad=pad)


@unary_elementwise
def decode_base64(input: TensorLike, name: str | None = None) -> Tensor:
    """Decode strings of Base64.

    Its run raises InvalidArgumentError for other strings.
    """
    return tensor("DecodeBase64", name, input=input)


def serialize_tensor(tensor: TensorLike, name: str | None = None) -> Tensor:
    """Return a tensor as a serialized TensorProto."""
    return call("SerializeTensor", name, tensor=tensor)


def parse_tensor(serialized: TensorLike, out_type: DTypeLike, name: str | None = None) -> Tensor:
    """Return the tensor of a serialized TensorProto.

    Its run raises InvalidArgumentError for another dtype.
    """
    return tensor("ParseTensor", name, serialized=serialized, out_type=dtypes.as_dtype(out_type))


def decode_compressed(
    bytes: TensorLike, compression_type: str = "", name: str | None = None
) -> Tensor:
    """Unpack strings that ZLIB or GZIP packed."""
    return tensor("DecodeCompressed", name, bytes=bytes, compression_type=compression_type)


handles(format)(ragged_strings.format)
handles(join)(ragged_strings.join)
handles(reduce_join)(ragged_strings.reduce_join)
