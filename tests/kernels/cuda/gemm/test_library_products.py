"""Products by cuBLASLt: layouts, batches, dtypes and epilogues against NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import hardware
from tests.kernels.cuda.fake_cublaslt import FakeCublasLt
from tests.kernels.cuda.library_calls import are, libraries_for_all_sizes, routines, run_form
from tests.kernels.cuda.tiny_tiles import TINY, floats
from tests.kernels.groups import GroupBuilder
from tests.kernels.launching import tensor
from tfjit.framework.types import dtypes as d
from tfjit.kernels.cuda.fused import group_call
from tfjit.kernels.cuda.gemm import library_products, matmul
from tfjit.kernels.cuda.gemm.matmul import batch_matmul_call
from tfjit.kernels.cuda.libraries import product_problem
from tfjit.kernels.ir.accelerator import Accelerator
from tfjit.kernels.ir.fused_group import Ref
from tfjit.kernels.registry import LibraryLaunch, NativeCall, TensorSpec

TOLERANCE: dict[Any, float] = {
    np.float32: 1e-5, np.float64: 1e-12, np.float16: 3e-3, ml_dtypes.bfloat16: 2e-2,
}  # fmt: skip
GELU = 2e-3
"""The library's tanh may be that of the GPU, which has 11 bits."""


@pytest.fixture(autouse=True)
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_products, "allows_tf32", lambda: False)
    monkeypatch.setattr(matmul, "choose", lambda *sizes: TINY)


@pytest.fixture
def fake() -> FakeCublasLt:
    return FakeCublasLt()


@pytest.fixture
def device(fake: FakeCublasLt) -> Iterator[Accelerator]:
    with libraries_for_all_sizes(fake) as found:
        yield found


def product(
    device: Accelerator, x: np.ndarray, y: np.ndarray, adj_x: bool = False, adj_y: bool = False
) -> list[str]:
    """Compare x times y with NumPy; return the routines that computed it."""
    left = np.swapaxes(x, -1, -2) if adj_x else x
    right = np.swapaxes(y, -1, -2) if adj_y else y
    expected = np.matmul(left.astype(np.float64), right.astype(np.float64))
    call = batch_matmul_call([tensor(x), tensor(y)], adj_x=adj_x, adj_y=adj_y)
    spec = TensorSpec(tensor(x).dtype, expected.shape)
    (result,), form = run_form(device, call, [x, y], [spec])
    tolerance = TOLERANCE[x.dtype.type]
    np.testing.assert_allclose(
        result.astype(np.float64), expected, rtol=tolerance, atol=tolerance * x.shape[-1]
    )
    return routines(form)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.tuples(*[st.integers(2, 19)] * 2, st.integers(1, 19)),
    st.booleans(),
    st.booleans(),
    st.sampled_from([(), (3,), (2, 3)]),
    st.sampled_from(["both", "left", "right"]),
    st.sampled_from(list(TOLERANCE)),
)
def test_products(
    sizes: tuple[int, int, int], adj_x: bool, adj_y: bool, batch: tuple[int, ...], of: str,
    dtype: Any,
) -> None:  # fmt: skip
    m, n, k = sizes
    x_batch = batch if of != "right" else ()
    y_batch = batch if of != "left" else ()
    x = floats(*x_batch, *((k, m) if adj_x else (m, k)), dtype=dtype)
    y = floats(*y_batch, *((n, k) if adj_y else (k, n)), seed=1, dtype=dtype)
    with libraries_for_all_sizes(FakeCublasLt()) as device:
        assert product(device, x, y, adj_x, adj_y) or hardware.is_chosen()


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ((1, 1, 5, 4), (2, 3, 4, 6)),
        ((2, 3, 5, 4), (1, 1, 4, 6)),
        ((3, 5, 4), (1, 4, 6)),
        ((1, 5, 4), (3, 4, 6)),
    ],
)
def test_one_matrix_for_a_batch(
    device: Accelerator, x: tuple[int, ...], y: tuple[int, ...]
) -> None:
    for found in (
        product(device, floats(*x), floats(*y, seed=1)),
        product(device, floats(*x[:-2], 4, 5), floats(*y, seed=1), adj_x=True),
    ):
        assert found or hardware.is_chosen()


