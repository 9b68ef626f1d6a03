"""Runtime kernels of files: checkpoints of version 2, whole files, file names.

They see the session's files (`ctx.session.env.files`), and run on its pool for work on files, so
that no inter-op thread waits for a disk.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from tfjit.framework import errors
from tfjit.framework.files import crc32c
from tfjit.framework.files.bundle import BundleReader, BundleWriter, merge_bundles
from tfjit.framework.files.saved_slices import SlicesReader
from tfjit.framework.files.slices import parse_slice_spec
from tfjit.framework.types.dtypes import DType, as_dtype, short_name
from tfjit.framework.types.shape import format_shape
from tfjit.kernels.executor.crc32c import crc32c_function
from tfjit.runtime.host.completion import Done
from tfjit.runtime.kernel_api.kernel_errors import kernel_error
from tfjit.runtime.kernel_api.op_kernel import AsyncKernel, OpContext, SyncKernel, blocking_kernel
from tfjit.runtime.resources.variables_and_resources import Variable

# A thread reads these in a millisecond; below that, threads wait for each other's interpreter.
_BYTES_FOR_THREADS: Final = 4 << 20

crc32c.use(crc32c_function)


def file_kernel(*op_types: str) -> Callable[[SyncKernel], SyncKernel]:
    """Register a kernel that runs on the session's file pool."""

    def register(compute: SyncKernel) -> SyncKernel:
        @functools.wraps(compute)
        def start(ctx: OpContext, inputs: Sequence[Any], done: Done) -> None:
            def job() -> None:
                result: Sequence[Any] | BaseException
                try:
                    result = compute(ctx, inputs)
                except Exception as error:
                    result = kernel_error(error, ctx.op, ctx.name, inputs)
                done(result)

            ctx.session.io.schedule(job)

        kernel: AsyncKernel = start
        blocking_kernel(*op_types)(kernel)
        return compute

    return register


def texts(value: Any) -> list[str]:
    """Return the elements of a string tensor."""
    return [
        item.decode(errors="surrogateescape") if isinstance(item, bytes) else str(item)
        for item in np.asarray(value, object).reshape(-1)
    ]


def path_of(value: Any, what: str) -> str:
    """Return a scalar file name. Raises InvalidArgumentError for another shape."""
    names = texts(value)
    if np.shape(value) != ():
        raise errors.InvalidArgumentError(
            None, None, f"{what} must be a scalar string, but it has shape {list(np.shape(value))}"
        )
    return names[0].removeprefix("file://")


@contextlib.contextmanager
def system_errors(path: str) -> Any:
    """Raise the operating system's errors about a path as TensorFlow's classes."""
    try:
        yield
    except FileNotFoundError as error:
        raise errors.NotFoundError(
            None, None, f"{error.filename or path}; No such file or directory"
        ) from None
    except PermissionError as error:
        raise errors.PermissionDeniedError(
            None, None, f"{error.filename or path}; Permission denied"
        ) from None
    except OSError as error:
        raise errors.FailedPreconditionError(
            None, None, f"{error.filename or path}; {error.strerror}"
        ) from None


def _names_and_specs(inputs: Sequence[Any], count: int | None) -> list[tuple[str, str]]:
    names, specs = texts(inputs[0]), texts(inputs[1])
    for what, value, given in (
        ("tensor_names", inputs[0], names),
        ("shape_and_slices", inputs[1], specs),
    ):
        if np.ndim(value) != 1 or (count is not None and len(given) != count):
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Input {what} should be a 1-D tensor of {count} elements, but it has shape "
                f"{list(np.shape(value))}",
            )
    return list(zip(names, specs, strict=True))


