"""Interleaving hints in a module's text."""

from __future__ import annotations

import numpy as np
import pytest

from tfjit.framework.types import dtypes as d
from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.executor import table_executor
from tfjit.kernels.ir.scalar_program import Program, ScalarOp
from tfjit.kernels.jit.loop_metadata import interleave_loops
from tfjit.kernels.jit.store import store
from tfjit.kernels.source import KernelSource

MODULE = """
define void @f(ptr %p) {
entry:
  br label %loop
loop:
  %c = icmp eq i32 0, 0
  br i1 %c, label %loop, label %end
end:
  ret void
}
define void @g() {
entry:
  br label %end
end:
  ret void
}
!0 = !{}
!7 = !{!0}
"""

KERNEL = """
from tfjit.kernels import vmath as vm
from tfjit.kernels.codegen.intrinsics import ld, ptr_f32, st_out, word


def kernel(args, chunk, nchunks):
    x = ptr_f32(word(args, 3))
    y = ptr_f32(word(args, 4))
    for i in range(word(args, 2)):
        st_out(y, i, vm.exp_f32(vm.tanh_f32(ld(x, i))), 0)
"""


def test_only_back_edges_get_the_hint() -> None:
    text = interleave_loops(MODULE, 4)
    hinted = [line for line in text.splitlines() if "!llvm.loop !" in line]
    assert hinted == ["  br i1 %c, label %loop, label %end, !llvm.loop !9"]
    assert '!8 = !{!"llvm.loop.interleave.count", i32 4}' in text
    assert "!9 = distinct !{!9, !8}" in text


def test_names_in_quotes_are_the_same_names() -> None:
    branch = '  br i1 %"c", label %"loop", label %"end"'
    text = interleave_loops(f"define void @f() {{\nloop:\n{branch}\nend:\n  ret void\n}}\n", 4)
    assert f"{branch}, !llvm.loop !1" in text


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 63, 64, 65, 1000])
def test_values_do_not_depend_on_the_hint(size: int) -> None:
    x = np.linspace(-3, 3, size, dtype="f4")
    results = []
    for interleave in (0, 2, 4):
        source = KernelSource(KERNEL, interleave=interleave)
        store.compile([source])
        entries = store.lookup(source)
        assert entries is not None
        y = np.full(size + 1, 7, "f4")
        block = np.array([0, 0, size, x.ctypes.data, y.ctypes.data], np.int64)
        table = table_executor.StepTable(0, [(entries["kernel"], block.ctypes.data, 1)])
        assert table_executor.get()(table.words) == 0
        assert y[-1] == 7
        results.append(y[:-1])
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_blocks_at_a_time_follow_the_chain_and_what_it_keeps() -> None:
    def program(ops: list[ScalarOp], inputs: int = 1) -> Program:
        return Program((d.float32,) * inputs, tuple(ops), (inputs + len(ops) - 1,))

    chain = program([ScalarOp("Tanh", (k,), d.float32) for k in range(8)])
    assert cost_model.live_values(chain) == 1
    assert cost_model.interleave_for(chain, 1 << 20) == cost_model.DEEP_INTERLEAVE
    assert cost_model.interleave_for(chain, cost_model.LONG_LOOP) == cost_model.INTERLEAVE
    assert cost_model.interleave_for(chain, 10) == 0
    assert cost_model.interleave_for(program([ScalarOp("Relu", (0,), d.float32)]), 1 << 20) == 0
    # six values wait for their sum
    wide = program(
        [
            *(ScalarOp("Exp", (k % 3,), d.float32) for k in range(6)),
            ScalarOp("AddN", (3, 4, 5, 6, 7, 8), d.float32),
        ],
        3,
    )
    assert cost_model.live_values(wide) > cost_model.DEEP_VALUES
    assert cost_model.interleave_for(wide, 1 << 20) == cost_model.INTERLEAVE
