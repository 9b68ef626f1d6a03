"""Run the compiled form of a node of output sizes that depend on values, as the reference does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.kernels.launching import run_native, tensor
from tfjit.kernels.registry import (
    BoundedCall,
    NativeCall,
    NodeSpec,
    find_bounded,
    find_reference,
)


def bounded_call(
    op: str, inputs: Sequence[np.ndarray], known: Sequence[int] = (), **attrs: object
) -> tuple[NodeSpec, BoundedCall]:
    spec = NodeSpec("n", op, attrs, tuple(map(tensor, inputs)), (), {k: inputs[k] for k in known})
    builder = find_bounded(op)
    assert builder is not None
    return spec, builder(spec)


def check_bounded(
    op: str, *inputs: np.ndarray, known: Sequence[int] = (), **attrs: object
) -> list[np.ndarray]:
    """Run the node compiled; compare the rows in use with the reference."""
    spec, call = bounded_call(op, inputs, known, **attrs)
    reference = find_reference(op)
    assert reference is not None
    wanted = [np.asarray(value) for value in reference(spec, inputs)]
    native = NativeCall((call.launch,), temp_bytes=call.temp_bytes)
    details: list[int] = []
    found = run_native(native, inputs, call.outputs, details=details)
    assert details[0] >= 0
    for k, (compiled, want) in enumerate(zip(found, wanted, strict=True)):
        assert compiled.dtype == want.dtype
        cut = compiled[: len(want)] if k in call.counted else compiled
        np.testing.assert_array_equal(cut, want)
    return wanted


def is_left_to_the_reference(op: str, *inputs: np.ndarray, **attrs: object) -> bool:
    """Return whether the compiled node refuses the values of its inputs."""
    _, call = bounded_call(op, inputs, **attrs)
    details: list[int] = []
    native = NativeCall((call.launch,), temp_bytes=call.temp_bytes)
    run_native(native, inputs, call.outputs, details=details)
    return details == [-1]
