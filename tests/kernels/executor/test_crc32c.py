from __future__ import annotations

import numpy as np
import pytest

from tfjit.framework.files.crc32c import numpy_crc32c
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
