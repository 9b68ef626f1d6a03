"""Optimizer updates of CUDA against the NumPy references."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.kernels.cuda.harness import VECTOR_LOAD, VECTOR_STORE, call_ptx, run_node_state
from tests.kernels.cuda.linked import ALL, resources
from tests.kernels.launching import tensor
from tests.kernels.optimizer_inputs import FLAGS, arguments, rule_of
from tfjit.kernels.cpu.elementwise.optimizer_updates import UPDATES
from tfjit.kernels.cuda.template.launches import CudaLaunch
from tfjit.kernels.cuda.template.registry import find_builder
from tfjit.kernels.registry import NodeSpec, Unsupported, find_reference

CASES = [
    (name, {flag: value})
    for name in UPDATES
    for flag in FLAGS.get(name, ("none",))
    for value in ((False, True) if flag != "none" else (False,))
]


def spec_of(op: str, inputs: list[Any], attrs: dict[str, Any]) -> NodeSpec:
    return NodeSpec("n", op, attrs, tuple(tensor(a) for a in inputs), ())


@pytest.mark.parametrize(("name", "attrs"), CASES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_updates(name: str, attrs: dict[str, Any], dtype: type) -> None:
    op = f"ResourceApply{name}"
    inputs = arguments(op, np.dtype(dtype), (3, 3), None)
    _, after = run_node_state(find_builder(op), op, inputs, [], **attrs)
    wanted = [a.copy() for a in inputs]
    reference = find_reference(op)
    assert reference is not None
    reference(spec_of(op, inputs, attrs), wanted)
    for found, value in zip(after, wanted):
        rtol = 1e-5 if dtype is np.float32 else 1e-12
        np.testing.assert_allclose(found, value, rtol=rtol, atol=rtol)


def test_every_rule_is_registered() -> None:
    for name in UPDATES:
        assert find_builder(f"ResourceApply{name}") is not None
        assert (find_builder(f"Apply{name}") is None) == (name == "KerasMomentum")
    assert rule_of("ResourceApplyAdam") == "Adam"


def test_an_empty_variable_and_another_type() -> None:
    op = "ResourceApplyGradientDescent"
    builder = find_builder(op)
    assert builder is not None
    inputs = arguments(op, np.dtype(np.float32), (0, 3), None)
    assert builder(spec_of(op, inputs, {})).launches == ()
    with pytest.raises(Unsupported, match="float16"):
        builder(spec_of(op, [a.astype(np.float16) for a in inputs], {}))


def test_ptx_of_adam() -> None:
    op = "ResourceApplyAdam"
    builder = find_builder(op)
    assert builder is not None
    call = builder(spec_of(op, arguments(op, np.dtype(np.float32), (64,), None), {}))
    for ptx in call_ptx(call).values():
        assert len(re.findall(VECTOR_LOAD, ptx)) == 4 and len(re.findall(VECTOR_STORE, ptx)) == 3


def test_a_table_of_updates_compiles() -> None:
    op = "ResourceApplyAdam"
    builder = find_builder(op)
    assert builder is not None
    call = builder(spec_of(op, arguments(op, np.dtype(np.float32), (64,), None), {}))
    (launch,) = call.launches
    assert isinstance(launch, CudaLaunch)
    source = launch.table_form
    assert source is not None
    found = resources([source], *ALL)
    assert len(found) == 3
    assert all(r.registers <= 80 and r.local_bytes == 0 for r in found)
