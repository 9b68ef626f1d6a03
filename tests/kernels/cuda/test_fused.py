"""Groups reach the template of their kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.cuda.harness import run_call
from tests.kernels.groups import GroupBuilder, floats
from tfjit.kernels.cuda.fused import TEMPLATES, group_call
from tfjit.kernels.cuda.template.registry import find_builder
from tfjit.kernels.registry import Unsupported


def test_a_loop_group_as_a_node() -> None:
    b = GroupBuilder(floats(3, 5), floats(5, seed=1))
    out = b.op("Tanh", b.op("AddV2", b.input(0), b.input(1)))
    group = b.group(out)
    builder = find_builder("_Fused")
    assert builder is not None
    call = builder(group.node_spec("fused"))
    (found,), _ = run_call(call, b.arrays, [group.tensor(out)])
    np.testing.assert_allclose(found, b.values[out], rtol=1e-6)


def test_unknown_kinds_are_refused() -> None:
    b = GroupBuilder(floats(3))
    group = b.group(b.op("Neg", b.input(0)))
    assert "loop" in TEMPLATES
    with pytest.raises(Unsupported, match="kind pool_gradient"):
        group_call(replace(group, kind="pool_gradient"), {})
