"""Compile generated text through Numba to object code.

`python -m tfjit.kernels.jit.compiler` is the worker process, which compiles for other processes. It
reads one JSON object a line from stdin: {"key", "text", "entries", "arity", "interleave",
"attempt", "title", "directory"}. It answers each with one line on stdout: {"key", "path", "ms",
"object": base64 of an encoded ObjectFile} or, in place of the object, "error". A request for
another device than the host has "compiler" and "architecture", too (targets.py). Before the first
answer it writes {"ready": true}, or {"fatal": reason} if it cannot compile anything. It also writes
KEY.py and KEY.o into `directory` where it may. It ends when stdin closes, after the current kernel,
or after two idle minutes.
"""

from __future__ import annotations

import base64
import contextlib
import gc
import importlib
import json
import linecache
import os
import select
import sys
import time
import traceback
import types as python_types
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfjit.framework import settings
from tfjit.kernels.jit import target
from tfjit.kernels.jit.loop_metadata import interleave_loops
from tfjit.kernels.jit.niceness import be_nice
from tfjit.kernels.jit.object_file import ObjectFile, Refused, write_atomically

_NICE = 10
_CACHE_BYTES = 512 << 20  # some 100,000 kernels
_IDLE_SECONDS = 120.0  # a warm worker holds 150 MB
# Functions of other arities are micro-kernels, which intrinsics write in vectors.
_LAUNCH_ARITY = 3
# An entry calls this symbol if its function can return an exception; no process has it.
_RAISED = "tfjit_kernel_raised"
_RAISED_IR = f"declare void @{_RAISED}()\n"


def numba_target() -> dict[str, str]:
    """Return the environment variables that set Numba's target CPU.

    The target is the CPU of cpu_features. Numba must not be imported yet.
    """
    cpu = target.code_target()
    return {"NUMBA_CPU_NAME": cpu.name, "NUMBA_CPU_FEATURES": cpu.flags}


def import_numba() -> None:
    """Import all that compiling needs, which takes a third of a second."""
    import tfjit.kernels.codegen.intrinsics
    import tfjit.kernels.jit.front_end
    import tfjit.kernels.vmath  # noqa: F401

    # Numba's objects stay for ever. A full garbage collection that visits them takes over 0.1 s.
    gc.freeze()


def compile_text(
    text: str,
    entries: Sequence[str],
    arity: int,
    interleave: int,
    filename: str,
    unique: str,
    attempt: int = 0,
) -> ObjectFile:
    """Compile functions of a module's text to C functions void(intp * arity).

    entries: their names. interleave: as in KernelSource. filename: where tracebacks find the text.
    unique: prefix of symbols; objects loaded into one process must differ in it. attempt: 0 for
    our front end with the usual passes, 1 for Numba's front end and passes, 2 for our front end
    with the other passes: few for a launch, all for a micro-kernel. Raises Refused; also any error
    that Numba raises.
    """
    import llvmlite.binding as llvm
    from numba.core.compiler_lock import global_compiler_lock

    from tfjit.kernels.jit import front_end, loader

    module = python_types.ModuleType(unique)
    module.__file__ = filename
    sys.modules[unique] = module
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    symbols = {entry: f"{unique}.{entry}" for entry in entries}
    machine = loader.target_machine()
    try:
        exec(compile(text, filename, "exec"), module.__dict__)
        with global_compiler_lock:
            try:
                if attempt == 1:
                    raise front_end.Unsupported("it was refused before")
                ir_text = front_end.translate(text, module.__dict__, entries, arity, unique)
            except front_end.Unsupported as reason:
                settings.say("cache", "%s is left to Numba: %s", filename, reason)
                linked = compiled_by_numba(module, symbols, arity, interleave)
                _clean_up(linked, machine, symbols.values())
            else:
                parts = [interleave_loops(ir_text, interleave) if interleave else ir_text]
                parts.append(_RAISED_IR)
                parts += [
                    _entry_ir(symbol, front_end.mangled(unique, entry), arity)
                    for entry, symbol in symbols.items()
                ]
                linked = llvm.parse_assembly("\n".join(parts))
                linked.verify()
                optimise(linked, machine, vectorise=(arity == _LAUNCH_ARITY) == (attempt == 0))
            obj = loader.emit(linked, machine, symbols)
    finally:
        sys.modules.pop(unique, None)
        linecache.cache.pop(filename, None)
    if _RAISED in obj.needs:
        raise Refused(
            "it can raise an exception or allocate memory at run time, which kernels may not"
        )
    absent = [name for name in obj.needs if not llvm.address_of_symbol(name)]
    foreign = [name for name in obj.needs if name.startswith(("numba_", "_numba_", "_ZN5numba"))]
    if absent or foreign:
        raise Refused(
            "it calls functions that a process without Numba lacks: "
            f"{', '.join(dict.fromkeys(absent + foreign))}"
        )
    return obj


