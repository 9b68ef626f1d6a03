"""Describe the CPU that kernels are compiled for.

The description has name, instruction sets, vector width, registers and caches. The CPU is the host,
or a level of x86-64 below it that TFJIT_CPU names. It decides tiles and is part of cache keys.
"""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tfjit.framework import settings

_SYS_CACHE = Path("/sys/devices/system/cpu/cpu0/cache")
_X86: Final = ("x86_64", "amd64")


@dataclass(frozen=True, slots=True)
class CpuFeatures:
    """Properties of a CPU that code generation depends on.

    name: LLVM's name of the CPU or level. flags: LLVM's feature string. isa: "avx512", "avx2",
    "neon" or "generic". vector_bytes: of one register. vector_registers: architectural count.
    l1_bytes, l2_bytes: data caches of one core. l3_bytes: of the whole chip, shared (0 when there
    is none).
    """

    name: str
    flags: str
    isa: str
    vector_bytes: int
    vector_registers: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int

    def lanes(self, itemsize: int) -> int:
        """Return the number of `itemsize`-byte elements in a vector register."""
        return self.vector_bytes // itemsize


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


@functools.cache
def level() -> str:
    """Return the level that TFJIT_CPU names, "" for the host.

    A process keeps its first answer.
    """
    with settings.using(os.environ):
        return settings.text("TFJIT_CPU")


def level_features(name: str) -> frozenset[str]:
    """Return the features of an x86-64 level, by LLVM's names."""
    enabled = set(_BASE)
    for level_name in LEVELS[: LEVELS.index(name) + 1]:
        enabled.update(_ADDED[level_name])
    return frozenset(enabled)


def features_of_level(name: str, host_features: Mapping[str, bool]) -> frozenset[str]:
    """Return the features of an x86-64 level, by LLVM's names.

    Raises ValueError when the host lacks one of them: its kernels could not run here.
    """
    enabled = level_features(name)
    missing = sorted(feature for feature in enabled if not host_features.get(feature, False))
    if missing:
        raise ValueError(
            f"TFJIT_CPU={name!r}: this CPU lacks {', '.join(missing)}. Unset it, or name a lower "
            "level."
        )
    return enabled


_compiled_level = ""  # the level that `compile_for` has set


def compile_for(name: str) -> None:
    """Make a level of x86-64 the CPU of this process.

    The machine may lack it. For a process that compiles kernels and runs none. To be called before
    `host`. Raises ValueError on a machine of another architecture.
    """
    global _compiled_level
    if platform.machine().lower() not in _X86:
        raise ValueError(f"{name} is no level of a {platform.machine()} CPU")
    _compiled_level = name
    host.cache_clear()


def levels_here() -> tuple[str, ...]:
    """Return the levels that this process may run code of, highest first.

    TFJIT_CPU limits them. Imports llvmlite.
    """
    if platform.machine().lower() not in _X86:
        return ()
    import llvmlite.binding as llvm

    from tfjit.kernels.jit.loader import fork_lock

    with fork_lock():
        features = llvm.get_host_cpu_features()
    highest = LEVELS.index(level()) + 1 if level() else len(LEVELS)
    return tuple(
        name
        for name in reversed(LEVELS[:highest])
        if all(features.get(feature, False) for feature in level_features(name))
    )


@functools.cache
def host() -> CpuFeatures:
    """Return the CPU that this process compiles for.

    It is the process's own CPU, limited to TFJIT_CPU, or the level that `compile_for` has set.
    Imports llvmlite. Raises ValueError when the CPU is below TFJIT_CPU.
    """
    import llvmlite.binding as llvm

    from tfjit.kernels.jit.loader import fork_lock

    with fork_lock():
        features, name = llvm.get_host_cpu_features(), llvm.get_host_cpu_name()
    enabled, flags = (
        frozenset(feature for feature, on in features.items() if on),
        features.flatten(),
    )
    held = _compiled_level or level()
    if held:
        enabled = level_features(held) if _compiled_level else features_of_level(held, features)
        name, flags = held, ",".join(f"+{feature}" for feature in sorted(enabled))
    isa, width, registers = classify(platform.machine().lower(), enabled)
    flags += _TUNING.get(isa, "")
    l1, l2, l3 = cache_sizes()
    return CpuFeatures(name, flags, isa, width, registers, l1, l2, l3)


def check_level() -> None:
    """Raise ValueError when TFJIT_CPU names no level of this CPU.

    It may name no level at all, or one above this CPU. Imports llvmlite only when TFJIT_CPU is set.
    """
    if level():
        host()


def available_cpus() -> int:
    """Return the number of cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
