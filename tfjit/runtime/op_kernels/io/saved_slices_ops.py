"""Runtime kernels of checkpoints of version 1."""

from __future__ import annotations

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.files.saved_slices import SlicesReader, SlicesWriter
from tfjit.framework.files.slices import FULL, extent_shape, parse_slice_spec
from tfjit.framework.types.shape import format_shape
from tfjit.runtime.host.completion import Values
from tfjit.runtime.kernel_api.op_kernel import OpContext
from tfjit.runtime.op_kernels.io.io_ops import file_kernel, saved_tensor, system_errors, texts
from tfjit.runtime.resources.variables_and_resources import Variable


def _path(value: object, what: str) -> str:
    paths = texts(value)
    if len(paths) != 1:
        space = " " if what == "file_pattern" else ""  # as TensorFlow has it
        raise InvalidArgumentError(
            None,
            None,
            f"Input 0 ({what}) must be a string scalar; got a tensor of "
            f"{len(paths)}{space}elements",
        )
    return paths[0].removeprefix("file://")


@file_kernel("Save", "SaveSlices")
def save(ctx: OpContext, inputs: Values) -> Values:
    """Write tensors, or slices of tensors, as one file.

    The file replaces an older one.
    """
    path, names = _path(inputs[0], "filename"), texts(inputs[1])
    first = 2 if ctx.op == "Save" else 3
    specs = [""] * len(names) if ctx.op == "Save" else texts(inputs[2])
    if len(specs) != len(names):
        raise InvalidArgumentError(
            None,
            None,
            f"Expected {len(names)} elements for the tensor shapes and slices but got {len(specs)}",
        )
    if len(inputs) != len(names) + first:
        raise InvalidArgumentError(
            None,
            None,
            f"Expected totally {len(names) + first} inputs as input #1 (which is a string tensor "
            f"of saved names) contains {len(names)} names, but received {len(inputs)} inputs",
        )
    values = [
        v.initialized_value() if isinstance(v, Variable) else np.asarray(v) for v in inputs[first:]
    ]
    with system_errors(path):
        writer = SlicesWriter(path, ctx.session.env.files)
        for name, spec, value in sorted(
            zip(names, specs, values, strict=True), key=lambda item: item[0].encode()
        ):
            shape, extents = value.shape, tuple((0, FULL) for _ in value.shape)
            if spec:
                shape, extents = parse_slice_spec(spec)
                if extent_shape(shape, extents) != value.shape:
                    raise InvalidArgumentError(
                        None,
                        None,
                        "Slice in shape_and_slice specification does not match the shape of the "
                        f"tensor to  save: {spec}, tensor: {format_shape(value.shape)}",
                    )
            writer.add(name, shape, extents, value)
        writer.finish()
    return ()


@file_kernel("Restore", "RestoreSlice")
def restore(ctx: OpContext, inputs: Values) -> Values:
    """Read a tensor or a slice from the files of a pattern.

    All files are opened; `preferred_shard` would only change the order.
    """
    pattern, names = _path(inputs[0], "file_pattern"), texts(inputs[1])
    if not names:
        raise InvalidArgumentError(
            None, None, "Input 1 (file_pattern) must be a have at least 1 elements"
        )
    specs = texts(inputs[2]) if ctx.op == "RestoreSlice" else [""]
    if not specs:
        raise InvalidArgumentError(
            None, None, "Input 2 (shape_and_slice) must have at least 1 elements"
        )
    with system_errors(pattern):
        reader = SlicesReader(pattern, ctx.session.env.files)
        return (saved_tensor(reader, pattern, names[0], specs[0], ctx.attrs["dt"]),)
