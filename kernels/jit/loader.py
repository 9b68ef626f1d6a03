"""Load object code into this process, and compile LLVM IR text.

`elf_loader.py` loads the objects of x86-64; LLVM loads others. llvmlite is imported when it is
needed, Numba never.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfjit.kernels.jit import elf_loader
from tfjit.kernels.jit.object_file import ObjectFile, undefined_symbols

if TYPE_CHECKING:
    import llvmlite.binding as llvm


class LoadError(Exception):
    """Object code does not load here; the message gives the reason."""


class MissingSymbol(LoadError):
    """Object code needs a function that this process does not have.

    LLVM would end the process over it.
    """


class NoCompiler(Exception):
    """This process cannot import Numba or llvmlite, so it has no compiler."""


def require_llvm() -> None:
    """Import llvmlite. Raises NoCompiler when that fails."""
    try:
        import llvmlite.binding  # noqa: F401
    except ImportError as error:
        raise NoCompiler(
            f"there is no compiler ({error}): install numba, or pack the model with this run"
        ) from None


# one engine: loading is serial, and nothing may fork while a thread is inside LLVM
_lock = threading.RLock()
_engine: Any = None
_symbols: dict[str, int] = {}  # those that `add_symbol` has defined


def initialize_llvm() -> None:
    """Initialize llvmlite for this machine; repeating is harmless."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # inline assembly ends the process without it


def target_machine(optimization: int = 3) -> llvm.TargetMachine:
    """Return a target machine with JIT settings for the kernels' CPU."""
    import llvmlite.binding as llvm

    from tfjit.kernels.jit import target as cpu_features

    initialize_llvm()
    cpu = cpu_features.code_target()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(
        cpu=cpu.name,
        features=cpu.flags,
        opt=optimization,
        reloc="static" if target.name.startswith("x86") else "default",
        codemodel="jitdefault",
        jit=True,
    )


def _get_engine() -> Any:
    global _engine
    if _engine is None:
        import llvmlite.binding as llvm

        machine = target_machine()
        _engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    return _engine


def load(obj: ObjectFile) -> dict[str, int]:
    """Load an object; return the address of each entry.

    The code stays for the life of the process. Symbols of different objects must differ.

    Raises MissingSymbol when the process lacks a function that the object calls.
    """
    with _lock:
        addresses = _load_elf(obj) if elf_loader.is_for_here(obj.code) else None
        if addresses is None:
            addresses = _load_by_llvm(obj)
    lost = [entry for entry, address in addresses.items() if not address]
    if lost:
        raise MissingSymbol(f"object code lacks its own entries {', '.join(lost)}")
    return addresses


def _load_elf(obj: ObjectFile) -> dict[str, int] | None:
    """Load an object without LLVM; None where only LLVM can."""
    found = {name: _symbols.get(name) or elf_loader.address_of(name) for name in obj.needs}
    _check_needs(found)
    try:
        return elf_loader.load(obj.code, obj.symbols, found)
    except elf_loader.Unsupported:
        return None


def _check_needs(found: Mapping[str, int]) -> None:
    missing = [name for name, address in found.items() if not address]
    if missing:
        raise MissingSymbol(", ".join(missing))


def _load_by_llvm(obj: ObjectFile) -> dict[str, int]:
    try:
        require_llvm()
    except NoCompiler as error:
        raise MissingSymbol(str(error)) from None
    import llvmlite.binding as llvm

    engine = _get_engine()
    for name, address in _symbols.items():
        llvm.add_symbol(name, address)
    _check_needs({name: llvm.address_of_symbol(name) for name in obj.needs})
    engine.add_object_file(llvm.ObjectFileRef.from_data(obj.code))
    engine.finalize_object()
    return {
        entry: int(engine.get_function_address(symbol)) for entry, symbol in obj.symbols.items()
    }


def add_symbol(name: str, address: int) -> None:
    """Define a symbol for object code at an address."""
    with _lock:
        _symbols[name] = address


def emit(
    module: llvm.ModuleRef, machine: llvm.TargetMachine, symbols: dict[str, str]
) -> ObjectFile:
    """Return the object code of an optimised module.

    symbols: entry -> function of the module.
    """
    code = machine.emit_object(module)
    needs = undefined_symbols(code)
    # Not ELF: take the module's declarations. The calls that code generation adds are missing
    # there.
    if needs is None:
        declared = [
            f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")
        ]
        needs = tuple(sorted(declared))
    return ObjectFile(symbols, needs, code)


def compile_ir(text: str, functions: Sequence[str]) -> ObjectFile:
    """Compile LLVM assembly without a target triple.

    functions: names of its C functions, unique in the process. Only a few cheap passes run: for
    hand-written text the whole pipeline costs ten times as much and gains nothing. Raises
    NoCompiler.
    """
    require_llvm()
    import llvmlite.binding as llvm

    with _lock:
        machine = target_machine(optimization=2)
        module = llvm.parse_assembly(text)
        module.triple = llvm.get_process_triple()
        module.data_layout = str(machine.target_data)
        module.verify()
        builder = llvm.create_pass_builder(
            machine, llvm.create_pipeline_tuning_options(speed_level=2)
        )
        passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.add_global_dead_code_eliminate_pass()
        passes.run(module, builder)
        return emit(module, machine, {name: name for name in functions})


def fork_lock() -> threading.RLock:
    """Return the lock that every thread of ours holds inside LLVM."""
    return _lock


def reset_after_fork() -> None:
    """Replace, in a child, the locks of threads that no longer exist.

    Loaded code stays valid.
    """
    global _lock
    _lock = threading.RLock()
