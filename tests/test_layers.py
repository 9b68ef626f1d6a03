"""Imports run one way, heavy libraries stay in their layer, and `import tfjit` is light."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# From the user down to the wire. A layer imports itself and those after it.
LAYERS = ("client", "distributed", "runtime", "passes", "kernels", "framework", "protos")
# Where the source of `tfjit.<layer>` stands in the tree.
FOLDERS = {layer: ROOT / layer if layer in ("passes", "kernels", "protos") else ROOT / "tfjit" / layer for layer in (*LAYERS, "ops")}
# A library and the only layer that may import it.
HOMES = {"networkx": "passes", "numba": "kernels", "llvmlite": "kernels", "grpc": "distributed", "matplotlib": None, "tensorflow": None}


def sources() -> Iterator[tuple[str, Path]]:
    """(layer, file) of every module that is not generated. The command line and the demo stand above all layers: "top"."""
    for layer, folder in FOLDERS.items():
        for path in sorted(folder.rglob("*.py")):
            if not path.name.endswith("_pb2.py"):
                yield layer, path
    for path in [*sorted((ROOT / "tfjit").glob("*.py")), *sorted((ROOT / "tfjit" / "demo").glob("*.py"))]:
        yield "top", path


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of each import in `path`, those inside functions and under TYPE_CHECKING included.

    `from a import b` gives "a.b": b may be a module, and for the layer of `a.b` it makes no difference.
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def may_import(importer: str, imported: str) -> bool:
    """Whether code in layer `importer` may import `tfjit.<imported>`."""
    if importer == "top" or importer == imported:
        return True
    if imported == "ops":
        return importer == "client"
    if importer == "ops":
        return imported == "framework"
    return imported in LAYERS and LAYERS.index(importer) < LAYERS.index(imported)


def test_the_rule_itself() -> None:
    assert may_import("client", "ops") and may_import("runtime", "kernels") and may_import("kernels", "framework")
    assert not may_import("kernels", "ops") and not may_import("framework", "passes") and not may_import("ops", "protos")


@pytest.mark.parametrize(
    ("layer", "path"), list(sources()), ids=lambda value: str(value.relative_to(ROOT)) if isinstance(value, Path) else value
)
def test_imports_run_one_way(layer: str, path: Path) -> None:
    wrong = []
    for line, name in imports(path):
        parts = name.split(".")
        if parts[0] in ("kernels", "passes", "protos"):
            wrong.append(f"{path}:{line}: {name} makes a second copy of the registry; write tfjit.{name}")
        if parts[0] == "tfjit" and len(parts) > 1 and parts[1] in FOLDERS and not may_import(layer, parts[1]):
            wrong.append(f"{path}:{line}: {layer} imports tfjit.{parts[1]}")
        # The package root re-exports the client, so importing a name from it would be a way around the order.
        if parts[0] == "tfjit" and layer != "top" and len(parts) == 2 and parts[1] not in (*FOLDERS, "__version__"):
            wrong.append(f"{path}:{line}: {layer} imports {name} from the package root")
        if parts[0] in HOMES and layer not in (HOMES[parts[0]], "top"):
            wrong.append(f"{path}:{line}: {layer} imports {parts[0]}, which belongs to {HOMES[parts[0]] or 'no layer'}")
    assert not wrong, "\n".join(wrong)


def test_top_level_modules_import_no_heavy_library() -> None:
    """The command line and the demo reach numba and networkx through the layers. The demo may time TensorFlow beside us."""
    for layer, path in sources():
        if layer == "top":
            heavy = {name.split(".")[0] for _, name in imports(path)} & set(HOMES)
            allowed = {"tensorflow"} if path.parent.name == "demo" else set()
            assert heavy <= allowed, f"{path}: {heavy}"


def test_every_layer_has_code() -> None:
    """The tests above would pass on folders that were moved away."""
    found = {layer for layer, _ in sources()}
    assert {"client", "runtime", "passes", "kernels", "framework", "protos", "ops", "top"} <= found


def test_import_loads_nothing_heavy() -> None:
    """In a fresh interpreter, from outside the tree."""
    code = "import sys, tfjit; print(sorted({name.split('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT.parent)
    loaded = set(ast.literal_eval(done.stdout))
    assert "tfjit" in loaded
    assert not loaded & {"numba", "llvmlite", "networkx", "grpc", "tensorflow", "matplotlib", "scipy", "pandas"}


def test_source_folders_are_not_importable_by_their_own_names() -> None:
    """Installed, `kernels` is `tfjit.kernels` only."""
    code = "import importlib.util; print([importlib.util.find_spec(n) for n in ('kernels', 'passes', 'protos')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT.parent)
    assert done.stdout.strip() == "[None, None, None]"


def test_no_module_is_named_for_nothing() -> None:
    for _, path in sources():
        assert not re.fullmatch(r"(utils?|helpers?|common|misc)", path.stem), path
