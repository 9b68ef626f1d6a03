"""Resources that compiled kernels take, as the linker tells them. No GPU is needed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from tfjit.kernels.source import KernelSource

_LINK = """
import json, re, sys
from cuda.bindings import nvjitlink
from numba import cuda, types
found = []
for text, arity, cc in json.load(sys.stdin):
    scope = {}
    exec(text, scope)
    kernel = scope["kernel"]
    ptx, _ = cuda.compile(
        kernel, types.void(*(types.int64,) * arity), cc=tuple(cc), device=False, abi="numba",
        output="ptx", launch_bounds=getattr(kernel, "launch_bounds", None),
    )
    ptx = re.sub(r"^\\\\.common \\\\.global .*NumbaEnv\\\\w+;\\n", "", ptx, flags=re.M).encode()
    options = [f"-arch=sm_{cc[0]}{cc[1]}", "-O3", "-verbose"]
    handle = nvjitlink.create(len(options), options)
    nvjitlink.add_data(handle, nvjitlink.InputType.PTX, ptx, len(ptx), "kernel")
    nvjitlink.complete(handle)
    log = bytearray(nvjitlink.get_info_log_size(handle))
    nvjitlink.get_info_log(handle, log)
    found.append(log.decode(errors="replace"))
json.dump(found, sys.stdout)
"""
_USED = re.compile(r"used (\d+) registers,.*?(\d+) stack(?:, (\d+) bytes smem)?.*?(\d+) bytes lmem")


@dataclass(frozen=True)
class Resources:
    """registers, local_bytes: of a thread; local memory holds spilled registers. shared_bytes: of
    a block."""

    registers: int
    local_bytes: int
    shared_bytes: int


def resources(sources: Sequence[KernelSource], cc: tuple[int, int] = (9, 0)) -> list[Resources]:
    """What each kernel takes, by one subprocess for all."""
    requests = [(source.text, source.arity, cc) for source in sources]
    done = subprocess.run(
        [sys.executable, "-c", _LINK], input=json.dumps(requests), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = []
    for log in json.loads(done.stdout):
        registers, stack, shared, local = _USED.findall(log)[-1]
        found.append(Resources(int(registers), int(stack) + int(local), int(shared or 0)))
    return found