def optimise(module: Any, machine: Any, vectorise: bool) -> None:
    """Run LLVM's pipeline once over a module of the front end.

    vectorise: False for functions that are written in vectors already. A few cheap passes serve
    them: the whole pipeline costs ten times as much and gains nothing.
    """
    import llvmlite.binding as llvm

    options = llvm.create_pipeline_tuning_options(speed_level=3)
    builder = llvm.create_pass_builder(machine, options)
    if vectorise:
        builder.getModulePassManager().run(module, builder)
        return
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_ipsccp_pass()
    passes.add_simplify_cfg_pass()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_loop_rotate_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, builder)


def compiled_by_numba(
    module: python_types.ModuleType, symbols: Mapping[str, str], arity: int, interleave: int
) -> Any:
    """Return the LLVM module of a text that Numba compiles.

    It holds the C functions, too. symbols: entry -> symbol of its C function.
    """
    import llvmlite.binding as llvm
    from numba.core import ccallback, types

    options: dict[str, Any] = {"error_model": "numpy", "boundscheck": False, "nogil": True}
    linked: Any = None
    for entry, symbol in symbols.items():
        function = getattr(module, entry, None)
        function = getattr(function, "py_func", function)  # the text may have decorated it
        if not callable(function):
            raise Refused(f"the text defines no function {entry!r}")
        job: Any = ccallback.CFunc(function, ((types.intp,) * arity, types.void), {}, options)
        result = job._compile_uncached()
        library = result.library
        if interleave:
            library._final_module = llvm.parse_assembly(
                interleave_loops(str(library._final_module), interleave)
            )
        # CodeLibrary.finalize, but without loading code into memory, which nothing would run
        for called in dict.fromkeys(library._linking_libraries):
            library._final_module.link_in(called._get_module_for_linking(), preserve=True)
        library._optimize_final_module()
        part = library._final_module
        name = result.fndesc.mangled_name
        kinds = ", ".join(["ptr", "ptr", *["i64"] * arity])
        part.link_in(
            llvm.parse_assembly(
                f'{_RAISED_IR}declare i32 @"{name}"({kinds})\n{_entry_ir(symbol, name, arity)}'
            )
        )
        part.get_function(name).add_function_attribute("alwaysinline")
        if linked is None:
            linked = part
        else:
            linked.link_in(part)
    return linked


def _clean_up(module: Any, machine: Any, symbols: Collection[str]) -> None:
    """Reduce a module that Numba has optimised to its C functions."""
    import llvmlite.binding as llvm

    # Everything but the entries becomes private: another kernel's copy of a shared function
    # may differ.
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name not in symbols:
            value.linkage = "internal"
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0))
    passes = llvm.create_new_module_pass_manager()
    # Numba's own wrapper, which would keep the exception path alive
    passes.add_global_dead_code_eliminate_pass()
    passes.add_always_inliner_pass()
    passes.add_ipsccp_pass()  # the status of a function that cannot raise is the constant 0
    passes.add_simplify_cfg_pass()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_strip_dead_prototype_pass()
    passes.run(module, builder)


def _entry_ir(symbol: str, function: str, arity: int) -> str:
    """Return the LLVM text of the C function around a Numba function.

    The Numba function's status must be 0 (done) or -2 (returned None).
    """
    values = ", ".join(f"i64 %a{n}" for n in range(arity))
    return f"""
define void @"{symbol}"({values}) {{
  %result = alloca ptr
  %exception = alloca ptr
  %status = call i32 @"{function}"(ptr %result, ptr %exception{", " + values if values else ""})
  switch i32 %status, label %raised [ i32 0, label %done
                                      i32 -2, label %done ]
raised:
  call void @{_RAISED}()
  br label %done
done:
  ret void
}}
"""


