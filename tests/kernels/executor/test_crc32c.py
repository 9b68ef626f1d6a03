from __future__ import annotations

import numpy as np
import pytest

from tfjit.framework.files.crc32c import crc32c_parts, numpy_crc32c
from tfjit.kernels.executor.crc32c import crc32c_function


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 64, 1003])
@pytest.mark.parametrize("start", [0, 3])
def test_the_instruction_computes_what_numpy_does(size: int, start: int) -> None:
    compute = crc32c_function()
    if compute is None:  # a processor without the instruction
        return
    data = memoryview(np.random.default_rng(size).bytes(start + size))[start:]
    assert compute(data, 0) == numpy_crc32c(data)
    assert compute(data, 0x1234567) == numpy_crc32c(data, 0x1234567)


def test_checksums_of_parts() -> None:
    data = np.random.default_rng(0).integers(0, 256, 200, np.uint8)
    places = [(0, 0), (3, 40), (50, 150), (199, 1)]
    expected = [numpy_crc32c(data[at : at + size].data) for at, size in places]
    assert crc32c_parts(data, places) == expected
    compute = crc32c_function()
    if compute is not None:
        assert compute.parts(data, places) == expected