def test_irregular_batches_have_kernels() -> None:
    specs = [TensorSpec(d.float32, (2, 1, 512, 64)), TensorSpec(d.float32, (1, 3, 64, 512))]
    assert not batch_matmul_call(specs).library_forms


def test_small_products_vectors_and_chosen_tiles_have_kernels() -> None:
    def forms(m: int, n: int, k: int, **options: Any) -> int:
        specs = [TensorSpec(d.float32, (m, k)), TensorSpec(d.float32, (k, n))]
        return len(batch_matmul_call(specs, **options).library_forms)

    assert forms(128, 128, 128) == 1
    assert forms(64, 64, 128) == 0
    assert forms(1, 4096, 4096) == forms(4096, 1, 4096) == 0
    assert forms(512, 512, 512, plan=TINY) == 0
    assert forms(0, 4096, 4096) == forms(4096, 4096, 0) == 0


def test_tf32_rounds_operands(device: Accelerator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_products, "allows_tf32", lambda: True)
    x, y = floats(64, 64), floats(64, 64, seed=1)
    call = batch_matmul_call([tensor(x), tensor(y)])
    (found,), form = run_form(device, call, [x, y], [tensor(x)])
    assert are(routines(form), ["cuBLASLt product 64x64x64 float32 (TF32)"])
    exact = x.astype(np.float64) @ y
    error = np.abs(found - exact).max()
    # operands of 11 bits; an older GPU computes float32
    assert error < 64 * 2.0**-10
    assert error > 1e-5 or hardware.is_chosen()


@pytest.mark.parametrize(
    ("variables", "allowed"),
    [
        ({}, True),
        ({"TFJIT_TF32": "0"}, False),
        ({"NVIDIA_TF32_OVERRIDE": "0"}, False),
        ({"NVIDIA_TF32_OVERRIDE": "1"}, True),
    ],
)
def test_variables_of_tf32(
    variables: dict[str, str], allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TFJIT_TF32", "NVIDIA_TF32_OVERRIDE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    product_problem.allows_tf32.cache_clear()
    assert product_problem.allows_tf32() is allowed
    product_problem.allows_tf32.cache_clear()


class Grouped:
    """A product with an epilogue, op by op."""

    def __init__(self, *operands: np.ndarray, dtype: Any = np.float32, batch: int = 0) -> None:
        x, y = floats(8, 6, dtype=dtype), floats(6, 12, seed=1, dtype=dtype)
        if batch:
            x, y = floats(batch, 8, 6, dtype=dtype), floats(batch, 6, 12, seed=1, dtype=dtype)
        self.b = GroupBuilder(x, y, *operands)
        value = np.matmul(x.astype(np.float64), y.astype(np.float64)).astype(dtype)
        op = "BatchMatMulV2" if batch else "MatMul"
        self.product = self.b.op(op, self.b.input(0), self.b.input(1), value=value)

    def call(self, *outputs: Ref, known: dict[int, np.ndarray] | None = None) -> NativeCall:
        group = replace(self.b.group(*outputs), kind="matmul")
        return group_call(group, known or {})

    def check(
        self, device: Accelerator, *outputs: Ref, known: dict[int, np.ndarray] | None = None,
        tolerance: float = 1e-5,
    ) -> list[str]:  # fmt: skip
        """Compare with NumPy; return the titles of the launches."""
        specs = [tensor(self.b.values[ref]) for ref in outputs]
        call = self.call(*outputs, known=known)
        results, form = run_form(device, call, self.b.arrays, specs)
        for ref, result in zip(outputs, results, strict=True):
            np.testing.assert_allclose(
                result.astype(np.float64), self.b.values[ref].astype(np.float64),
                rtol=tolerance, atol=tolerance,
            )  # fmt: skip
        return [title.split("float")[-1][2:] for title in routines(form)] + [
            "kernel" for _ in form.launches[len(routines(form)) :]
        ]


@pytest.mark.parametrize("batch", [0, 3])
@pytest.mark.parametrize("op", ["AddV2", "BiasAdd"])
def test_bias_and_relu_are_the_routines(device: Accelerator, op: str, batch: int) -> None:
    bias = floats(12, seed=2)
    for dtype in (np.float32, np.float16):
        g = Grouped(bias.astype(dtype), dtype=dtype, batch=batch)
        value = g.b.values[g.product] + g.b.arrays[2]
        added = g.b.op(op, g.product, g.b.input(2), value=value)
        tolerance = TOLERANCE[dtype]
        assert are(g.check(device, added, tolerance=tolerance), ["+bias"])
        assert are(g.check(device, g.b.op("Relu", added), tolerance=tolerance), ["+bias+relu"])


def test_relu_alone_and_a_bias_on_the_left(device: Accelerator) -> None:
    g = Grouped(floats(12, seed=2))
    assert are(g.check(device, g.b.op("Relu", g.product)), ["+relu"])
    g = Grouped(floats(12, seed=2))
    assert are(g.check(device, g.b.op("AddV2", g.b.input(2), g.product)), ["+bias"])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16])
