"""Run a node's CUDA launches by simulated threads, and compare with the host's reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests.kernels.cuda.harness import run_call
from tests.kernels.launching import tensor
from tfjit.kernels.cuda.template.registry import find_builder
from tfjit.kernels.registry import NativeCall, NodeSpec, TensorSpec, find_reference


def call_of(
    op: str, inputs: Sequence[np.ndarray], outputs: Sequence[TensorSpec], **attrs: Any
) -> NativeCall:
    """Return the builder's call; all inputs are known while planning."""
    builder = find_builder(op)
    assert builder is not None
    specs = tuple(tensor(a) for a in inputs)
    return builder(NodeSpec("n", op, attrs, specs, tuple(outputs), dict(enumerate(inputs))))


def check(
    op: str, *inputs: np.ndarray, near: float = 0, reference: Sequence[np.ndarray] | None = None,
    **attrs: Any,
) -> NativeCall:  # fmt: skip
    """Compare outputs and written inputs with the reference's.

    near: the tolerance; results are equal bit for bit without one. reference: inputs for the
    reference in place of `inputs`, for what it refuses.
    """
    kernel = find_reference(op)
    assert kernel is not None
    given = [np.array(a) for a in (inputs if reference is None else reference)]
    specs = tuple(tensor(a) for a in given)
    made = kernel(NodeSpec("n", op, attrs, specs, (), dict(enumerate(given))), given)
    # a reference output is the variable, and no buffer of its own
    wanted = [np.asarray(a) for a in made if not any(a is b for b in given)]
    call = call_of(op, inputs, [tensor(a) for a in wanted], **attrs)
    found, after = run_call(call, inputs, [tensor(a) for a in wanted])
    for result, want in zip(found, wanted, strict=True):
        assert result.dtype == want.dtype
        _compare(result, want, near)
    if not wanted:
        _compare(after[0], given[0], near)
        for slot, want in zip(after[1:], given[1:], strict=True):
            if slot.shape == want.shape == after[0].shape:
                _compare(slot, want, near)
    return call


def _compare(found: np.ndarray, wanted: np.ndarray, near: float) -> None:
    if near:
        np.testing.assert_allclose(found, wanted, near, near)
    else:
        np.testing.assert_array_equal(found, wanted)
