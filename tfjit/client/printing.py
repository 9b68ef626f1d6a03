"""`tf.print`: values that are printed when a node runs."""

from __future__ import annotations

import os
import pprint
import sys
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from tfjit.client import logging
from tfjit.client.data.sparse_tensors import SparseTensor
from tfjit.client.modes import is_tensor
from tfjit.client.strings import format as string_format
from tfjit.framework.graphs.operation import Operation
from tfjit.framework.types import dtypes, nest
from tfjit.ops.core.apply import create

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure

_LEVELS: Final = {
    "log(info)": (logging.INFO, logging.info),
    "log(warning)": (logging.WARN, logging.warning),
    "log(error)": (logging.ERROR, logging.error),
}


def print(*inputs: Structure, **kwargs: Structure) -> Operation:
    """Return an operation that prints values in one line, tensors among them.

    inputs: tensors, sparse tensors, Python values and structures of them. kwargs: output_stream
    (sys.stderr, sys.stdout, a level or function of tf.logging, or "file://PATH"), name, summarize
    (3: the number of first and last elements of each axis, -1 for all), sep (" ") and end (the end
    of the line). Raises ValueError for another stream or keyword.
    """
    stream = kwargs.pop("output_stream", sys.stderr)
    name = kwargs.pop("name", None)
    summarize = kwargs.pop("summarize", 3)
    sep, end = kwargs.pop("sep", " "), kwargs.pop("end", os.linesep)
    if kwargs:
        raise ValueError(f"Unrecognized keyword arguments for tf.print: {kwargs}")
    target = _target(stream)
    alone: Structure = inputs[0] if len(inputs) == 1 else None
    if is_tensor(alone) and alone.shape.rank == 0 and alone.dtype.base_dtype is dtypes.string:
        text = alone
    else:
        template, placeholder, tensors = _template(inputs, sep)
        text = string_format(
            inputs=tensors,
            template=template,
            placeholder=placeholder,
            summarize=summarize,
            name=f"{name}_format" if name else None,
        )
    return create("PrintV2", name, input=text, output_stream=target, end=end)


def _target(stream: object) -> str:
    """Return the name of a stream as PrintV2 has it."""
    if isinstance(stream, str) and stream.startswith("file://"):
        return stream
    if stream is sys.stdout or stream is sys.stderr:
        return "stdout" if stream is sys.stdout else "stderr"
    for found, levels in _LEVELS.items():
        if stream in levels:
            return found
    raise ValueError(
        f"Unsupported output stream, logging level, or file.{stream}. Supported streams are "
        "sys.stdout, sys.stderr, tf.logging.info, tf.logging.warning, tf.logging.error. File "
        "needs to be in the form of 'file://<filepath>'."
    )


def _template(inputs: tuple[Structure, ...], sep: str) -> tuple[str, str, list[Structure]]:
    """Return the text with placeholders for tensors, the placeholder, and the tensors."""
    ordered = [OrderedDict(sorted(x.items())) if isinstance(x, OrderedDict) else x for x in inputs]
    constant = nest.map_structure(
        lambda x: "" if is_tensor(x) or isinstance(x, SparseTensor) else x, ordered
    )
    placeholder = _placeholder(" ".join(map(pprint.pformat, constant)))
    tensors: list[Structure] = []
    templates = []
    for value in inputs:
        if isinstance(value, str):
            templates.append(value)
            continue
        leaves = []
        for leaf in nest.flatten(value):
            if isinstance(leaf, SparseTensor):
                tensors += [leaf.indices, leaf.values, leaf.dense_shape]
                indices = values = shape = placeholder
                leaves.append(f"SparseTensor(indices={indices}, values={values}, shape={shape})")
            elif is_tensor(leaf):
                tensors.append(leaf)
                leaves.append(placeholder)
            else:
                leaves.append(leaf)
        templates.append(pprint.pformat(nest.pack_sequence_as(value, leaves)))
    template = sep.join(templates).replace(f"'{placeholder}'", placeholder)
    return template, placeholder, tensors


def _placeholder(text: str) -> str:
    """Return a placeholder that the text has not."""
    import random

    found, digits = "{}", random.Random(5)  # the digits of TensorFlow's
    while found in text:
        found += str(digits.randint(0, 9))
    return found