@file_kernel("SaveV2")
def save(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Write tensors, or slices of tensors, as one bundle.

    An older bundle under the prefix is replaced when all is written.
    """
    prefix = path_of(inputs[0], "prefix")
    values = [
        v.initialized_value() if isinstance(v, Variable) else np.asarray(v) for v in inputs[3:]
    ]
    with system_errors(prefix), BundleWriter(prefix, ctx.session.env.files) as writer:
        for (name, spec), value in zip(
            _names_and_specs(inputs[1:3], len(values)), values, strict=True
        ):
            if spec:
                writer.add_slice(name, *parse_slice_spec(spec), value)
            else:
                writer.add(name, value)
        writer.finish()
    return ()


@file_kernel("RestoreV2")
def restore(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Read tensors, or slices of tensors, of a checkpoint.

    It is a bundle, or files of version 1. Raises NotFoundError for a missing one, DataLossError for
    a damaged one.
    """
    prefix = path_of(inputs[0], "prefix")
    wanted = _names_and_specs(inputs[1:3], len(ctx.attrs["dtypes"]))
    with system_errors(prefix):
        try:
            reader = BundleReader(prefix, ctx.session.env.files)
        except errors.NotFoundError:
            older = SlicesReader(prefix, ctx.session.env.files)
            return [
                saved_tensor(older, prefix, name, spec, dtype)
                for (name, spec), dtype in zip(wanted, ctx.attrs["dtypes"], strict=True)
            ]

        def read(index: int) -> np.ndarray:
            (name, spec), dtype = wanted[index], ctx.attrs["dtypes"][index]
            stored, _ = reader.dtype_and_shape(name)
            if stored != as_dtype(dtype):
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"tensor_name = {name}; expected dtype {short_name(dtype)} does not equal "
                    f"original dtype {short_name(stored)}",
                )
            return reader.read_slice(name, *parse_slice_spec(spec)) if spec else reader.read(name)

        with reader.reads:
            if reader.data_bytes < _BYTES_FOR_THREADS:
                found = (
                    reader.read_small([name for name, _ in wanted], ctx.attrs["dtypes"])
                    if not any(spec for _, spec in wanted)
                    else [None] * len(wanted)
                )
                return [read(i) if value is None else value for i, value in enumerate(found)]
            return ctx.session.io.map(read, range(len(wanted)))


def saved_tensor(
    reader: SlicesReader, pattern: str, name: str, spec: str, dtype: DType
) -> np.ndarray:
    """Return a tensor of a checkpoint of version 1.

    spec: shape and slice, or empty for the whole tensor. Raises NotFoundError for an unknown name,
    InvalidArgumentError for another dtype or shape.
    """
    try:
        stored, shape = reader.dtype_and_shape(name)
    except KeyError:
        raise errors.NotFoundError(
            None, None, f'Tensor name "{name}" not found in checkpoint files {pattern}'
        ) from None
    if stored != dtype:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"Expected to restore a tensor of type {short_name(dtype)}, got a tensor of type "
            f"{short_name(stored)} instead: tensor_name = {name}",
        )
    if not spec:
        return reader.read(name)
    expected, extents = parse_slice_spec(spec)
    if expected != shape:
        raise errors.InvalidArgumentError(
            None,
            None,
            "Shape in shape_and_slice spec does not match the shape in the save file: "
            f"{format_shape(expected)}, save file shape: {format_shape(shape)}",
        )
    return reader.read(name, extents)


@file_kernel("MergeV2Checkpoints")
def merge(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Make one checkpoint of several; with delete_old_dirs the emptied folders go."""
    prefixes = [name.removeprefix("file://") for name in texts(inputs[0])]
    destination = path_of(inputs[1], "destination_prefix")
    files = ctx.session.env.files
    with system_errors(destination):
        merge_bundles(
            prefixes,
            destination,
            ctx.attrs.get("allow_missing_files", False),
            files,
            ctx.session.io.map,
        )
        if ctx.attrs.get("delete_old_dirs", True):
            for folder in {str(Path(prefix).parent) for prefix in prefixes} - {
                str(Path(destination).parent)
            }:
                with contextlib.suppress(OSError):  # not empty: other files are not ours to delete
                    files.remove_folder(folder)
    return ()


@file_kernel("ReadFile")
def read_file(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return a file's bytes."""
    path = path_of(inputs[0], "filename")
    with system_errors(path):
        return (np.array(ctx.session.env.files.read(path), object),)


@file_kernel("WriteFile")
def write_file(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Write a string to a file, making a missing folder."""
    path = path_of(inputs[0], "filename")
    contents = np.asarray(inputs[1], object)
    if contents.shape != ():
        raise errors.InvalidArgumentError(
            None, None, f"Contents tensor must be scalar, but it has shape {list(contents.shape)}"
        )
    with system_errors(path):
        ctx.session.env.files.make_folders(str(Path(path).parent))
        ctx.session.env.files.write(path, contents.item())
    return ()


@file_kernel("MatchingFiles")
def matching_files(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the files that the patterns match, sorted.

    A file that two patterns match is there twice.
    """
    found = sorted(
        path
        for pattern in texts(inputs[0])
        for path in ctx.session.env.files.glob(pattern.removeprefix("file://"))
    )
    values = np.empty(len(found), object)
    values[:] = [os.fsencode(path) for path in found]
    return (values,)
