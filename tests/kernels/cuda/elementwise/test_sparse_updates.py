"""Optimizer updates of rows by simulated threads, against the NumPy references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels.cuda.against_reference import call_of, check
from tests.kernels.cuda.linked import ALL, resources
from tests.kernels.optimizer_inputs import FLAGS, arguments
from tfjit.kernels.cpu.elementwise.sparse_updates import SPARSE
from tfjit.kernels.cuda.template import sort
from tfjit.kernels.cuda.template.registry import find_builder
from tfjit.kernels.registry import Unsupported

RNG = np.random.default_rng(4)
CASES = [(name, {}) for name in SPARSE] + [
    (name, {flag: flag != "update_slots"}) for name in SPARSE for flag in FLAGS.get(name, ())
]


@pytest.mark.parametrize(("name", "attrs"), CASES)
def test_rows_that_repeat(name: str, attrs: dict[str, Any]) -> None:
    op = f"ResourceSparseApply{name}"
    for shape, kind, near in (((6, 3), "f4", 2e-6), ((3,), "f8", 1e-12), ((5, 2, 1), "f4", 2e-6)):
        index = RNG.integers(0, shape[0], 9).astype(np.int32)
        check(op, *arguments(op, np.dtype(kind), shape, index), near=near, **attrs)


def test_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their order comes from merged runs."""
    monkeypatch.setattr(sort, "TILE", 8)
    monkeypatch.setattr(sort, "_LEAST_THREADS", 4)
    index = RNG.integers(0, 4, 40)
    op = "SparseApplyMomentum"
    check(op, *arguments(op, np.dtype(np.float64), (6, 2), index), near=1e-12)


def test_another_power_than_the_root() -> None:
    op = "SparseApplyFtrl"
    inputs = arguments(op, np.dtype(np.float32), (6, 5), RNG.integers(0, 6, 9))
    inputs[-1] = np.asarray(np.float32(-0.3))
    check(op, *inputs, near=2e-6)


@pytest.mark.parametrize("op", ["SparseApplyAdagrad", "ResourceSparseApplyFtrl"])
def test_indices_out_of_range_and_padding_are_skipped(op: str) -> None:
    index = np.array([1, 5, -1, 1, 6, 2, 2**62, -(2**63)])
    good = np.array([0, 1, 3, 5])
    inputs = arguments(op, np.dtype(np.float32), (6, 3), index)
    place = next(k for k, value in enumerate(inputs) if value is index)
    fewer = list(inputs)
    fewer[place - 1 : place + 1] = inputs[place - 1][good], index[good]
    check(op, *inputs, near=2e-6, reference=fewer)


def test_no_rows_and_forms_without_a_kernel() -> None:
    op, none = "ResourceSparseApplyAdagrad", np.zeros(0, np.int32)
    for shape in ((6, 3), (0, 3), (6, 0)):
        inputs = arguments(op, np.dtype(np.float32), shape, none)
        assert call_of(op, inputs, []).launches == ()
    inputs = arguments(op, np.dtype(np.float32), (6, 3), np.int32([1, 2]))
    with pytest.raises(Unsupported, match="float16"):
        call_of(op, [a.astype("f2") if a.dtype == np.float32 else a for a in inputs], [])
    with pytest.raises(Unsupported, match="do not fit"):
        call_of(op, [*inputs[:-1], inputs[-1][:1]], [])


def test_every_rule_is_registered() -> None:
    for name in SPARSE:
        assert find_builder(f"ResourceSparseApply{name}") is not None
        assert (find_builder(f"SparseApply{name}") is None) == (name == "KerasMomentum")


def test_no_registers_are_spilled() -> None:
    sources = []
    for name in ("Adagrad", "Ftrl"):
        op = f"ResourceSparseApply{name}"
        inputs = arguments(op, np.dtype(np.float32), (6, 9), np.int32([1, 2]))
        sources.append(call_of(op, inputs, []).launches[-1].source)
    for found in resources(sources, *ALL):
        assert found.local_bytes == 0 and found.registers <= 64
