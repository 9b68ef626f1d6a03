"""Cases of convolution and pooling on simulated GPUs against TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.kernels.cuda.harness import run_call
from tests.kernels.launching import tensor
from tests.kernels.nn_cases import Case, assert_near, case_arrays, node_spec, run_tensorflow
from tfjit.kernels.cuda.template.registry import find_builder
from tfjit.kernels.registry import NativeCall, find_reference


def check(case: Case, **attrs: Any) -> NativeCall:
    """The launches of a case's node give TensorFlow's values. attrs: beside the case's own."""
    arrays = case_arrays(case)
    wanted = run_tensorflow(case.op, arrays, {**case.attrs, **attrs})
    builder = find_builder(case.op)
    assert builder is not None
    call = builder(node_spec(case.op, arrays, {**case.attrs, **attrs}, wanted, case.ints))
    (found,), _ = run_call(call, arrays, [tensor(wanted)])
    assert_near(found, wanted, case.terms)
    return call


def check_in_planes(op: str, arrays: Sequence[np.ndarray], attrs: Mapping[str, Any]) -> NativeCall:
    """The launches for NCHW give the reference's values for NHWC, with axes exchanged.

    arrays, attrs: of the node for NHWC. Every array of 4 dims but a filter holds images.
    """
    reference, builder = find_reference(op), find_builder(op)
    assert reference is not None and builder is not None
    (wanted,) = reference(node_spec(op, arrays, attrs, arrays[0]), arrays)
    makes_filter = op.endswith("Filter")
    filters = () if makes_filter else (1,)
    planes = [
        np.ascontiguousarray(np.transpose(a, (0, 3, 1, 2)))
        if a.ndim == 4 and k not in filters
        else a
        for k, a in enumerate(arrays)
    ]
    order = (0, 3, 1, 2)
    wanted = np.asarray(wanted) if makes_filter else np.transpose(wanted, order)
    held = {name: [v[k] for k in order] if name in ("strides", "dilations") else v
            for name, v in attrs.items()}  # fmt: skip
    pads = list(attrs.get("explicit_paddings", ()))
    if pads:
        held["explicit_paddings"] = [p for k in order for p in pads[2 * k : 2 * k + 2]]
    spec = node_spec(op, planes, {**held, "data_format": "NCHW"}, np.ascontiguousarray(wanted))
    call = builder(spec)
    (found,), _ = run_call(call, planes, spec.outputs)
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)
    return call
