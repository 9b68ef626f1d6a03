"""Run single ops with arrays, in either library."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def answers(tf: Any, cases: Iterable[tuple[str, dict[str, Any]]]) -> list[Any]:
    """The outputs of each op with its arguments, as lists; the text of an error of the run."""
    found: list[Any] = []
    for op, arguments in cases:
        with tf.Graph().as_default(), tf.Session() as session:
            made = getattr(tf.raw_ops, op)(**{k: tensors(tf, v) for k, v in arguments.items()})
            outputs: list[Any] = []
            for part in made if isinstance(made, (list, tuple)) else [made]:
                outputs += part if isinstance(part, list) else [part]
            shapes = [str(output.shape) for output in outputs]
            try:
                arrays = session.run(outputs)
                found.append([[a.dtype.str, np_list(a), s] for a, s in zip(arrays, shapes)])
            except tf.errors.InvalidArgumentError as error:
                found.append(text_of(error.message))
    return found


def tensors(tf: Any, value: Any) -> Any:
    """Make constants of arrays, which have dtypes of their own."""
    if isinstance(value, list):
        return [tensors(tf, part) for part in value]
    return tf.constant(value) if isinstance(value, np.ndarray) else value


def np_list(array: Any) -> Any:
    return [array.shape, array.tolist()]


def text_of(message: str) -> str:
    """The kernel's own words, without the place where the node was made."""
    lines = message.split("\n")
    ends = [k for k, line in enumerate(lines) if "[[{{node" in line]
    return lines[ends[0] - 1] if ends and ends[0] else lines[0]
