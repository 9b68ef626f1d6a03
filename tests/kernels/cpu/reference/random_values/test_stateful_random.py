"""Random streams against TensorFlow's, bit for bit, over several runs of one node."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from tests.kernels.kernel_cases import Case
from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.op_defs import attrs as attr_values
from tfjit.framework.types import dtypes
from tfjit.kernels.cpu.random import libm, philox
from tfjit.kernels.random_stream import skipped
from tfjit.kernels.registry import NodeSpec, find_initial_state, find_reference

tf = pytest.importorskip("tensorflow")

SHAPES = ((1003,), (2, 3, 5), (), (0,), (1,), (7,))
SEEDS = ((1, 2), (87654321, 42), (0, 2**31 - 1), (-5, 7), (2**40 + 3, 2**50))
FLOATS = ("float32", "float64", "float16", "bfloat16")


def shape_input(shape: tuple[int, ...]) -> np.ndarray:
    return np.array(shape, np.int32)


def nodes() -> list[Case]:
    cases = []
    for seed, seed2 in SEEDS:
        for dtype in FLOATS:
            for op in ("RandomUniform", "RandomStandardNormal", "TruncatedNormal"):
                for shape in SHAPES[:2] if (seed, seed2) != SEEDS[0] else SHAPES:
                    cases.append(
                        Case(
                            op,
                            [shape_input(shape)],
                            {"seed": seed, "seed2": seed2, "dtype": dtypes.as_dtype(dtype)},
                        )
                    )
        seeds = {"seed": seed, "seed2": seed2}
        for kind in (np.int32, np.int64):
            for low, high in ((0, 10), (-7, 12345), (-(2**31), 2**31 - 1)):
                cases.append(
                    Case("RandomUniformInt", [shape_input((501,)), kind(low), kind(high)], seeds)
                )
        for value in (
            np.arange(10, dtype=np.float32),
            np.arange(24, dtype=np.int32).reshape(6, 4),
            np.zeros(1),
            np.zeros((0, 3)),
            np.float32(3),
        ):
            cases.append(Case("RandomShuffle", [np.asarray(value)], seeds))
        logits = np.log(np.array([[1, 2, 3, 4.0], [4, 0.1, 0.1, 1]], np.float32))
        cases.append(Case("Multinomial", [logits[:1], np.int32(101)], seeds))
        cases.append(Case("Multinomial", [logits, np.int32(8)], seeds))
    return [Case(c.op, [np.asarray(v) for v in c.inputs], c.attrs) for c in cases]


def test_stateful_streams_bit_for_bit() -> None:
    cases = nodes()
    with tf.Graph().as_default() as graph:
        fetched = []
        for case in cases:
            attrs, types = case.node()
            protos = {
                k: tf.compat.v1.AttrValue.FromString(attr_values.to_proto(v).SerializeToString())
                for k, v in attrs.items()
            }
            inputs = [tf.constant(v) for v in case.inputs]
            fetched.append(
                graph.create_op(
                    case.op, inputs, [tf.as_dtype(d.name) for d in types], attrs=protos
                ).outputs[0]
            )
        config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1)
        with tf.compat.v1.Session(config=config) as session:
            runs = [session.run(fetched) for _ in range(3)]
    wrong = []
    for i, case in enumerate(cases):
        attrs, _ = case.node()
        empty = NodeSpec("node", case.op, attrs, (), ())
        kernel, make = find_reference(case.op), find_initial_state(case.op)
        assert make is not None and kernel is not None
        node = NodeSpec("node", case.op, attrs, (), (), state=make(empty))
        for run in runs:
            (found,) = kernel(node, case.inputs)
            expected = np.asarray(run[i])
            if (
                found.dtype != expected.dtype
                or found.shape != expected.shape
                or found.tobytes() != expected.tobytes()
            ):
                wrong.append(f"{case}: {int((found != expected).sum())} of {found.size} differ")
                break
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong[:20])


def stateless_nodes() -> list[Case]:
    cases = []
    for seed in ((1, 2), (-3, 2**40), (0, 0)):
        pair = np.array(seed, np.int64)
        for dtype in FLOATS:
            for op in (
                "StatelessRandomUniform",
                "StatelessRandomNormal",
                "StatelessTruncatedNormal",
            ):
                cases.append(
                    Case(op, [shape_input((303,)), pair], {"dtype": dtypes.as_dtype(dtype)})
                )
                key, counter = np.array([7], np.uint64), np.array(seed, np.int64).view(np.uint64)
                cases.append(
                    Case(
                        f"{op}V2",
                        [shape_input((11, 3)), key, counter, np.int32(1)],
                        {"dtype": dtypes.as_dtype(dtype)},
                    )
                )
        for kind in ("int32", "int64", "uint32", "uint64"):
            cases.append(
                Case(
                    "StatelessRandomUniformFullInt",
                    [shape_input((37,)), pair],
                    {"dtype": dtypes.as_dtype(kind)},
                )
            )
        for kind in (np.int32, np.int64):
            cases.append(
                Case(
                    "StatelessRandomUniformInt",
                    [shape_input((37,)), pair, kind(-5), kind(1000)],
                    {"dtype": dtypes.as_dtype(kind)},
                )
            )
        cases.append(Case("StatelessRandomGetKeyCounter", [pair]))
        cases.append(
            Case(
                "StatelessMultinomial",
                [np.log(np.array([[1, 2, 3.0]], np.float32)), np.int32(33), pair],
            )
        )
        cases.append(
            Case(
                "StatelessShuffle",
                [np.arange(9), np.array([7], np.uint64), np.array([1, 2], np.uint64), np.int32(1)],
            )
        )
    return [Case(c.op, [np.asarray(v) for v in c.inputs], c.attrs) for c in cases]


def test_stateless_streams_bit_for_bit() -> None:
    from tests.kernels.kernel_cases import Oracle, ours

    cases = stateless_nodes()
    oracle = Oracle(cases)
    wrong = []
    for i, case in enumerate(cases):
        expected, reason = oracle.run(i, case)
        found, message = ours(case)
        if expected is None or found is None:
            wrong.append(f"{case}: {reason} {message}")
        elif any(a.tobytes() != b.tobytes() or a.dtype != b.dtype for a, b in zip(expected, found)):
            wrong.append(f"{case}: {expected[0].reshape(-1)[:4]} {found[0].reshape(-1)[:4]}")
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong[:20])


def test_libm_equals_the_c_library() -> None:
    library = ctypes.CDLL("libm.so.6")
    for name in ("logf", "sinf", "cosf"):
        function = getattr(library, name)
        function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float]
    rng = np.random.default_rng(3)
    unit = np.maximum(rng.random(20000).astype(np.float32), np.float32(1e-7))
    assert np.array_equal(
        libm.logf(unit), np.array([library.logf(float(v)) for v in unit], np.float32)
    )
    turn = (rng.random(20000) * 2 * np.pi).astype(np.float32)
    sine, cosine = libm.sincosf(turn)
    assert np.array_equal(sine, np.array([library.sinf(float(v)) for v in turn], np.float32))
    assert np.array_equal(cosine, np.array([library.cosf(float(v)) for v in turn], np.float32))


def test_counter_carries_into_its_high_half() -> None:
    state = np.array([2**64 - 2, 5, 7], np.uint64)
    assert skipped(state, 3).tolist() == [1, 6, 7]
    far = philox.blocks(state, 0, 4)
    assert np.array_equal(far[2:], philox.blocks(np.array([0, 6, 7], np.uint64), 0, 2))


def test_seeds_zero_differ_each_time() -> None:
    assert not np.array_equal(philox.seeded(0, 0), philox.seeded(0, 0))


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "message"),
    [
        (
            "RandomUniformInt",
            [shape_input((2,)), np.int32(5), np.int32(5)],
            {},
            "Need minval < maxval, got 5 >= 5",
        ),
        (
            "RandomUniform",
            [np.array([-1], np.int32)],
            {"dtype": dtypes.float32},
            "Dimension -1 must be >= 0",
        ),
        (
            "Multinomial",
            [np.zeros((2, 0), np.float32), np.int32(1)],
            {},
            "num_classes should be positive, got 0",
        ),
    ],
)
def test_bad_arguments(op: str, inputs: list[Any], attrs: dict[str, Any], message: str) -> None:
    case = Case(op, [np.asarray(v) for v in inputs], attrs)
    full, _ = case.node()
    make, kernel = find_initial_state(op), find_reference(op)
    assert make is not None and kernel is not None
    node = NodeSpec("node", op, full, (), ())
    with pytest.raises(InvalidArgumentError, match=message.replace("(", "\\(")):
        kernel(NodeSpec("node", op, full, (), (), state=make(node)), case.inputs)
