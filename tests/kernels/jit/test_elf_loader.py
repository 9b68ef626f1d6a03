"""Objects load without LLVM, run as LLVM's would, and broken ones are turned away."""

from __future__ import annotations

import ctypes
import math
from pathlib import Path

import pytest

from tfjit.kernels.jit import elf_loader, loader
from tfjit.kernels.jit.object_file import ObjectFile

TEXT = """
@table = private constant [2 x i64] [i64 40, i64 2]
@count = internal global i64 0
@functions = private constant [1 x ptr] [ptr @tfjit_test_{0}_add]

declare double @cos(double)

define i64 @tfjit_test_{0}_add(i64 %x) {{
  %at = getelementptr [2 x i64], ptr @table, i64 0, i64 %x
  %y = load i64, ptr %at
  ret i64 %y
}}

define i64 @tfjit_test_{0}_by_pointer(i64 %x) {{
  %f = load ptr, ptr @functions
  %y = call i64 %f(i64 %x)
  ret i64 %y
}}

define i64 @tfjit_test_{0}_count() {{
  %old = load i64, ptr @count
  %new = add i64 %old, 1
  store i64 %new, ptr @count
  ret i64 %new
}}

define double @tfjit_test_{0}_cos(double %x) {{
  %y = call double @cos(double %x)
  %z = fadd double %y, 0.5
  ret double %z
}}
"""


def compiled(name: str) -> ObjectFile:
    functions = [f"tfjit_test_{name}_{part}" for part in ("add", "by_pointer", "count", "cos")]
    obj = loader.compile_ir(TEXT.format(name), functions)
    if not elf_loader.is_for_here(obj.code):
        pytest.skip("LLVM loads the objects of this machine")
    return obj


def addresses_of(obj: ObjectFile) -> dict[str, int]:
    return elf_loader.load(obj.code, obj.symbols, {n: elf_loader.address_of(n) for n in obj.needs})


def test_an_object_runs() -> None:
    found = addresses_of(compiled("runs"))
    number = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    assert number(found["tfjit_test_runs_add"])(0) == 40
    assert number(found["tfjit_test_runs_by_pointer"])(1) == 2
    cosine = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(found["tfjit_test_runs_cos"])
    assert cosine(0.3) == math.cos(0.3) + 0.5


def test_data_is_writable_and_code_is_not() -> None:
    address = addresses_of(compiled("pages"))["tfjit_test_pages_count"]
    count = ctypes.CFUNCTYPE(ctypes.c_int64)(address)
    assert [count(), count(), count()] == [1, 2, 3]
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, _, rest = line.partition("-")
        end, permissions = rest.split()[:2]
        if int(begin, 16) <= address < int(end, 16):
            assert permissions.startswith("r-x")
            return
    pytest.fail("the code is in no page")


def test_missing_functions_are_found_missing() -> None:
    assert elf_loader.address_of("memset") and elf_loader.address_of("logf")
    assert not elf_loader.address_of("tfjit_no_such_function")
    obj = compiled("missing")
    with pytest.raises(elf_loader.Unsupported, match="has no target"):
        elf_loader.load(obj.code, obj.symbols, {})


def test_broken_objects_are_turned_away() -> None:
    obj = compiled("broken")
    code = obj.code
    assert not elf_loader.is_for_here(b"") and not elf_loader.is_for_here(code[:4])
    for size in range(64, len(code), 97):
        with pytest.raises(elf_loader.Unsupported):
            elf_loader.load(code[:size], obj.symbols, {"cos": 1})


def test_the_loader_prefers_it(monkeypatch: pytest.MonkeyPatch) -> None:
    obj = compiled("preferred")
    monkeypatch.delattr(loader, "_load_by_llvm")
    assert all(loader.load(obj).values())


def test_llvm_loads_other_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elf_loader, "is_for_here", lambda code: False)
    functions = [f"tfjit_test_other_{part}" for part in ("add", "by_pointer", "count", "cos")]
    found = loader.load(loader.compile_ir(TEXT.format("other"), functions))
    number = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    assert number(found["tfjit_test_other_by_pointer"])(0) == 40