def test_an_added_array_is_within(device: Accelerator, dtype: Any) -> None:
    """A residual connection, and gradients of one variable that are added."""
    tolerance = max(2e-5, TOLERANCE[dtype])
    for batch in (0, 2):
        full = floats(*([batch] if batch else []), 8, 12, seed=3).astype(dtype)
        bias = floats(12, seed=2).astype(dtype)
        for order, title in (("f", "+add"), ("fb", "+add+bias"), ("bf", "+add+bias")):
            g = Grouped(full, bias, dtype=dtype, batch=batch)
            value = g.product
            for operand in order:
                value = g.b.op("AddV2", g.b.input("fb".index(operand) + 2), value)
            assert are(g.check(device, value, tolerance=tolerance), [title])
            relu = g.b.op("Relu", value)
            assert are(g.check(device, relu, tolerance=tolerance), [f"{title}+relu"])


def test_two_added_arrays_are_a_kernel_behind(device: Accelerator) -> None:
    g = Grouped(floats(8, 12, seed=3), floats(8, 12, seed=4))
    both = g.b.op("AddV2", g.b.op("AddV2", g.product, g.b.input(2)), g.b.input(3))
    assert are(g.check(device, both), ["", "kernel"])


def gelu(g: Grouped, x: Ref, form: int, scalar: Any) -> Ref:
    """Append gelu of x. form: the order of its operations."""
    b = g.b
    if form == 0:  # tf.nn.gelu
        inner = b.op("AddV2", x, b.op("Mul", scalar(0.044715), b.op("Pow", x, scalar(3.0))))
        tanh = b.op("Tanh", b.op("Mul", scalar(0.7978845608028654), inner))
        return b.op("Mul", b.op("Mul", scalar(0.5), x), b.op("AddV2", scalar(1.0), tanh))
    if form == 1:  # BERT
        inner = b.op("AddV2", x, b.op("Mul", b.op("Mul", b.op("Square", x), x), scalar(0.044715)))
        tanh = b.op("Tanh", b.op("Mul", scalar(0.7978845608028654), inner))
        return b.op("Mul", x, b.op("Mul", scalar(0.5), b.op("AddV2", scalar(1.0), tanh)))
    inner = b.op("AddV2", scalar(1.0), b.op("Mul", scalar(0.044715), b.op("Square", x)))
    tanh = b.op("Tanh", b.op("Mul", b.op("Mul", x, scalar(0.7978845608028654)), inner))
    return b.op("Mul", b.op("AddV2", tanh, scalar(1.0)), b.op("Mul", x, scalar(0.5)))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("form", [0, 1, 2])
