"""Bytes of stored plans: arrays keep their boundaries, and other bytes are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tfjit.kernels.cpu.backend import CpuBackend
from tfjit.runtime.lowering.lowered_pickle import ALIGN_BYTES
from tfjit.runtime.stored_plans import plan_file
from tfjit.runtime.stored_plans.plan_file import DAMAGED, NotStorable
from tfjit.runtime.stored_plans.plan_key import PlanKey

BACKEND = CpuBackend()
KEY = PlanKey("name")


def made(root: object, most_bytes: int = 1 << 20) -> bytes:
    return plan_file.contents("name", ("cpu", 3), root, KEY, BACKEND, most_bytes)


def test_an_object_is_read_back_with_its_fields() -> None:
    arrays = [np.arange(5000.0), np.arange(3)]
    file = plan_file.opened(plan_file.at_boundary(made(arrays)), "name")
    assert file.fields == ("cpu", 3) and not file.kernels
    found = file.root(list, KEY, BACKEND)
    np.testing.assert_array_equal(found[0], arrays[0])
    np.testing.assert_array_equal(found[1], arrays[1])
    assert found[0].ctypes.data % ALIGN_BYTES == 0


def test_objects_of_another_kind_are_refused() -> None:
    file = plan_file.opened(plan_file.at_boundary(made([1])), "name")
    with pytest.raises(ValueError, match="a list is no dict"):
        file.root(dict, KEY, BACKEND)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: b"",
        lambda data: data[:90] + bytes([data[90] ^ 1]) + data[91:],
    ],
)
def test_damaged_bytes_are_refused(damage: Callable[[bytes], bytes]) -> None:
    with pytest.raises(DAMAGED):
        plan_file.opened(plan_file.at_boundary(damage(made([1, 2]))), "name")


def test_bytes_of_another_name_and_too_many_are_refused() -> None:
    with pytest.raises(ValueError, match="another plan's"):
        plan_file.opened(plan_file.at_boundary(made([1])), "other")
    with pytest.raises(NotStorable, match="MB"):
        made([np.zeros(1 << 18)], most_bytes=1 << 20)


def test_a_file_is_read_to_a_boundary(tmp_path: Path) -> None:
    path = tmp_path / "plan"
    path.write_bytes(b"abc")
    found = plan_file.read_file(path)
    assert found is not None and bytes(found) == b"abc"
    assert plan_file.read_file(tmp_path / "none") is None
