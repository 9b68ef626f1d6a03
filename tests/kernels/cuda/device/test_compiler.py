"""Texts of CUDA kernels become cubins, without a GPU and without a driver."""

from __future__ import annotations

import pytest

from tests.kernels.cuda.texts import SCALE, need_numba_cuda
from tfjit.kernels.jit.object_file import Refused

need_numba_cuda()

from tfjit.kernels.cuda.device import compiler  # noqa: E402

TEXT = SCALE.format(factor=3)


def compiled(text: str = TEXT, architecture: str = "sm_90") -> bytes:
    return compiler.compile_text(text, ("kernel",), 3, "<text>", "tfjit_unit", architecture).code


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_90a", "sm_100", "sm_120"])
def test_a_cubin_for_each_architecture(architecture: str) -> None:
    obj = compiler.compile_text(TEXT, ("kernel",), 3, "<text>", "tfjit_unit", architecture)
    assert obj.symbols == {"kernel": "tfjit_unit_kernel"}
    assert obj.needs == (architecture,)
    assert obj.code[:4] == b"\x7fELF"
    assert b"\0.text.tfjit_unit_kernel\0" in obj.code


def test_one_text_gives_one_cubin() -> None:
    assert compiled() == compiled()
    assert compiled() != compiled(architecture="sm_80")


def test_two_entries() -> None:
    text = f"{TEXT}\ndef second(a0, a1, a2):\n    pointer(a0)[a1] = float32(a2)\n"
    obj = compiler.compile_text(text, ("kernel", "second"), 3, "<text>", "u", "sm_90")
    assert obj.symbols == {"kernel": "u_kernel", "second": "u_second"}
    assert all(f"\0.text.{name}\0".encode() in obj.code for name in obj.symbols.values())


def test_ptx_has_the_arguments_and_no_debug_information() -> None:
    ptx = compiler.ptx_of(TEXT, 3, "sm_90")
    assert ".visible .entry kernel(" in ptx
    assert ptx.count("kernel_param_") == 6  # three parameters, each read once
    assert ".target sm_90" in ptx and "debug" not in ptx and "NumbaEnv" not in ptx
    assert "ld.f32" in ptx or "ld.global.f32" in ptx
    assert "approx" not in ptx


def test_resources() -> None:
    found = compiler.resources_of(TEXT, 3, "sm_80")
    assert 4 <= found.registers <= 32
    assert (found.shared_bytes, found.local_bytes) == (256, 0)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("source[i] / 'x'", "TypingError"),
        ("cuda.nothing(i)", "nothing"),
        ("i << <", "SyntaxError"),
        ("undefined_name", "undefined_name"),
    ],
)
def test_refusal_names_the_line(wrong: str, reason: str) -> None:
    text = TEXT.replace("shared[cuda.threadIdx.x] = source[i]", f"value = {wrong}")
    with pytest.raises(Refused) as caught:
        compiled(text)
    first, _, rest = str(caught.value).partition("\n")
    assert first == f"line {text[: text.index(wrong)].count(chr(10)) + 1}: value = {wrong}"
    assert reason in rest


def test_refusal_of_a_missing_entry() -> None:
    with pytest.raises(Refused, match="defines no function 'other'"):
        compiler.compile_text(TEXT, ("other",), 3, "<text>", "u", "sm_90")


def test_refusal_of_an_unknown_architecture() -> None:
    with pytest.raises(Refused, match=r"compute capability 1\.3"):
        compiled(architecture="sm_13")


def test_a_newer_gpu_has_ptx_that_its_driver_compiles() -> None:
    code = compiled(architecture="sm_990")
    assert b".visible .entry tfjit_unit_kernel(" in code and code.endswith(b"\0")
    assert b".target sm_" in code and b".target sm_990" not in code
    text = f"{TEXT}\ndef second(a0, a1, a2):\n    pointer(a0)[a1] = float32(a2)\n"
    with pytest.raises(Refused, match="nvJitLink does not know sm_990"):
        compiler.compile_text(text, ("kernel", "second"), 3, "<text>", "u", "sm_990")


def test_the_text_leaves_nothing_behind() -> None:
    import linecache
    import sys

    compiled()
    assert "tfjit_unit" not in sys.modules
    assert "<text>" not in linecache.cache
