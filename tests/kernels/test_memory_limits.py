"""Results whose size comes from a value: what no memory holds is refused, with TensorFlow's class
of error, before it is made.
"""

from typing import Any

import numpy as np
import pytest

import tfjit

HUGE, ONE = np.int64(1 << 45), np.float32(1)
CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "fill": ("Fill", {"dims": [HUGE], "value": ONE}, "ResourceExhaustedError"),
    "fill past all numbers": ("Fill", {"dims": [HUGE, HUGE], "value": ONE}, "InvalidArgumentError"),
    "range": (
        "Range",
        {"start": np.int64(0), "limit": HUGE, "delta": np.int64(1)},
        "ResourceExhaustedError",
    ),
    "range past all numbers": (
        "Range",
        {"start": ONE, "limit": np.float32(1e30), "delta": ONE},
        "InvalidArgumentError",
    ),
    "lin_space": ("LinSpace", {"start": ONE, "stop": ONE, "num": HUGE}, "ResourceExhaustedError"),
    "tile": ("Tile", {"input": [ONE], "multiples": [HUGE]}, "ResourceExhaustedError"),
    "tile past all numbers": (
        "Tile",
        {"input": [[ONE]], "multiples": [HUGE, HUGE]},
        "InvalidArgumentError",
    ),
    "scatter_nd": (
        "ScatterNd",
        {"indices": np.zeros((1, 1), np.int64), "updates": [ONE], "shape": [HUGE]},
        "ResourceExhaustedError",
    ),
    "segments": (
        "UnsortedSegmentSum",
        {"data": [ONE], "segment_ids": np.zeros(1, np.int64), "num_segments": HUGE},
        "ResourceExhaustedError",
    ),
    "sparse_to_dense": (
        "SparseToDense",
        {
            "sparse_indices": np.zeros(1, np.int64),
            "output_shape": [HUGE],
            "sparse_values": [ONE],
            "default_value": ONE,
        },
        "ResourceExhaustedError",
    ),
    "bincount": (
        "DenseBincount",
        {"input": np.ones(2, np.int64), "size": HUGE, "weights": np.zeros(0)},
        "ResourceExhaustedError",
    ),
    "random": (
        "RandomUniform",
        {"shape": [HUGE], "dtype": tfjit.float32},
        "ResourceExhaustedError",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_refused_as_in_tensorflow(name: str) -> None:
    """The classes are those of TensorFlow 2.21."""
    op, arguments, kind = CASES[name]
    with tfjit.Graph().as_default():
        values = {
            key: np.asarray(v) for key, v in arguments.items() if not isinstance(v, tfjit.DType)
        }
        inputs = {
            key: tfjit.placeholder(tfjit.as_dtype(v.dtype), v.shape) for key, v in values.items()
        }
        others = {key: v for key, v in arguments.items() if key not in values}
        fetch = getattr(tfjit.raw_ops, op)(**inputs, **others)
        with tfjit.Session() as session, pytest.raises(getattr(tfjit.errors, kind)):
            session.run(fetch, {inputs[key]: v for key, v in values.items()})
