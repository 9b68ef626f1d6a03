"""The drivers' text, as files to read in review (`pytest --update-golden` rewrites them). Numbers
prove correctness, not these.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels import native_nn
from tfjit.framework.types import dtypes
from tfjit.kernels.cpu.conv import channelwise, conv
from tfjit.kernels.cpu.gemm import matmul, micro_kernels
from tfjit.kernels.cpu.template import epilogue
from tfjit.kernels.source import KernelSource

# a fixed tile, so that the files do not depend on the machine
TILE = micro_kernels.Tile("f32", "avx512", 16, 12, 4, True)
FUSED = epilogue.epilogue_text(native_nn.NORM_RESIDUAL_RELU6, dtypes.float32)
PLAIN = epilogue.epilogue_text(None, dtypes.float32)
SOURCES = {
    "matmul_norm_residual_relu6": matmul.matmul_source(TILE, FUSED),
    "conv2d": conv.conv_source(TILE, PLAIN),
    "channelwise": channelwise.channelwise_source(TILE, PLAIN),
    "matmul_tiles": micro_kernels.matmul_tiles(TILE, micro_kernels.VECTORS),
}


@pytest.mark.parametrize("name", SOURCES)
def test_text_is_golden(name: str, root: Path, update_golden: bool) -> None:
    source: KernelSource = SOURCES[name]
    file = root / "tests" / "golden" / f"{name}.txt"
    if update_golden:
        file.parent.mkdir(exist_ok=True)
        file.write_text(source.text)
    assert file.read_text() == source.text
