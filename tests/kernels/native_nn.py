"""Compiled matmul, convolution and pooling against TensorFlow: what their tests share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.kernels.native_runner import NativeRunner
from tests.kernels.nn_cases import Case, assert_near, case_arrays, node_spec, run_tensorflow
from tfjit.framework.types import dtypes
from tfjit.kernels.cpu.template.epilogue import Epilogue
from tfjit.kernels.ir.scalar_program import Program, ScalarOp
from tfjit.kernels.registry import NativeCall, TensorSpec, find_native


def build(
    case: Case, arrays: Sequence[np.ndarray], out: np.ndarray, constants: Sequence[int] = ()
) -> NativeCall:
    """The native call of a case's node."""
    builder = find_native(case.op)
    assert builder is not None
    return builder(node_spec(case.op, arrays, case.attrs, out, [*constants, *case.ints]))


def check(case: Case, constants: Sequence[int] = ()) -> None:
    """The compiled kernel of a case gives TensorFlow's values, whole and in chunks, and the same
    bits each time.
    """
    arrays = case_arrays(case)
    wanted = run_tensorflow(case.op, arrays, case.attrs)
    call = build(case, arrays, wanted, constants)
    runner = NativeRunner(call, arrays, [TensorSpec(dtypes.as_dtype(wanted.dtype), wanted.shape)])
    (found,) = runner.run(1)
    assert_near(found, wanted, case.terms)
    whole = found.copy()
    for chunks, threads in ((2, False), (None, True)):
        found[...] = -7
        runner.run(chunks, threads, seed=chunks or 0)
        np.testing.assert_array_equal(found, whole)


def specs(*arrays: np.ndarray) -> tuple[TensorSpec, ...]:
    """TensorSpecs of arrays."""
    return tuple(TensorSpec(dtypes.as_dtype(a.dtype), a.shape) for a in arrays)


F32 = dtypes.float32
BIAS_RELU = Epilogue(
    Program((F32, F32), (ScalarOp("AddV2", (0, 1), F32), ScalarOp("Relu", (2,), F32)), (3,)),
    ("channel",),
)
NORM_RESIDUAL_RELU6 = Epilogue(
    Program(
        (F32, F32, F32, F32),
        (
            ScalarOp("Mul", (0, 1), F32),
            ScalarOp("AddV2", (4, 2), F32),
            ScalarOp("AddV2", (5, 3), F32),
            ScalarOp("Relu6", (6,), F32),
        ),
        (7,),
    ),
    ("channel", "channel", "full"),
)
TWO_OUTPUTS = Epilogue(
    Program(
        (F32, F32, F32),
        (ScalarOp("Mul", (0, 1), F32), ScalarOp("AddV2", (3, 2), F32), ScalarOp("Tanh", (4,), F32)),
        (5, 4),
    ),
    ("scalar", "row"),
)
COMPARED = Epilogue(
    Program((F32, F32), (ScalarOp("Greater", (0, 1), dtypes.bool),), (2,)), ("channel",)
)
EPILOGUES = {
    "bias+relu": BIAS_RELU,
    "norm+residual+relu6": NORM_RESIDUAL_RELU6,
    "two outputs": TWO_OUTPUTS,
    "bool": COMPARED,
}


def operands_of(
    epilogue: Epilogue, shape: Sequence[int], rng: np.random.Generator
) -> list[np.ndarray]:
    """Random operands for products of that shape."""
    rows, columns = int(np.prod(shape[:-1])), shape[-1]
    sizes = {"scalar": (), "channel": (columns,), "row": (rows,), "full": tuple(shape)}
    return [rng.standard_normal(sizes[p]).astype(np.float32) for p in epilogue.patterns]


def expected(
    epilogue: Epilogue, product: np.ndarray, operands: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """What an epilogue of EPILOGUES gives, in float64."""
    flat = product.astype(np.float64).reshape(-1, product.shape[-1])
    wide = [o.astype(np.float64).reshape(-1, 1) if p == "row" else o.reshape(flat.shape) if p == "full" else o
            for p, o in zip(epilogue.patterns, operands)]  # fmt: skip
    if epilogue is BIAS_RELU:
        found = [np.maximum(flat + wide[0], 0)]
    elif epilogue is NORM_RESIDUAL_RELU6:
        found = [np.clip(flat * wide[0] + wide[1] + wide[2], 0, 6)]
    elif epilogue is TWO_OUTPUTS:
        before = flat * wide[0] + wide[1]
        found = [np.tanh(before), before]
    else:
        found = [flat > wide[0]]
    return [f.reshape(product.shape) for f in found]


def check_epilogue(
    name: str, call: NativeCall, inputs: Sequence[np.ndarray], wanted: Sequence[np.ndarray]
) -> None:
    """A fused call gives `wanted` within rounding, whole and in chunks."""
    outputs = [TensorSpec(dtypes.bool if w.dtype == np.bool_ else F32, w.shape) for w in wanted]
    runner = NativeRunner(call, inputs, outputs)
    for chunks, threads in ((1, False), (3, False), (None, True)):
        for out in runner.outputs:
            out.view(np.uint8)[...] = 0xFF
        for found, right in zip(runner.run(chunks, threads), wanted, strict=True):
            assert found.shape == right.shape
            if right.dtype == np.bool_:
                # a product may round across the threshold
                assert (found == right).mean() > 0.999, name
            else:
                np.testing.assert_allclose(found, right, rtol=2e-5, atol=5e-5, err_msg=name)
