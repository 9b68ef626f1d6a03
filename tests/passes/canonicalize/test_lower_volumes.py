"""Convolutions and pooling of volumes by those of images: values of the references and TensorFlow's,
on the CPU and as a program of a GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.simulated_gpu import simulated_gpu
from tfjit.framework.types import dtypes
from tfjit.passes.canonicalize.lower_volumes import lower_conv3d, lower_pool3d
from tfjit.passes.ir.declined import Declined
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.pipeline_spec import Pipeline
from tfjit.passes.text.text_format import parse_graph

RNG = np.random.default_rng(5)
X = RNG.normal(size=(2, 5, 4, 6, 3)).astype(np.float32)
W = RNG.normal(size=(3, 2, 3, 3, 4)).astype(np.float32)
VOLUMES = ("Conv3D", "MaxPool3D", "AvgPool3D")
ONES = (1, 1, 1)
Case = tuple[str, tuple[int, int, int], tuple[int, int, int], str]
CASES: list[Case] = [
    ("SAME", ONES, ONES, "NDHWC"),
    ("VALID", (2, 1, 2), ONES, "NDHWC"),
    ("SAME", (3, 2, 1), ONES, "NDHWC"),
    ("SAME", (4, 1, 1), ONES, "NDHWC"),  # places that no window reads
    ("VALID", ONES, (2, 1, 2), "NDHWC"),
    ("SAME", (2, 1, 1), ONES, "NCDHW"),
]


def spread(values: tuple[int, int, int], layout: str) -> list[int]:
    return [1, *values, 1] if layout == "NDHWC" else [1, 1, *values]


def build(module: Any, case: Case, dtype: Any = None) -> tuple[Any, Any, dict[str, Any]]:
    """Return graph, placeholder and fetches: each op over volumes with its gradients."""
    padding, strides, dilations, layout = case
    first = layout == "NCDHW"
    dtype = dtype or module.float32
    v1, options = module.compat.v1, {"padding": padding, "data_format": layout}
    windows = {"ksize": spread((2, 3, 2), layout), "strides": spread(strides, layout), **options}
    with v1.Graph().as_default() as graph:
        x = v1.placeholder(module.float32, X.shape, name="x")
        value = module.cast(module.transpose(x, [0, 4, 1, 2, 3]) if first else x, dtype)
        w = module.cast(module.constant(W), dtype)
        raw = module.raw_ops
        made = {
            "conv": raw.Conv3D(
                input=value,
                filter=w,
                strides=spread(strides, layout),
                dilations=spread(dilations, layout),
                **options,
            ),
            "max": raw.MaxPool3D(input=value, **windows),
            "mean": raw.AvgPool3D(input=value, **windows),
        }
        fetches = {}
        for name, y in made.items():
            inputs = [x, w] if name == "conv" else [x]
            scale = module.cast(module.range(int(np.prod(y.shape.as_list()))), dtype)
            loss = y * module.reshape(module.sin(scale), y.shape)
            fetches[name] = [y, *v1.gradients(loss, inputs)]
    return graph, x, fetches


def agree(got: dict[str, Any], wanted: dict[str, Any], near: float = 2e-5) -> None:
    for name, values in wanted.items():
        for index, (a, b) in enumerate(zip(got[name], values, strict=True)):
            assert a.dtype == b.dtype and a.shape == b.shape, name
            a, b = (np.asarray(v, np.float64) for v in (a, b))
            np.testing.assert_allclose(a, b, near, 10 * near, err_msg=f"{name}, {index}")


def run(graph: Any, fetches: Any, x: Any, **options: Any) -> dict[str, Any]:
    with tfjit.Session(graph=graph, **options) as session:
        found: dict[str, Any] = session.run(fetches, {x: X})
        nodes = session.explain(fetches, {x: X.shape}).nodes
    assert ("passes" in options) == any(node.op.startswith(VOLUMES) for node in nodes)
    return found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_of_the_references(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")
    graph, x, fetches = build(tfjit, case)
    passes = Pipeline.default().without("simplify", "fold_constants")
    agree(run(graph, fetches, x), run(graph, fetches, x, passes=passes))


def test_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")
    graph, x, fetches = build(tfjit, CASES[1], dtypes.float16)
    passes = Pipeline.default().without("simplify", "fold_constants")
    agree(run(graph, fetches, x), run(graph, fetches, x, passes=passes), 2e-3)


@pytest.mark.parametrize("case", [CASES[0], CASES[1], CASES[3]], ids=str)
def test_tensorflows_values_compiled(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, x, fetches = build(tf, case)
    with tf.compat.v1.Session(graph=graph) as session:
        wanted = session.run(fetches, {x: X})
    monkeypatch.setenv("TFJIT_JIT", "eager")
    agree(run(graph, fetches, x), wanted)


def test_they_are_one_program_of_a_gpu() -> None:
    small: Case = ("SAME", (2, 2, 2), ONES, "NDHWC")
    graph, x, fetches = build(tfjit, small)
    wanted = run(graph, fetches, x)
    with simulated_gpu():
        for node in graph.get_operations():
            if node.type not in ("Placeholder", "Range"):
                node._set_device("/device:GPU:0")
        with tfjit.Session(graph=graph) as session:
            for _ in range(2):
                agree(session.run(fetches, {x: X}), wanted)
                assert session.wait_until_compiled(300)
            nodes = session.explain(fetches, {x: X.shape}).nodes
            (program,) = (node.group for node in nodes if node.op == "_Offload")
            assert "by the host" not in program


@pytest.mark.parametrize(
    ("op", "attrs", "reason"),
    [
        ("Conv3D(x, w)", "strides=[1, 1, 1, 1, 1]", "'x' is not known"),
        ("Conv3D(y, x)", "strides=[1, 1, 1, 1, 1]", "is not known"),
        ("MaxPool3D(y)", "ksize=[1, 1, 1, 1, 3], strides=[1, 1, 1, 1, 3]", "batch or channels"),
        ("AvgPool3D(y, ^w)", "ksize=[1, 2, 1, 1, 1], strides=[1, 1, 1, 1, 1]", "waits for other"),
        ("MaxPool3D(e)", "ksize=[1, 2, 1, 1, 1], strides=[1, 1, 1, 1, 1]", "is empty"),
        ("Conv3D(big, w)", "strides=[1, 1, 1, 1, 1]", "more than 1 GiB"),
    ],
)
def test_what_is_left(op: str, attrs: str, reason: str) -> None:
    graph = parse_graph(
        f"""
        x   = Placeholder() -> float32<?,5,4,6,3>
        y   = Placeholder() -> float32<2,5,4,6,3>
        e   = Placeholder() -> float32<0,5,4,6,3>
        big = Placeholder() -> float32<64,64,128,128,3>
        w   = Placeholder() -> float32<3,2,3,3,4>
        z   = {op[:-1]}, {attrs}, padding=b'SAME') -> float32<?>
        """
    )
    node = graph.node("z")
    rule = lower_conv3d if node.op == "Conv3D" else lower_pool3d
    sizes = {"big": (64, 64, 128, 128, 4), "e": (0, 5, 4, 6, 3)}
    node.output_shapes = (sizes.get(op[7:-4], (2, 5, 4, 6, 4)),)
    if op.startswith("MaxPool3D(e"):
        node.output_shapes = (sizes["e"],)
    with pytest.raises(Declined, match=reason):
        rule(graph, PassContext(), node)
