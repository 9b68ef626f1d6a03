"""Tests of the choice of GPUs by a ConfigProto."""

from __future__ import annotations

from typing import Any

import pytest

from tfjit.framework import errors
from tfjit.kernels.cuda.device.visible_devices import visible_devices
from tfjit.protos import ConfigProto, GPUOptions

GIB = 1 << 30
CARDS = [80 * GIB, 40 * GIB]


def found(config: Any) -> list[tuple[int, int]]:
    return [(d.physical, d.memory_limit) for d in visible_devices(config, CARDS)]


def options(**fields: Any) -> ConfigProto:
    return ConfigProto(gpu_options=GPUOptions(**fields))


def test_all_are_visible_with_most_of_their_memory() -> None:
    assert found(None) == found(ConfigProto())
    assert [n for n, _ in found(None)] == [0, 1]
    for (_, limit), whole in zip(found(None), CARDS, strict=True):
        assert 0.9 * whole < limit < whole


def test_a_list_chooses_and_orders() -> None:
    assert [n for n, _ in found(options(visible_device_list="1,0"))] == [1, 0]
    assert [n for n, _ in found(options(visible_device_list="1"))] == [1]


def test_a_count_limits() -> None:
    assert found(ConfigProto(device_count={"GPU": 0})) == []
    assert [n for n, _ in found(ConfigProto(device_count={"GPU": 1}))] == [0]
    assert len(found(ConfigProto(device_count={"CPU": 1}))) == 2


def test_a_share_of_the_memory() -> None:
    assert found(options(per_process_gpu_memory_fraction=0.25)) == [(0, 20 * GIB), (1, 10 * GIB)]


def test_virtual_devices() -> None:
    config = options()
    virtual = config.gpu_options.experimental.virtual_devices
    virtual.add(memory_limit_mb=[1024, 2048])
    virtual.add()
    one, two, three = found(config)
    assert (one, two) == ((0, GIB), (0, 2 * GIB))
    assert three[0] == 1 and three[1] > 30 * GIB


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"visible_device_list": "2"},
            "listed an invalid GPU id '2' but visible device count is 2",
        ),
        ({"visible_device_list": "0,x"}, "Could not parse entry in 'visible_device_list': 'x'"),
        ({"visible_device_list": "0,0"}, "contained a duplicate entry: 0,0"),
        ({"per_process_gpu_memory_fraction": 1.5}, "per_process_gpu_memory_fraction is 1.5"),
    ],
)
def test_faulty_options(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=message.replace("(", r"\(")):
        found(options(**fields))


def test_more_virtual_lists_than_cards() -> None:
    config = options()
    for _ in range(3):
        config.gpu_options.experimental.virtual_devices.add(memory_limit_mb=[10])
    with pytest.raises(errors.InvalidArgumentError, match="Not enough GPUs"):
        found(config)
