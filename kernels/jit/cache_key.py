"""Name kernels in the disk cache and archives by their inputs' hash.

The hash covers the kernel's text, entries and flags; the versions of numba and llvmlite, with its
library; the sources of the compiler and of the modules of tfjit.kernels that the text imports, with
the formulas of tfjit.framework; the CPU's model and features. Since sources are hashed, tfjit's
version is not.
The target of a device names its own versions in the place of these (targets.py).

In an archive of precompiled kernels, the level of x86-64 and the system stand for the versions and
the CPU: its object code is made already. (An archive for the host, where there are no levels, has
both in its keys.)
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import platform
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from tfjit.kernels.jit.targets import find_target
from tfjit.kernels.source import KernelSource

_FROM = re.compile(r"^[ \t]*from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)", re.MULTILINE)
_IMPORT = re.compile(r"^[ \t]*import[ \t]+(tfjit\.kernels\.[\w.]+)", re.MULTILINE)
HOST_LEVEL = "host"
"""The level of archives for the CPU of a machine without levels."""
_PACKAGE = "tfjit.kernels"
_FRAMEWORK = "tfjit.framework"
# kernels.vmath compiles the special functions among these formulas
_FORMULAS = f"{_FRAMEWORK}.scalar"
# version of the object code that the compiler makes of a text, apart from its own source
_FORMAT = "1"
# folders with the facts that builders ask for
_SET_FOLDERS = ("types", "scalar", "op_defs")


@functools.cache
def _module_file(name: str) -> Path | None:
    """Return the source file of a module of tfjit.kernels or formulas.

    name: the module's full name.
    """
    if name.startswith(_FORMULAS):
        root = Path(str(sys.modules[_FRAMEWORK].__file__)).parent
    else:
        root = Path(__file__).parent.parent
    path = root.joinpath(*name.split(".")[2:])
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return file
    return None


def imported(text: str, package: str = "") -> set[str]:
    """Return the modules of tfjit.kernels that a text imports, by full name.

    package: the package that relative imports start from.
    """
    names: set[str] = set(_IMPORT.findall(text))
    for module, members in _FROM.findall(text):
        if module.startswith("."):
            up = len(module) - len(module.lstrip("."))
            base = package.split(".")
            module = ".".join([*base[: len(base) - up + 1], *filter(None, [module[up:]])])
        if module != _PACKAGE and not module.startswith((_PACKAGE + ".", _FORMULAS)):
            continue
        names.add(module)
        names.update(
            f"{module}.{member}" for member in re.findall(r"(\w+)(?:\s+as\s+\w+)?", members)
        )
    return {
        name
        for name in names
        if name.startswith((_PACKAGE + ".", _FORMULAS + ".")) and _module_file(name) is not None
    }


@functools.cache
def module_hash(name: str) -> str:
    """Return the hash of a module and of its imports.

    Imports are followed through tfjit.kernels and the formulas.
    """
    seen: set[str] = set()
    digest = hashlib.sha256()
    waiting = [name]
    while waiting:
        current = waiting.pop()
        file = _module_file(current)
        if current in seen or file is None:
            continue
        seen.add(current)
        text = file.read_text(encoding="utf-8")
        digest.update(text.encode())
        package = current if file.name == "__init__.py" else current.rpartition(".")[0]
        waiting.extend(sorted(imported(text, package)))
    return digest.hexdigest()


def _version(package: str) -> str:
    """Return a package's installed version from its folder's name.

    importlib.metadata takes longer to import than loading ten kernels takes.
    """
    spec = importlib.util.find_spec(package)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for found in Path(place).parent.glob(f"{package}-*.dist-info"):
            return found.name.removesuffix(".dist-info")
    from importlib import metadata

    return metadata.version(package)


def _llvm_library() -> tuple[str, int]:
    """Return the name and the size of llvmlite's library, which contains LLVM.

    Both tell builds of one llvmlite with other LLVMs apart. To ask the library itself would load
    it: 40 MB of memory, in a process that perhaps compiles nothing. Raises NoCompiler.
    """
    from tfjit.kernels.jit.loader import NoCompiler

    spec = importlib.util.find_spec("llvmlite")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for found in sorted((Path(place) / "binding").glob("*llvmlite.*")):
            return found.name, found.stat().st_size
    raise NoCompiler(
        "there is no compiler (no llvmlite): install numba, or pack the model with this run"
    )


@functools.cache
def environment() -> str:
    """Return all that decides object code besides texts and imports.

    The hash of the compiler's source stands in for tfjit's version. Raises NoCompiler where Numba
    or llvmlite is missing.
    """
    from tfjit.kernels.jit import loader, target

    library = _llvm_library()
    try:
        numba_version = _version("numba")
    except ModuleNotFoundError as error:  # also of a package's metadata
        raise loader.NoCompiler(f"there is no compiler ({error}): install numba") from None
    versions = (numba_version, _version("llvmlite"), library, sys.version_info[:2], _FORMAT)
    return repr(
        (
            versions,
            (sys.platform, platform.machine()),
            target.code_identity(),
            module_hash("tfjit.kernels.jit.compiler"),
        )
    )


# a kernel that the disk cache lacks is looked up in the archive next
@functools.lru_cache(64)
def _read(source: KernelSource) -> tuple[str, list[str]]:
    """Return the digest of a text and the names of its imports."""
    return source.digest, sorted(imported(source.text))


def _contents(source: KernelSource) -> tuple[str, list[str]]:
    """Return the digest of a text and the hashes of its imports."""
    digest, names = _read(source)
    return digest, [module_hash(name) for name in names]


def _named(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:48]


def cache_key(source: KernelSource) -> str:
    """Return the name of a kernel in the disk cache. Raises NoCompiler."""
    if source.target:
        return _named(*_contents(source), find_target(source.target).environment())
    return _named(*_contents(source), environment())


def text_key(text: str, *more: object) -> str:
    """Return the key of an object compiled from a text without imports.

    Raises NoCompiler.
    """
    return _named(text, more, environment())


def compiler_digest() -> str:
    """Return the hash of the compiler's sources, which archives depend on."""
    return module_hash("tfjit.kernels.jit.compiler")


