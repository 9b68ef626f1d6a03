"""Gradients of convolutions in NCHW, by kernels and by a library, against those in NHWC."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests import hardware
from tests.kernels.cuda.harness import run_call
from tests.kernels.cuda.libraries.form_runs import kinds_of, run_form
from tests.kernels.cuda.tiny_tiles import TINY, floats
from tests.kernels.launching import tensor
from tests.kernels.nn_cases import conv_attrs, node_spec
from tfjit.kernels.cuda.conv import conv, library_forms
from tfjit.kernels.cuda.conv.channels_first import by_channels_last
from tfjit.kernels.cuda.template.registry import find_builder
from tfjit.kernels.registry import NativeCall, NodeSpec, find_reference

FORMS = (
    ((1, 1), "SAME", (1, 1), ()),
    ((2, 3), "SAME", (1, 1), ()),
    ((1, 2), "EXPLICIT", (1, 1), (2, 0, 1, 3)),
    ((1, 1), "VALID", (2, 1), ()),
)
HOLDS = {"strides": (0, 3, 1, 2), "dilations": (0, 3, 1, 2)}


@pytest.fixture(autouse=True)
def tiny_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conv, "choose", lambda *sizes: TINY)
    monkeypatch.setattr(library_forms, "_LEAST_WORK", 0)
    monkeypatch.setattr(library_forms, "pays", lambda *_: True)
    monkeypatch.setattr(library_forms, "is_installed", lambda _: True)


def first(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array.transpose(0, 3, 1, 2))


def attrs_of_first(attrs: dict[str, Any]) -> dict[str, Any]:
    held: dict[str, Any] = {**attrs, "data_format": "NCHW"}
    for name, order in HOLDS.items():
        held[name] = [attrs[name][axis] for axis in order]
    pads = attrs.get("explicit_paddings")
    if pads:
        held["explicit_paddings"] = [*pads[:2], *pads[6:], *pads[2:6]]
    return held


def reference(op: str, arrays: list[np.ndarray], attrs: dict[str, Any]) -> np.ndarray:
    kernel = find_reference(op)
    assert kernel is not None
    return np.asarray(kernel(node_spec(op, arrays, attrs, arrays[-1]), arrays)[0])


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("op", ["Conv2DBackpropInput", "Conv2DBackpropFilter"])
def test_gradients(op: str, form: tuple[Any, ...]) -> None:
    x, w = floats(2, 7, 6, 4), floats(3, 2, 4, 6, seed=1)
    attrs = conv_attrs(*form)
    dy = floats(*reference("Conv2D", [x, w], attrs).shape, seed=2)
    if op == "Conv2DBackpropInput":
        last = [np.array(x.shape, np.int32), w, dy]
        given = [np.array(first(x).shape, np.int32), w, first(dy)]
        wanted = first(reference(op, last, attrs))
    else:
        last = [x, np.array(w.shape, np.int32), dy]
        given = [first(x), last[1], first(dy)]
        wanted = reference(op, last, attrs)
    spec = node_spec(op, given, attrs_of_first(attrs), wanted)
    call = find_builder(op)(spec)  # type: ignore[misc]
    (found,), _ = run_call(call, given, [tensor(wanted)])
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)
    (library,) = call.library_forms
    # the images stay as they are; the filter alone is in another order
    assert sorted(kinds_of(library)).index("routine") == 1 and len(library.launches) == 2
    (found,) = run_form(library, given, [tensor(wanted)])
    near = 1e-2 if hardware.is_chosen() else 2e-5
    np.testing.assert_allclose(found, wanted, rtol=near, atol=near)


@pytest.mark.parametrize("gives_images", [False, True])
def test_empty_calls_stay_empty(gives_images: bool) -> None:
    x = np.zeros((0, 4, 7, 6), np.float32)
    attrs = attrs_of_first(conv_attrs((1, 1), "SAME"))
    spec = node_spec("Conv2DBackpropInput", [x, x, x], attrs, x)
    seen: list[NodeSpec] = []

    def build(node: NodeSpec) -> NativeCall:
        seen.append(node)
        return NativeCall(())

    assert by_channels_last(spec, build, (0,), gives_images).launches == ()
    (inner,) = seen
    assert [s.shape for s in inner.inputs] == [(0, 7, 6, 4), (0, 4, 7, 6), (0, 4, 7, 6)]
    assert inner.outputs[0].shape == ((0, 7, 6, 4) if gives_images else (0, 4, 7, 6))
    assert inner.attrs["data_format"] == b"NHWC"
