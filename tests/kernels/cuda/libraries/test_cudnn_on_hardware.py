"""cuDNN's engines for layers of usual sizes, beside the texts of tfjit on the same GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests import hardware
from tests.kernels.cuda.harness import run_call
from tests.kernels.cuda.libraries.form_runs import run_form
from tests.kernels.launching import tensor
from tests.kernels.nn_cases import conv_attrs
from tfjit.framework.types import dtypes
from tfjit.kernels.cuda.conv import library_forms
from tfjit.kernels.cuda.libraries.convolution_problem import ConvolutionProblem
from tfjit.kernels.cuda.template.registry import find_builder
from tfjit.kernels.registry import NodeSpec, TensorSpec

pytestmark = pytest.mark.gpu
if not hardware.is_chosen():
    pytest.skip("pytest -m gpu, on a machine with one", allow_module_level=True)

LAYERS = {
    "3x3": ((4, 28, 28, 64), (3, 3, 64, 96), (1, 1)),
    "3x3 by 2": ((4, 28, 28, 64), (3, 3, 64, 64), (2, 2)),
    "7x7 by 2": ((2, 96, 96, 3), (7, 7, 3, 64), (2, 2)),
    "1x1 by 2": ((4, 28, 28, 64), (1, 1, 64, 128), (2, 2)),
    "odd": ((3, 31, 29, 33), (3, 5, 33, 17), (1, 1)),
}
OPS = ("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter")


def test_the_library_is_used() -> None:
    problem = ConvolutionProblem(
        "forward", dtypes.float32, 4, 64, 64, (28, 28), (28, 28), (3, 3), before=(1, 1),
        after=(1, 1), tf32=True,
    )  # fmt: skip
    if hardware.device().routine(problem) is None:
        pytest.skip("cuDNN is not installed, or has failed its check (TFJIT_LOG=kernels)")


@pytest.mark.parametrize("tf32", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("op", OPS)
def test_both_give_the_same(
    op: str, layer: str, dtype: str, tf32: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tf32 and dtype != "float32":
        pytest.skip("TF32 is for float32")
    monkeypatch.setattr(library_forms, "allows_tf32", lambda: tf32)
    compare(op, *LAYERS[layer], dtype)


def compare(
    op: str, x: tuple[int, ...], w: tuple[int, ...], strides: tuple[int, int], dtype: str
) -> None:
    """Compare the library's form of a node with its kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library_forms, "_LEAST_WORK", 0)
        patch.setattr(library_forms, "pays", lambda *_: True)
        patch.setattr(library_forms, "is_installed", lambda _: True)
        kind = dtypes.as_dtype(dtype)
        held: dict[str, Any] = {
            name: value.encode() if isinstance(value, str) else tuple(value)
            for name, value in conv_attrs(strides, "SAME").items()
        }
        y = (x[0], *(-(-n // s) for n, s in zip(x[1:3], strides)), w[3])
        numbers = np.random.default_rng(4)
        images, filters, results = (
            (numbers.standard_normal(shape) / 4).astype(kind.as_numpy_dtype) for shape in (x, w, y)
        )
        given, out = {
            "Conv2D": ([images, filters], y),
            "Conv2DBackpropInput": ([np.array(x, np.int32), filters, results], x),
            "Conv2DBackpropFilter": ([images, np.array(w, np.int32), results], w),
        }[op]
        builder = find_builder(op)
        assert builder is not None
        spec = TensorSpec(kind, out)
        call = builder(NodeSpec("n", op, held, tuple(tensor(a) for a in given), (spec,)))
    (wanted,), _ = run_call(call, given, [spec])
    (form,) = call.library_forms
    (found,) = run_form(form, given, [spec])
    scale = float(np.abs(wanted.astype(np.float64)).max())
    near = {"float32": 4e-3, "float16": 4e-3, "bfloat16": 3e-2, "float64": 1e-9}[dtype]
    error = np.abs(found.astype(np.float64) - wanted.astype(np.float64)).max()
    assert error <= near * scale, f"{error} of {scale}"