@functools.cache
def _archive(level: str) -> tuple[str, ...]:
    """Return all that decides an archive's code besides texts and imports."""
    parts = (_FORMAT, level, platform.machine().lower(), sys.platform, compiler_digest())
    return (*parts, environment()) if level == HOST_LEVEL else parts


def precompiled_key(source: KernelSource, level: str) -> str:
    """Return the key of a kernel in the archive of a level.

    Raises NoCompiler for the level of the host.
    """
    return _named(*_contents(source), _archive(level))


def precompiled_text_key(text: str, functions: Iterable[str], level: str) -> str:
    """Return the key of compiled LLVM assembly in a level's archive."""
    return _named(text, sorted(functions), _archive(level))


def code_digest(folders: Iterable[Path]) -> str:
    """Return the hash of the Python files below some folders."""
    digest = hashlib.sha256()
    for folder in folders:
        for file in sorted(folder.rglob("*.py")):
            text = file.read_bytes()
            digest.update(f"{file.relative_to(folder).as_posix()} {len(text)}\n".encode() + text)
    return digest.hexdigest()


@functools.cache
def set_digest() -> str:
    """Return the hash of the code behind the generic kernels.

    It reads 240 files in some 15 ms.
    """
    framework = Path(str(sys.modules[_FRAMEWORK].__file__)).parent
    kernels = Path(__file__).parent.parent
    return code_digest([kernels, *(framework / name for name in _SET_FOLDERS)])


def complete_key(level: str) -> str:
    """Return the key of archives with the whole set of this code.

    Raises NoCompiler for the level of the host.
    """
    return _named("complete", set_digest(), _archive(level))
