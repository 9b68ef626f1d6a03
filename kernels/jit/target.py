"""Describe the CPU that kernels are compiled for.

The description has instruction sets, vector width, registers and caches, and decides tiles; LLVM's
name and feature string of the CPU are part of cache keys. The CPU is the host, or a level of x86-64
below it that TFJIT_CPU names. Only LLVM's words for it need llvmlite, which compiling needs too.
"""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Collection
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

from tfjit.framework import settings

_SYS_CACHE = Path("/sys/devices/system/cpu/cpu0/cache")
_X86: Final = ("x86_64", "amd64")


@dataclass(frozen=True, slots=True)
class CpuFeatures:
    """Properties of a CPU that generated texts depend on.

    features: by LLVM's names. isa: "avx512", "avx2", "neon" or "generic". vector_bytes: of one
    register. vector_registers: architectural count. l1_bytes, l2_bytes: data caches of one core.
    l3_bytes: of the whole chip, shared (0 when there is none).
    """

    features: frozenset[str]
    isa: str
    vector_bytes: int
    vector_registers: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int

    def lanes(self, itemsize: int) -> int:
        """Return the number of `itemsize`-byte elements in a vector register."""
        return self.vector_bytes // itemsize


@dataclass(frozen=True, slots=True)
class CodeTarget:
    """The CPU as LLVM is told of it. flags: LLVM's feature string."""

    name: str
    flags: str


def classify(machine: str, enabled: frozenset[str]) -> tuple[str, int, int]:
    """Return the isa, vector bytes and vector registers of a CPU.

    machine: the architecture's name. enabled: LLVM's features.
    """
    if machine in _X86:
        if {"avx512f", "avx512vl"} <= enabled:
            return "avx512", 64, 32
        if {"avx2", "fma"} <= enabled:
            return "avx2", 32, 16
        return "generic", 16, 16
    if machine in ("aarch64", "arm64"):
        return "neon", 16, 32
    return "generic", 16, 16


def _size(text: str) -> int:
    text = text.strip().upper()
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
    return int(text.rstrip("KMG")) * scale


def cache_sizes(root: Path = _SYS_CACHE) -> tuple[int, int, int]:
    """Return the bytes of L1 data, L2 and L3 cache.

    Unknown sizes are replaced by common ones; L3 is 0 when only it is unknown.
    """
    sizes = {1: 0, 2: 0, 3: 0}
    try:
        for entry in sorted(root.glob("index*")):
            if (entry / "type").read_text().strip() in ("Data", "Unified"):
                sizes[int((entry / "level").read_text())] = _size((entry / "size").read_text())
    except (OSError, ValueError, KeyError):
        pass
    if not sizes[1]:
        return 32 << 10, 512 << 10, 8 << 20
    return sizes[1], sizes[2] or 256 << 10, sizes[3]


# The features that each level adds, by LLVM's names (x86-64 psABI, "Micro-architecture levels").
_BASE: Final = ("cmov", "cx8", "fxsr", "mmx", "sse", "sse2")
_ADDED: Final = {
    "x86-64-v2": ("crc32", "cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"),
    "x86-64-v3": ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"),
    "x86-64-v4": ("avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"),
}
LEVELS: Final = tuple(_ADDED)
"""The levels of x86-64 that kernels are compiled for, lowest first."""
# LLVM vectorises with 256 bits for Intel's CPUs, because the clock of the early ones fell with 512.
# The GEMM tiles are 512 bits wide on all of them. A chain of exp, tanh and sigmoid on a Sapphire
# Rapids gains 11 to 24 % from 512-bit vectors, a softmax 6 to 14 %.
_TUNING: Final = {"avx512": ",-prefer-256-bit"}


# Linux's names of features for which LLVM has others, or several
_LINUX_NAMES: Final = {
    "abm": ("lzcnt",),
    "bmi1": ("bmi",),
    "lahf_lm": ("sahf",),
    "pni": ("sse3",),
    "sse4_1": ("sse4.1",),
    "sse4_2": ("sse4.2", "crc32"),
}
_CPU_INFO: Final = Path("/proc/cpuinfo")
_FIRST_CPU: Final = 1 << 14  # bytes; the kernel writes one processor after the other


def linux_features(text: str) -> frozenset[str]:
    """Return the features of the first processor, by LLVM's names.

    text: the beginning of /proc/cpuinfo on x86-64. Features that the levels do not ask for keep
    Linux's names.
    """
    line = next((line for line in text.split("\n") if line.startswith("flags")), "")
    names = line.partition(":")[2].split()
    return frozenset(chain.from_iterable(_LINUX_NAMES.get(name, (name,)) for name in names))


def linux_model(text: str) -> tuple[str, ...]:
    """Return the vendor, family and model of the first processor.

    text: the beginning of /proc/cpuinfo on x86-64. A text without them gives ().
    """
    found: dict[str, str] = {}
    for line in text.split("\n"):
        name, _, value = line.partition(":")
        found.setdefault(name.strip(), value.strip())
    names = ("vendor_id", "cpu family", "model", "model name")
    return tuple(found[name] for name in names) if all(map(found.get, names)) else ()


def _first_cpu() -> str:
    """Return the beginning of /proc/cpuinfo on x86-64, else "".

    It describes the first processor.
    """
    if platform.machine().lower() not in _X86:
        return ""
    try:
        with _CPU_INFO.open() as file:
            return file.read(_FIRST_CPU)
    except OSError:
        return ""


