"""Compute names of checkpoint files in NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfjit.kernels.cpu.reference.records.string import scalar_string
from tfjit.kernels.registry import NodeSpec, reference

Arrays = Sequence[np.ndarray]


@reference("ShardedFilename")
def _sharded_filename(node: NodeSpec, inputs: Arrays) -> Arrays:
    base = scalar_string(inputs[0], "basename")
    return (np.array(b"%s-%05d-of-%05d" % (base, int(inputs[1]), int(inputs[2])), object),)


@reference("ShardedFilespec")
def _sharded_filespec(node: NodeSpec, inputs: Arrays) -> Arrays:
    return (
        np.array(
            b"%s-?????-of-%05d" % (scalar_string(inputs[0], "basename"), int(inputs[1])), object
        ),
    )
