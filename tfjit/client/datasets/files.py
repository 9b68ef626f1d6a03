"""Datasets of files: lines, records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.client.datasets.dataset import Dataset
from tfjit.client.datasets.dataset_base import DatasetBase, counted
from tfjit.framework.graphs.tensor_spec import TensorSpec
from tfjit.framework.types import dtypes as dt
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure, TensorLike

_BUFFER = 256 * 1024  # bytes
_SCALAR = TensorSpec((), dt.string)


class _FilesDataset(Dataset):
    """Strings of files, one file behind the other.

    op_type: the node that reads files. filenames: a string tensor, or a dataset of such.
    num_parallel_reads: files that are read at the same time, in turns.
    """

    def __init__(
        self,
        op_type: str,
        filenames: TensorLike,
        compression_type: TensorLike | None,
        buffer_size: TensorLike | None,
        num_parallel_reads: TensorLike | None,
        name: str | None,
        **arguments: object,
    ) -> None:
        compression = convert_to_tensor(
            "" if compression_type is None else compression_type, dt.string, "compression_type"
        )
        size = counted(_BUFFER if buffer_size is None else buffer_size, "buffer_size")

        def contents(files: TensorLike) -> Dataset:
            return Dataset(
                tensor(
                    op_type,
                    name,
                    filenames=files,
                    compression_type=compression,
                    buffer_size=size,
                    **arguments,
                ),
                _SCALAR,
            )

        names: Structure = filenames
        if not isinstance(filenames, DatasetBase):
            files = convert_to_tensor(filenames, dtype=dt.string, name="filenames")
            if num_parallel_reads is None:
                super().__init__(contents(files)._variant_tensor, _SCALAR)
                return
            flat = tensor("Reshape", None, tensor=files, shape=[-1])
            names = Dataset.from_tensor_slices(flat)
        elif filenames.element_spec.dtype is not dt.string:
            raise TypeError(
                "The `filenames` argument must contain `tf.string` elements. Got "
                f"`{filenames.element_spec.dtype!r}` elements."
            )
        if num_parallel_reads is None:
            made = names.flat_map(contents)
        else:
            made = names.interleave(
                contents, num_parallel_reads, num_parallel_calls=num_parallel_reads
            )
        super().__init__(made._variant_tensor, _SCALAR)


class TextLineDataset(_FilesDataset):
    """The lines of text files, without their ends.

    compression_type: "", "ZLIB" or "GZIP". buffer_size: in bytes.
    """

    def __init__(
        self,
        filenames: TensorLike,
        compression_type: TensorLike | None = None,
        buffer_size: TensorLike | None = None,
        num_parallel_reads: TensorLike | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            "TextLineDataset", filenames, compression_type, buffer_size, num_parallel_reads, name
        )


class TFRecordDataset(_FilesDataset):
    """The records of TFRecord files.

    compression_type: "", "ZLIB" or "GZIP". buffer_size: in bytes.
    """

    def __init__(
        self,
        filenames: TensorLike,
        compression_type: TensorLike | None = None,
        buffer_size: TensorLike | None = None,
        num_parallel_reads: TensorLike | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            "TFRecordDataset", filenames, compression_type, buffer_size, num_parallel_reads, name
        )


class FixedLengthRecordDataset(_FilesDataset):
    """The records of `record_bytes` bytes of binary files.

    header_bytes, footer_bytes: left out at the ends of each file.
    """

    def __init__(
        self,
        filenames: TensorLike,
        record_bytes: TensorLike,
        header_bytes: TensorLike | None = None,
        footer_bytes: TensorLike | None = None,
        buffer_size: TensorLike | None = None,
        compression_type: TensorLike | None = None,
        num_parallel_reads: TensorLike | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            "FixedLengthRecordDatasetV2",
            filenames,
            compression_type,
            buffer_size,
            num_parallel_reads,
            name,
            header_bytes=counted(header_bytes or 0, "header_bytes"),
            record_bytes=counted(record_bytes, "record_bytes"),
            footer_bytes=counted(footer_bytes or 0, "footer_bytes"),
        )


__all__ = ["FixedLengthRecordDataset", "TFRecordDataset", "TextLineDataset"]
