"""The drivers' text, as files to read in review (`pytest --update-golden` rewrites them). Numbers
prove correctness, not these.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels import native_nn
from tfjit.framework.types import dtypes
from tfjit.kernels.cpu.conv import channelwise, conv, winograd
from tfjit.kernels.cpu.elementwise import optimizer_updates
from tfjit.kernels.cpu.gemm import attention, matmul, micro_kernels
from tfjit.kernels.cpu.template import epilogue
from tfjit.kernels.ir.scalar_program import Program, ScalarOp
from tfjit.kernels.source import KernelSource

# a fixed tile, so that the files do not depend on the machine
TILE = micro_kernels.Tile("f32", "avx512", 16, 12, 4, True)
FUSED = epilogue.epilogue_text(native_nn.NORM_RESIDUAL_RELU6, dtypes.float32)
PLAIN = epilogue.epilogue_text(None, dtypes.float32)
TWO_OUTPUTS = epilogue.epilogue_text(native_nn.TWO_OUTPUTS, dtypes.float32)
F32 = dtypes.float32
# scores of products, scaled, with a mask of keys
SCALE_AND_MASK = Program(
    (F32, F32, F32), (ScalarOp("Mul", (0, 1), F32), ScalarOp("AddV2", (3, 2), F32)), (4,)
)
SOURCES = {
    "matmul_norm_residual_relu6": matmul.matmul_source(TILE, FUSED),
    "matmul_two_outputs": matmul.matmul_source(TILE, TWO_OUTPUTS),
    "attention_scale_mask": attention.attention_source(
        TILE, 2, F32, True, SCALE_AND_MASK, ("scalar", "key")
    ),
    "winograd_norm_residual_relu6": winograd.winograd_source(TILE, FUSED),
    "winograd_transforms": winograd.transform_source(TILE),
    "update_adam": optimizer_updates.update_source(
        "Adam", optimizer_updates.UPDATES["Adam"], "f32", False
    ),
    "update_ftrl": optimizer_updates.update_source(
        "Ftrl", optimizer_updates.UPDATES["Ftrl"], "f64", False, True
    ),
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
