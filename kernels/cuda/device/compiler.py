"""Compile kernel texts to cubins: numba-cuda makes PTX, nvJitLink links it.

The compiler process imports this module for the requests of the target "cuda"; no driver and no GPU
are needed. Debug information and fast math are off.
"""

from __future__ import annotations

import contextlib
import gc
import linecache
import re
import sys
import types as python_types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Final

from tfjit.kernels.cuda.device.architecture import compute_capability
from tfjit.kernels.jit.object_file import ObjectFile, Refused

# Numba's environment of a function, which a kernel never reads
_ENVIRONMENT: Final = re.compile(r"^\.common \.global .*\b_ZN08NumbaEnv\w+;\n", re.MULTILINE)
_REGISTERS: Final = re.compile(
    r"used (\d+) registers,.*?(\d+) stack(?:, (\d+) bytes smem)?.*?(\d+) bytes lmem"
)
_MOST_LINES: Final = 20  # of an error message of Numba, which lists all it has tried
_loaded: list[python_types.ModuleType] = []


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources that a compiled kernel takes.

    registers: of a thread. shared_bytes: of a block, with those that the hardware reserves.
    local_bytes: of a thread, in spilled registers and arrays.
    """

    registers: int
    shared_bytes: int
    local_bytes: int


class _UnknownArchitecture(Refused):
    """An architecture that nvJitLink does not know: a newer one."""


def _numba_cuda() -> python_types.ModuleType:
    """Return numba-cuda's `cuda`; the first call takes 0.4 s. Raises Refused."""
    if not _loaded:
        try:
            import numba_cuda  # noqa: F401

            # of a .pth file, which only folders of installed packages have run
            with contextlib.suppress(ImportError):
                import _numba_cuda_redirector  # noqa: F401
            from cuda.bindings import nvjitlink  # noqa: F401
            from numba import cuda
        except ImportError as error:
            raise Refused(f"numba-cuda cannot be imported ({error}): install tfjit[gpu]") from None
        _loaded.append(cuda)
        gc.freeze()  # as of Numba's own objects (jit/compiler.py)
    return _loaded[0]


def compile_text(
    text: str,
    entries: Sequence[str],
    arity: int,
    filename: str,
    unique: str,
    architecture: str,
) -> ObjectFile:
    """Compile functions of a module's text to a cubin.

    entries: their names; each is a kernel void(int64 * arity). filename: where error messages find
    the text. unique: prefix of symbols. architecture: "sm_90"; the object needs it. For a GPU that
    is newer than nvJitLink, the object is PTX for the newest one that is known, which the driver
    compiles; it holds one entry. Raises Refused, which names the line at fault.
    """
    symbols = {entry: f"{unique}_{entry}" for entry in entries}
    with _executed(text, filename, unique) as module:
        parts = [
            _entry_ptx(module, entry, arity, architecture, symbol)
            for entry, symbol in symbols.items()
        ]
    try:
        code = _link(parts, architecture)[0]
    except _UnknownArchitecture:
        if len(parts) > 1:
            raise
        code = parts[0].encode() + b"\0"
    return ObjectFile(symbols, (architecture,), code)


def ptx_of(text: str, arity: int, architecture: str, entry: str = "kernel") -> str:
    """Return the PTX of a text's kernel. Raises as `compile_text`."""
    with _executed(text, "<kernel>", "ptx") as module:
        return _entry_ptx(module, entry, arity, architecture, entry)


def resources_of(text: str, arity: int, architecture: str, entry: str = "kernel") -> Resources:
    """Return the resources that a text's kernel takes. Raises as `compile_text`."""
    return linked(ptx_of(text, arity, architecture, entry), architecture)[0]


def linked(ptx: str, architecture: str) -> tuple[Resources, str]:
    """Return a PTX text's resources and the linker's log. Raises Refused."""
    _, log = _link([ptx], architecture)
    # the last summary is that of the whole program
    found = _REGISTERS.findall(log)
    if not found:
        raise Refused(f"nvJitLink tells no resources: {log}")
    registers, stack, shared, local = found[-1]
    return Resources(int(registers), int(shared or 0), int(stack) + int(local)), log


@contextlib.contextmanager
def _executed(text: str, filename: str, name: str) -> Iterator[python_types.ModuleType]:
    """Execute a text as a module. Raises Refused, which names its line."""
    _numba_cuda()
    module = python_types.ModuleType(name)
    module.__file__ = filename
    sys.modules[name] = module
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    try:
        exec(compile(text, filename, "exec"), module.__dict__)
        yield module
    except Refused:
        raise
    # Numba or the text may raise anything
    except Exception as error:
        raise Refused(_described(error, text, filename)) from error
    finally:
        sys.modules.pop(name, None)
        linecache.cache.pop(filename, None)


