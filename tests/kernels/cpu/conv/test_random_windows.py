"""Random shapes, strides, paddings, dilations and groups: every compiled kernel of the family
against its NumPy reference.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tfjit.kernels.cpu  # noqa: F401  (registers kernels)
from tests.kernels.native_nn import specs
from tests.kernels.native_runner import NativeRunner
from tests.kernels.nn_cases import node_spec
from tfjit.kernels.registry import find_native, find_reference


class Draw:
    """One random case."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.numbers = np.random.default_rng(seed)

    def array(self, *shape: int) -> np.ndarray:
        return self.numbers.standard_normal(shape).astype(np.float32)

    def check(
        self,
        op: str,
        arrays: Sequence[np.ndarray],
        attrs: dict[str, Any],
        constants: Sequence[int] = (),
    ) -> np.ndarray:
        """The compiled result, whole or in chunks, is the reference's."""
        kernel, builder = find_reference(op), find_native(op)
        assert kernel is not None and builder is not None
        wanted = np.asarray(kernel(node_spec(op, arrays, attrs, arrays[0]), list(arrays))[0])
        runner = NativeRunner(
            builder(node_spec(op, arrays, attrs, wanted, constants)),
            arrays,
            specs(wanted),
            self.choose.randrange(3),
        )
        (found,) = runner.run(self.choose.choice([1, 2, 5, None]), seed=self.choose.randrange(99))
        scale = max(1.0, float(np.abs(wanted).max())) if wanted.size else 1.0
        np.testing.assert_allclose(
            found,
            wanted,
            rtol=2e-5,
            atol=2e-5 * scale,
            err_msg=f"{op} {[a.shape for a in arrays]} {attrs}",
        )
        return wanted

    def product(self) -> None:
        pick = self.choose.choice
        m, k, n = (
            pick([0, 1, 2, 3, 5, 12, 13, 60, 130]),
            pick([0, 1, 3, 16, 17, 100, 800]),
            pick([0, 1, 3, 8, 15, 16, 17, 32, 33, 100, 300]),
        )
        left, right = pick([False, True]), pick([False, True])
        arrays = [
            self.array(k, m) if left else self.array(m, k),
            self.array(n, k) if right else self.array(k, n),
        ]
        self.check("MatMul", arrays, {"transpose_a": left, "transpose_b": right}, pick([(), (1,)]))

    def windows(self, kind: str) -> None:
        pick, below = self.choose.choice, self.choose.randrange
        batch, height, width, k_h, k_w = (
            pick([1, 1, 2, 3]),
            below(1, 20),
            below(1, 20),
            below(1, 6),
            below(1, 6),
        )
        padding = pick(["SAME", "VALID", "EXPLICIT"])
        pads = (
            [below(min(k, 4)) for k in (k_h, k_h, k_w, k_w)] if padding == "EXPLICIT" else [0] * 4
        )
        dilations = pick([(1, 1), (1, 1), (2, 1), (2, 3)]) if kind != "pool" else (1, 1)
        attrs: dict[str, Any] = {
            "strides": [1, below(1, 4), below(1, 4), 1],
            "padding": padding,
            "dilations": [1, *dilations, 1],
        }
        if padding == "EXPLICIT":
            attrs["explicit_paddings"] = [0, 0, *pads, 0, 0]
        if padding != "SAME":  # no window may be larger than the padded image
            height = max(height, (k_h - 1) * dilations[0] + 1)
            width = max(width, (k_w - 1) * dilations[1] + 1)
        channels, groups = pick([1, 2, 3, 8, 17, 40]), pick([1, 1, 1, 2, 3])
        if kind == "pool":
            attrs["ksize"] = [1, k_h, k_w, 1]
            x = self.array(batch, height, width, channels)
            y = self.check("MaxPool", [x], attrs)
            self.check("MaxPoolGrad", [x, y, self.array(*y.shape)], attrs)
            if padding != "EXPLICIT":
                y = self.check("AvgPool", [x], attrs)
                self.check(
                    "AvgPoolGrad", [np.array(x.shape, np.int32), self.array(*y.shape)], attrs
                )
            return
        if kind == "conv":
            x = self.array(batch, height, width, channels * groups)
            w = self.array(k_h, k_w, channels, pick([1, 2, 3, 8, 16, 20, 33, 70]) * groups)
            op = "Conv2D"
        else:
            x, w = (
                self.array(batch, height, width, channels),
                self.array(k_h, k_w, channels, pick([1, 1, 2, 3])),
            )
            op = "DepthwiseConv2dNative"
        y = self.check(op, [x, w], attrs, pick([(), (1,)]))
        dy = self.array(*y.shape)
        self.check(
            op + "BackpropInput", [np.array(x.shape, np.int32), w, dy], attrs, pick([(), (1,)])
        )
        self.check(op + "BackpropFilter", [x, np.array(w.shape, np.int32), dy], attrs)


@pytest.mark.parametrize("kind", ["matmul", "conv", "depthwise", "pool"])
@pytest.mark.parametrize("block", range(5))
def test_random_cases(kind: str, block: int) -> None:
    for seed in range(block * 40, block * 40 + 40):
        draw = Draw(seed)
        if kind == "matmul":
            draw.product()
        else:
            draw.windows(kind)