def test_gelu_by_tanh(device: Accelerator, form: int, dtype: Any) -> None:
    numbers = [0.044715, 3.0, 0.7978845608028654, 0.5, 1.0]
    scalars = [np.asarray(number, dtype) for number in numbers]
    g = Grouped(floats(12, seed=2).astype(dtype), *scalars, dtype=dtype)
    added = g.b.op("AddV2", g.product, g.b.input(2))

    def scalar(number: float) -> Ref:
        return g.b.input(3 + numbers.index(number))

    result = gelu(g, added, form, scalar)
    # NumPy rounds after each operation
    tolerance = max(GELU, 4 * TOLERANCE[dtype])
    known = {3 + k: value for k, value in enumerate(scalars)}
    assert are(g.check(device, result, known=known, tolerance=tolerance), ["+bias+gelu"])
    # another number, or an unknown one, is another function
    assert g.check(device, result, tolerance=tolerance)[-1] == "kernel"
    known[3] = np.asarray(0.05, dtype)
    forms = g.call(result, known=known).library_forms
    assert [len(one.launches) for one in forms] == [2]


def test_any_other_epilogue_is_a_kernel_behind(device: Accelerator) -> None:
    for dtype in (np.float32, ml_dtypes.bfloat16, np.float64):
        full = floats(8, 12, seed=3).astype(dtype)
        g = Grouped(full, floats(12, seed=2).astype(dtype), dtype=dtype)
        added = g.b.op("AddV2", g.product, g.b.input(2))
        result = g.b.op("Sigmoid", g.b.op("Mul", added, g.b.input(3)))
        found = g.check(device, added, result, tolerance=max(2e-5, TOLERANCE[dtype]))
        assert are(found, ["", "kernel"])


def test_epilogues_that_libraries_lack() -> None:
    """The bias is used twice; there are two results; the result has another dtype."""
    g = Grouped(floats(12, seed=2))
    added = g.b.op("AddV2", g.product, g.b.input(2))
    relu = g.b.op("Relu", added)
    for outputs in ((added, relu), (g.b.op("Mul", relu, g.b.input(2)),),
                    (g.b.op("Greater", added, g.b.input(2)),),
                    (g.b.op("Mul", relu, g.product),)):  # fmt: skip
        for form in g.call(*outputs).library_forms:
            assert not isinstance(form.launches[-1], LibraryLaunch)


def test_refused_epilogues_go_to_a_kernel_behind(device: Accelerator, fake: FakeCublasLt) -> None:
    if hardware.is_chosen():
        pytest.skip("the refusals are the fake library's")
    g = Grouped(floats(12, seed=2))
    relu = g.b.op("Relu", g.b.op("AddV2", g.product, g.b.input(2)))
    fake.refuses = lambda epilogue, operand, result: epilogue != 1
    assert are(g.check(device, relu), ["", "kernel"])
    fake.refuses = lambda epilogue, operand, result: True
    g = Grouped(floats(12, seed=4), batch=2)  # a routine of the first may still be there
    relu = g.b.op("Relu", g.b.op("AddV2", g.product, g.b.input(2)))
    assert are(g.check(device, relu), ["kernel"])


def test_a_kernel_behind_has_to_pay() -> None:
    """A large result of short sums is written twice more, and gains nothing."""

    def forms(m: int, n: int, k: int) -> list[int]:
        b = GroupBuilder(np.zeros((m, k), np.float32), np.zeros((k, n), np.float32))
        value = np.zeros((m, n), np.float32)
        product = b.op("MatMul", b.input(0), b.input(1), value=value)
        group = replace(b.group(b.op("Tanh", product)), kind="matmul")
        return [len(form.launches) for form in group_call(group, {}).library_forms]

    assert forms(512, 512, 2048) == [2]
    assert forms(2048, 2048, 4) == []