def _described(error: Exception, text: str, filename: str) -> str:
    """Return an error's text behind the line of the kernel at fault."""
    reason = f"{type(error).__name__}: {error}".strip()
    lines = reason.splitlines()
    if len(lines) > _MOST_LINES:
        reason = "\n".join([*lines[:_MOST_LINES], "..."])
    line = _line_of(error, filename)
    if not line:
        return reason
    quoted = text.splitlines()[line - 1].strip() if line <= text.count("\n") + 1 else ""
    return f"line {line}: {quoted}\n{reason}"


def _line_of(error: Exception, filename: str) -> int:
    """Return the line of a text with an error, or 0."""
    if isinstance(error, SyntaxError):
        return error.lineno or 0
    places = [getattr(error, "loc", None)]
    trace = error.__traceback__
    while trace is not None:
        frame, number, trace = trace.tb_frame, trace.tb_lineno, trace.tb_next
        if frame.f_code.co_filename == filename:
            places.append(SimpleNamespace(filename=filename, line=number))
        # Numba's passes hold the statement that they are at
        for name in ("loc", "inst", "expr", "stmt"):
            value = frame.f_locals.get(name)
            places.append(value if name == "loc" else getattr(value, "loc", None))
    lines = [
        place.line for place in places if place and getattr(place, "filename", None) == filename
    ]
    return int(lines[0] if getattr(error, "loc", None) and lines else lines[-1] if lines else 0)


def _entry_ptx(
    module: python_types.ModuleType, entry: str, arity: int, architecture: str, symbol: str
) -> str:
    """Return the PTX of one kernel under a given symbol.

    A text may limit registers: `kernel.launch_bounds = (threads of a block, blocks of a
    multiprocessor)`.
    """
    cuda = _numba_cuda()
    from numba.core import types

    function = getattr(module, entry, None)
    function = getattr(function, "py_func", function)  # the text may have decorated it
    if not callable(function):
        raise Refused(f"the text defines no function {entry!r}")
    major, minor, suffix = compute_capability(architecture)
    ptx, _ = cuda.compile(
        function,
        types.void(*(types.int64,) * arity),
        debug=False,
        lineinfo=False,
        device=False,
        fastmath=False,
        cc=(major, minor, suffix) if suffix else (major, minor),
        opt=True,
        launch_bounds=getattr(function, "launch_bounds", None),
        abi="numba",
        output="ptx",
    )
    names = re.findall(r"^\s*\.visible \.entry (\w+)\(", ptx, re.MULTILINE)
    if len(names) != 1:
        raise Refused(f"numba-cuda made {len(names)} kernels of {entry!r}")
    return _ENVIRONMENT.sub("", ptx.replace(names[0], symbol))


def _link(parts: Sequence[str], architecture: str) -> tuple[bytes, str]:
    """Return the cubin of PTX texts, and the linker's log. Raises Refused."""
    from cuda.bindings import nvjitlink

    options = [f"-arch={architecture}", "-O3", "-verbose"]
    try:
        handle = nvjitlink.create(len(options), options)
    except nvjitlink.nvJitLinkError as error:
        result = nvjitlink.Result
        # that of CUDA 12 calls it an internal error
        if error.status in (result.ERROR_UNRECOGNIZED_ARCH, result.ERROR_INTERNAL):
            raise _UnknownArchitecture(f"nvJitLink does not know {architecture}") from None
        raise Refused(f"nvJitLink: {error}") from None
    try:
        for number, part in enumerate(parts):
            data = part.encode()
            nvjitlink.add_data(handle, nvjitlink.InputType.PTX, data, len(data), f"part{number}")
        nvjitlink.complete(handle)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
        log = bytearray(nvjitlink.get_info_log_size(handle))
        nvjitlink.get_info_log(handle, log)
    except nvjitlink.nvJitLinkError as error:
        log = bytearray(nvjitlink.get_error_log_size(handle))
        nvjitlink.get_error_log(handle, log)
        raise Refused(f"nvJitLink: {error}: {_text(log)}") from None
    finally:
        nvjitlink.destroy(handle)
    return bytes(cubin), _text(log)


def _text(log: bytearray) -> str:
    return log.decode(errors="replace").rstrip("\0 \n")


__all__ = ["Resources", "compile_text", "linked", "ptx_of", "resources_of"]
