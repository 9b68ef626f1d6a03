"""Cases of convolution and pooling on simulated GPUs against TensorFlow."""

from __future__ import annotations

from typing import Any

from tests.kernels.cuda.harness import run_call
from tests.kernels.launching import tensor
from tests.kernels.nn_cases import Case, assert_near, case_arrays, node_spec, run_tensorflow
from tfjit.kernels.cuda.template.registry import find_builder
from tfjit.kernels.registry import NativeCall


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