def _serve(request: dict[str, Any]) -> dict[str, Any]:
    """Compile one request and return the answer.

    Text and object are written to the request's directory if it is writable.
    """
    start = time.perf_counter()
    key, text = request["key"], request["text"]
    directory = Path(request["directory"]) if request["directory"] else None
    filename = f"<tfjit {key}>"
    if not text.startswith("#"):
        text = f"# {request['title'] or 'kernel without a title'}\n{text}"
    if directory is not None:
        try:
            write_atomically(directory / f"{key}.py", text.encode())
            filename = str(directory / f"{key}.py")
        except OSError:
            directory = None
    answer: dict[str, Any] = {"key": key, "path": filename}
    try:
        unique = f"tfjit_{key[:24]}"
        if request.get("compiler"):
            # by its name: the compiler of the host does not depend on the others
            other = importlib.import_module(request["compiler"])
            obj = other.compile_text(
                text,
                request["entries"],
                request["arity"],
                filename,
                unique,
                request["architecture"],
            )
        else:
            obj = compile_text(
                text,
                request["entries"],
                request["arity"],
                request["interleave"],
                filename,
                unique,
                request.get("attempt", 0),
            )
        data = obj.encode()
        if directory is not None:
            with contextlib.suppress(OSError):  # memory only: the answer carries the code
                write_atomically(directory / f"{key}.o", data)
        answer["object"] = base64.b64encode(data).decode()
    except Refused as error:
        answer["error"] = str(error)
    # Numba or the text may raise anything, and the worker must continue.
    except Exception as error:
        lines = traceback.format_exception_only(type(error), error)
        # Numba's own errors name the line of the text.
        if not type(error).__module__.startswith("numba."):
            lines.extend(traceback.format_tb(error.__traceback__, limit=-3))
        answer["error"] = "".join(lines).strip()
    answer["ms"] = (time.perf_counter() - start) * 1e3
    return answer


def _lines(descriptor: int, idle_seconds: float) -> Iterator[bytes]:
    """Yield lines from a file descriptor until its end or idleness.

    Idleness: no input for `idle_seconds`.
    """
    pending = b""
    while True:
        if os.name != "nt" and not select.select([descriptor], [], [], idle_seconds)[0]:
            return
        received = os.read(descriptor, 1 << 20)
        if not received:
            return
        *lines, pending = (pending + received).split(b"\n")
        yield from lines


def prune(directory: Path, limit_bytes: int) -> int:
    """Shrink a cache directory over its limit; return how many were dropped.

    A directory above the limit loses the kernels that were not used for the longest time, until
    half of the limit is left. Files younger than an hour stay in any case: another process may be
    about to load them. Files of other programs stay, too.
    """
    try:
        found = [
            (entry.stat().st_mtime, entry.stat().st_size, entry.path)
            for entry in os.scandir(directory)
            if entry.is_file()
        ]
    except OSError:
        return 0
    old = time.time() - 3600
    total, dropped = sum(size for _, size, _ in found), 0
    # of processes that were killed
    leftovers = [path for mtime, _, path in found if path.endswith(".tmp") and mtime < old]
    if total > limit_bytes:
        for mtime, size, path in sorted(found):
            if total <= limit_bytes // 2 or mtime >= old:
                break
            if path.endswith((".plan", ".stages", ".stored")):
                leftovers.append(path)
                total -= size
            elif path.endswith(".o"):
                leftovers += [path, path[:-2] + ".py"]
                total -= size
                dropped += 1
    for path in leftovers:
        with contextlib.suppress(OSError):
            os.unlink(path)
    return dropped


def main() -> None:
    """Serve requests until stdin closes or the idle time is over."""
    be_nice(_NICE)
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # A stray print must not be read as an answer.
    for name in [name for name in os.environ if name.startswith("NUMBA_")]:
        del os.environ[name]  # NUMBA_DISABLE_JIT, debug dumps: meant for the user's own functions
    os.environ.update(numba_target())
    try:
        import_numba()
    except Exception as error:  # a Numba that does not support this NumPy or Python, say
        answers.write(
            json.dumps(
                {"fatal": f"Numba cannot be imported: {type(error).__name__}: {error}"}
            ).encode()
            + b"\n"
        )
        os._exit(1)
    answers.write(b'{"ready": true}\n')
    pruned = False
    for line in _lines(0, _IDLE_SECONDS):
        request = json.loads(line)
        if request["directory"] and not pruned:
            prune(Path(request["directory"]), _CACHE_BYTES)
            pruned = True
        answer = _serve(request)
        try:
            answers.write(json.dumps(answer).encode() + b"\n")
        except OSError:
            break  # The other end is closed.
    os._exit(0)  # nothing to save, and tearing down LLVM takes its time


if __name__ == "__main__":
    main()
