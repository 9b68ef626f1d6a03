"""TFJIT_CPU: kernels held to a level of x86-64 have no machine code above it, and give the same
values.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tfjit.kernels.jit import target

# What the code of a level must hold, and what it must not: wider registers, masks, and for SSE any
# instruction of AVX, FMA or BMI.
WIDEST: Final = {"x86-64-v2": r"%xmm", "x86-64-v3": r"%ymm", "x86-64-v4": r"%zmm"}
HIGHER: Final = {
    "x86-64-v2": r"%[yz]mm|%k\d|^\s+(v[a-z]|bextr|blsr|andn[lq]|shlx|shrx|sarx|rorx|lzcnt|tzcnt|mulx)",
    "x86-64-v3": r"%zmm|%[xy]mm(1[6-9]|2\d|3[01])|%k\d",
    "x86-64-v4": r"^\s+(vpopcnt|vpdpb|vpmadd52|vdpbf16|vcvtneps2bf16|vpermb|vp2intersect|vgf2p8)",
}


def run(variables: dict[str, str], root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A Python process in the tree with those variables."""
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **variables},
        cwd=root,
        capture_output=True,
        text=True,
    )


def supported(level: str) -> bool:
    """Whether this CPU has a level."""
    try:
        target.features_of_level(level, target.present_features())
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("level", WIDEST)
def test_machine_code_stays_within_the_level(level: str, root: Path, tmp_path: Path) -> None:
    done = run(
        {"TFJIT_CPU": level, "TFJIT_CACHE_DIR": str(tmp_path)},
        root,
        "-m",
        "tests.kernels.level_code",
    )
    if not supported(level):
        assert done.returncode != 0 and f"TFJIT_CPU={level!r}: this CPU lacks" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    code = json.loads(done.stdout)
    assert set(code) == {"walker", "matmul", "loop", "softmax"}
    for name, parts in code.items():
        higher = [
            line for part in parts for line in part.splitlines() if re.search(HIGHER[level], line)
        ]
        assert not higher, (name, higher[:5])
        if name != "walker":
            assert any(re.search(WIDEST[level], part) for part in parts), name


def test_the_cache_keeps_levels_apart(root: Path) -> None:
    program = "from tfjit.kernels.jit.cache_key import environment; print(environment())"
    host = run({"TFJIT_CPU": ""}, root, "-c", program).stdout
    held = run({"TFJIT_CPU": "x86-64-v2"}, root, "-c", program).stdout
    assert "'x86-64-v2'" in held and "'x86-64-v2'" not in host


def test_a_level_above_the_cpu_is_refused() -> None:
    sse = ("cmov", "cx8", "fxsr", "mmx", "sse", "sse2")
    with pytest.raises(
        ValueError,
        match=r"TFJIT_CPU='x86-64-v3': this CPU lacks avx, avx2, .*Unset it, or name a lower level",
    ):
        target.features_of_level("x86-64-v3", sse)


def test_unknown_levels_are_refused(root: Path) -> None:
    done = run({"TFJIT_CPU": "avx2"}, root, "-c", "import tfjit; tfjit.Session()")
    assert "TFJIT_CPU='avx2': expected one of x86-64-v2, x86-64-v3, x86-64-v4" in done.stderr


@pytest.fixture
def fresh_target(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that has made no kernels yet."""
    if not target.levels_here():
        pytest.skip("levels are of x86-64")
    for name in ("_limit", "_described_level", "_compiled_level"):
        monkeypatch.setattr(target, name, "")
    cached = (target.host, target.level, target.code_target)
    for function in cached:
        function.cache_clear()
    yield
    monkeypatch.undo()
    for function in cached:
        function.cache_clear()


def test_linux_features_have_the_names_of_llvm() -> None:
    text = "processor\t: 0\nflags\t\t: pni sse4_1 sse4_2 abm bmi1 lahf_lm avx2\n\nflags: fma\n"
    assert target.linux_features(text) == {
        *("sse3", "sse4.1", "sse4.2", "crc32", "lzcnt", "bmi", "sahf", "avx2")
    }
    assert not target.linux_features("processor: 0\n")


def test_linux_tells_the_model_of_a_cpu() -> None:
    text = "vendor_id\t: X\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: Y\n\nmodel\t: 9\n"
    assert target.linux_model(text) == ("X", "26", "2", "Y")
    assert target.linux_model("processor: 0\nmodel: 3\n") == ()


@pytest.mark.skipif(not target.linux_model(target._first_cpu()), reason="Linux on x86-64")
def test_names_of_kernels_are_made_without_llvm(root: Path) -> None:
    """The library takes 40 MB, and a process that finds its kernels compiles nothing."""
    program = (
        "import sys; from tfjit.kernels.jit.cache_key import environment; environment();"
        "print('llvmlite' in sys.modules)"
    )
    assert run({"TFJIT_CPU": ""}, root, "-c", program).stdout.strip() == "False"


@pytest.mark.usefixtures("fresh_target")
def test_the_identity_of_a_target_follows_its_level() -> None:
    own = target.code_identity()
    target.compile_for("x86-64-v2")
    assert target.code_identity() != own and target.code_identity()[0] == "x86-64-v2"


def test_linux_and_llvm_agree_on_the_levels() -> None:
    import llvmlite.binding as llvm

    present = target.present_features()
    for feature, on in llvm.get_host_cpu_features().items():
        if feature in target.level_features("x86-64-v4"):
            assert (feature in present) == on, feature


@pytest.mark.usefixtures("fresh_target")
def test_texts_for_another_level() -> None:
    """Code of the process itself is for its own CPU."""
    own = target.code_target()
    target.describe_as("x86-64-v4")
    assert (target.host().isa, target.host().vector_bytes) == ("avx512", 64)
    assert target.code_target() == own
    target.compile_for("x86-64-v2")
    assert target.host().isa == "generic" and target.code_target().name == "x86-64-v2"


@pytest.mark.usefixtures("fresh_target")
def test_a_process_is_limited_before_it_makes_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "present_features", lambda: target.level_features("x86-64-v4"))
    monkeypatch.delenv("TFJIT_CPU", raising=False)
    assert target.limit_to("x86-64-v4") and target.level() == ""
    assert target.limit_to("x86-64-v3") and target.host().isa == "avx2"
    assert target.levels_here() == ("x86-64-v3", "x86-64-v2")
    assert target.limit_to("x86-64-v3") and not target.limit_to("x86-64-v2")
    assert target.level() == "x86-64-v3"
