"""Sorts of rows by simulated threads: tiles, tiles of tiles, merged runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tests.kernels.cuda.harness import run_call
from tests.kernels.cuda.linked import ALL, resources
from tests.kernels.launching import tensor
from tfjit.kernels.cuda.template import sort
from tfjit.kernels.cuda.template.kernel_text import KernelText
from tfjit.kernels.registry import NativeCall, Pointer, Unsupported


@dataclass
class Elements:
    """Keys are the elements of input 0."""

    kind: str

    def write_head(self, text: KernelText) -> None:
        text.line(f"x_p = ptr_{self.kind}({text.argument('x_at', Pointer('in', 0))})")

    def write_element(self, text: KernelText) -> None:
        text.line("key = ld(x_p, row * length + place)")


@dataclass
class Places:
    """Output 0 are the places of the first elements."""

    keep: int

    def write_head(self, text: KernelText) -> None:
        text.line(f"y_p = ptr_i64({text.argument('y_at', Pointer('out', 0))})")

    def write_element(self, text: KernelText) -> None:
        text.line(f"st(y_p, row * {self.keep} + rank, place)")


def places(x: np.ndarray, keep: int) -> tuple[np.ndarray, int]:
    """(places of the smallest elements, number of launches)."""
    wide = x.dtype.itemsize == 8
    start, end = Elements("i64" if wide else "i32"), Places(keep)
    made = sort.sort_rows(*x.shape, keep, start, end, "of a test", __name__, wide=wide)
    wanted = tensor(np.zeros((len(x), keep), np.int64))
    call = NativeCall(made.launches, temp_bytes=made.temp_bytes)
    return run_call(call, [x], [wanted])[0][0], len(made.launches)


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort, "TILE", 8)
    monkeypatch.setattr(sort, "_LEAST_THREADS", 4)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(
    ("shape", "keep", "launches"),
    [
        ((3, 7), 7, 1), ((2, 8), 3, 1), ((1, 1), 1, 1), ((2, 50), 2, 3), ((1, 20), 4, 3),
        ((2, 50), 7, 4), ((1, 33), 33, 4), ((2, 16), 16, 2),
    ],
)  # fmt: skip
def test_sorts(
    dtype: str, shape: tuple[int, int], keep: int, launches: int, small_tiles: None
) -> None:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    for values in ([low, -1, 0, 1, high], [high], range(low, high, high // 1000)):
        x = np.random.default_rng(keep).choice(np.asarray(values, dtype), shape)
        found, count = places(x, keep)
        assert count == launches
        wanted = np.argsort(x, axis=1, kind="stable")[:, :keep]
        np.testing.assert_array_equal(found, wanted)


def test_a_tile_of_several_elements_a_thread() -> None:
    x = np.random.default_rng(0).integers(-9, 9, (1, 100)).astype(np.int32)
    found, launches = places(x, 100)
    assert launches == 1
    np.testing.assert_array_equal(found[0], np.argsort(x[0], kind="stable"))


def test_rows_that_are_too_long() -> None:
    with pytest.raises(Unsupported, match="rows of"):
        sort.sort_rows(1, 1 << 31, 4, Elements("i32"), Places(4), "of a test", __name__)


def test_no_registers_are_spilled() -> None:
    made = sort.sort_rows(3, 5000, 9, Elements("i32"), Places(9), "of a test", __name__)
    runs = sort.sort_rows(3, 5000, 5000, Elements("i32"), Places(5000), "of a test", __name__)
    for one in (*made.launches, *runs.launches):  # whatever the compiler's version chooses
        bounds = f"kernel.launch_bounds = ({one.block[0]}, 1)"
        assert (bounds in one.source.text) == (one.block[0] > 256)
    sources = dict.fromkeys(launch.source for launch in (*made.launches, *runs.launches))
    for found in resources(list(sources), *ALL):
        # a block of 1024 threads has 64 registers a thread
        assert found.local_bytes == 0 and found.registers <= 64
        assert found.shared_bytes < 48 * 1024