@functools.cache
def present_features() -> frozenset[str]:
    """Return the features of the process's CPU, by LLVM's names.

    Linux tells those that the system lets programs use. Elsewhere llvmlite is imported.
    """
    found = linux_features(_first_cpu())
    if found:
        return found
    import llvmlite.binding as llvm

    from tfjit.kernels.jit.loader import fork_lock

    with fork_lock():
        features = llvm.get_host_cpu_features()
    return frozenset(feature for feature, on in features.items() if on)


_limit = ""  # the level that `limit_to` has set


@functools.cache
def level() -> str:
    """Return the level that holds for this process, or "".

    TFJIT_CPU names it, or `limit_to` has set it. A process keeps its first answer.
    """
    if _limit:
        return _limit
    with settings.using(os.environ):
        return settings.text("TFJIT_CPU")


def limit_to(name: str) -> bool:
    """Hold this process to a level of its CPU, as TFJIT_CPU does.

    Returns False, and changes nothing, if kernels of another width may have been made already.
    """
    global _limit
    if classify(platform.machine().lower(), level_features(name))[0] == _host_isa():
        return True
    if host.cache_info().currsize or code_target.cache_info().currsize:
        return False
    _limit = name
    level.cache_clear()
    return True


def level_features(name: str) -> frozenset[str]:
    """Return the features of an x86-64 level, by LLVM's names."""
    enabled = set(_BASE)
    for level_name in LEVELS[: LEVELS.index(name) + 1]:
        enabled.update(_ADDED[level_name])
    return frozenset(enabled)


def features_of_level(name: str, present: Collection[str]) -> frozenset[str]:
    """Return the features of an x86-64 level, by LLVM's names.

    present: those of the host. Raises ValueError when it lacks one: kernels could not run here.
    """
    enabled = level_features(name)
    missing = sorted(enabled.difference(present))
    if missing:
        raise ValueError(
            f"TFJIT_CPU={name!r}: this CPU lacks {', '.join(missing)}. Unset it, or name a lower "
            "level."
        )
    return enabled


_described_level = ""  # the level that `describe_as` or `compile_for` has set
_compiled_level = ""  # the level that `compile_for` has set


def compile_for(name: str) -> None:
    """Make a level of x86-64 the CPU of this process.

    The machine may lack it. For a process that compiles kernels and runs none. To be called before
    `host`. Raises ValueError on a machine of another architecture.
    """
    global _compiled_level
    describe_as(name)
    _compiled_level = name
    code_target.cache_clear()


def describe_as(name: str) -> None:
    """Make `host` describe a level of x86-64, which the machine may lack.

    For a process that makes texts of kernels and compiles none of them: code for its own use is
    compiled for its own CPU. Raises ValueError on a machine of another architecture.
    """
    global _described_level
    if platform.machine().lower() not in _X86:
        raise ValueError(f"{name} is no level of a {platform.machine()} CPU")
    _described_level = name
    host.cache_clear()


def levels_here() -> tuple[str, ...]:
    """Return the levels that this process may run code of, highest first.

    TFJIT_CPU limits them.
    """
    if platform.machine().lower() not in _X86:
        return ()
    highest = LEVELS.index(level()) + 1 if level() else len(LEVELS)
    return tuple(
        name for name in reversed(LEVELS[:highest]) if level_features(name) <= present_features()
    )


def _host_features() -> frozenset[str]:
    """Return the features that texts may use."""
    if _described_level:
        return level_features(_described_level)
    if level():
        return features_of_level(level(), present_features())
    return present_features()


def _host_isa() -> str:
    return classify(platform.machine().lower(), _host_features())[0]


@functools.cache
def host() -> CpuFeatures:
    """Return the CPU that this process makes texts for.

    It is the process's own CPU, limited to TFJIT_CPU, or the level that `compile_for` or
    `describe_as` has set. Raises ValueError when the CPU is below TFJIT_CPU.
    """
    features = _host_features()
    isa, width, registers = classify(platform.machine().lower(), features)
    l1, l2, l3 = cache_sizes()
    return CpuFeatures(features, isa, width, registers, l1, l2, l3)


@functools.cache
def code_target() -> CodeTarget:
    """Return the CPU that LLVM compiles for in this process.

    It is the process's own CPU, limited to TFJIT_CPU, or the level that `compile_for` has set.
    Imports llvmlite. Raises ValueError when the CPU is below TFJIT_CPU.
    """
    held = _compiled_level or level()
    if held:
        name = held
        enabled = (
            level_features(held) if _compiled_level else features_of_level(held, present_features())
        )
        flags = ",".join(f"+{feature}" for feature in sorted(enabled))
    else:
        import llvmlite.binding as llvm

        from tfjit.kernels.jit.loader import fork_lock

        with fork_lock():
            features, name = llvm.get_host_cpu_features(), llvm.get_host_cpu_name()
        flags = features.flatten()
        enabled = frozenset(feature for feature, on in features.items() if on)
    isa = classify(platform.machine().lower(), enabled)[0]
    return CodeTarget(name, flags + _TUNING.get(isa, ""))


def code_identity() -> tuple[str, ...]:
    """Return all on which `code_target` depends.

    Linux tells a CPU's model; elsewhere llvmlite is imported.
    """
    model = () if _compiled_level or level() else linux_model(_first_cpu())
    if model:
        return (*model, *sorted(present_features()))
    found = code_target()
    return found.name, found.flags


def check_level() -> None:
    """Raise ValueError when TFJIT_CPU names no level of this CPU.

    It may name no level at all, or one above this CPU.
    """
    if level():
        _host_features()


def available_cpus() -> int:
    """Return the number of cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
