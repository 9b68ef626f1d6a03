"""Imports run one way, heavy libraries stay in their layer, and `import tfjit` is light."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest

from tests.room_graph import (
    FOLDERS,
    ROOMS,
    ROOT,
    imports,
    may_import,
    room_of,
    sources,
)

# A library and the only layer that may import it.
HOMES = {
    "networkx": "passes",
    "numba": "kernels",
    "llvmlite": "kernels",
    "grpc": "distributed",
    "PIL": "kernels",
    "matplotlib": "lab",
    "tensorflow": "lab",
    "onnx": "lab",
    "onnxruntime": "lab",
}


def test_the_rule_itself() -> None:
    assert (
        may_import("client", "ops")
        and may_import("runtime", "kernels")
        and may_import("kernels", "framework")
    )
    assert (
        not may_import("kernels", "ops")
        and not may_import("framework", "passes")
        and not may_import("ops", "protos")
    )
    assert room_of("kernels", "cpu.gemm.packing.write_words") == "cpu.gemm"
    assert room_of("kernels", "registry.NodeSpec") == ""


@pytest.mark.parametrize("layer", [*FOLDERS, "top"])
def test_imports_run_one_way(layer: str) -> None:
    wrong = []
    for of, path in sources():
        if of != layer:
            continue
        for line, name in imports(path):
            place = f"{path.relative_to(ROOT)}:{line}"
            parts = name.split(".")
            if parts[0] in ("kernels", "passes", "protos"):
                wrong.append(
                    f"{place}: {name} makes a second copy of the registry; write tfjit.{name}"
                )
            if (
                parts[0] == "tfjit"
                and len(parts) > 1
                and parts[1] in FOLDERS
                and not may_import(layer, parts[1])
            ):
                wrong.append(f"{place}: {layer} imports tfjit.{parts[1]}")
            # The package root re-exports the client: a name from it would be a way around the
            # order.
            if (
                parts[0] == "tfjit"
                and layer != "top"
                and len(parts) == 2
                and parts[1] not in FOLDERS
            ):
                wrong.append(f"{place}: {layer} imports {name} from the package root")
            if parts[0] in HOMES and layer not in (HOMES[parts[0]], "top"):
                wrong.append(
                    f"{place}: {layer} imports {parts[0]}, which belongs to "
                    f"{HOMES[parts[0]] or 'no layer'}"
                )
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("layer", ROOMS)
def test_rooms_import_rooms_below(layer: str) -> None:
    """Imports inside functions and under TYPE_CHECKING count as any other."""
    order = {room: floor for floor, room in enumerate(ROOMS[layer])}
    wrong = []
    for of, path in sources():
        if of != layer:
            continue
        inside = path.relative_to(FOLDERS[layer]).with_suffix("").parts
        here = room_of(layer, ".".join(inside))
        for line, name in imports(path):
            if not name.startswith(f"tfjit.{layer}."):
                continue
            there = room_of(layer, name.removeprefix(f"tfjit.{layer}."))
            if order[there] > order[here]:
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {here or layer} imports {name}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("layer", ROOMS)
def test_every_room_is_listed_and_says_its_purpose(layer: str) -> None:
    folder = FOLDERS[layer]
    found = {".".join(p.parent.relative_to(folder).parts) for p in folder.rglob("__init__.py")}
    assert found == set(ROOMS[layer])
    for room in found:
        path = folder.joinpath(*room.split(".")) if room else folder
        page = ast.get_docstring(ast.parse((path / "__init__.py").read_text("utf-8")))
        assert page and len(page.split("\n", 1)[0].split()) <= 12, room


@pytest.mark.parametrize("layer", ["passes", "runtime"])
def test_no_device_is_imported_by_name(layer: str) -> None:
    """Passes and runtime ask the backend of a device (`kernels/ir/backend.py`)."""
    devices = {room.split(".")[0] for room in ROOMS["kernels"] if "." in room} - {"vmath"}
    assert devices == {"cpu", "cuda"}
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for of, path in sources()
        if of == layer
        for line, name in imports(path)
        if name.split(".")[:2] == ["tfjit", "kernels"] and name.split(".")[2] in devices
    ]
    assert not wrong, "\n".join(wrong)


def test_top_level_modules_import_no_heavy_library() -> None:
    """The command line and the demo reach numba and networkx through the layers. The demo may time
    TensorFlow beside us.
    """
    for layer, path in sources():
        if layer == "top":
            heavy = {name.split(".")[0] for _, name in imports(path)} & set(HOMES)
            allowed = {"tensorflow"} if path.parent.name == "demo" else set()
            assert heavy <= allowed, f"{path}: {heavy}"


def test_every_layer_has_code() -> None:
    """The tests above would pass on folders that were moved away."""
    found = {layer for layer, _ in sources()}
    assert {
        "lab",
        "client",
        "runtime",
        "passes",
        "kernels",
        "framework",
        "protos",
        "ops",
        "top",
    } <= found


def test_import_loads_nothing_heavy() -> None:
    """In a fresh interpreter, from outside the tree."""
    code = "import sys, tfjit; print(sorted({name.split('.')[0] for name in sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT.parent
    )
    loaded = set(ast.literal_eval(done.stdout))
    assert "tfjit" in loaded
    assert not loaded & {
        "numba",
        "llvmlite",
        "networkx",
        "grpc",
        "tensorflow",
        "matplotlib",
        "scipy",
        "pandas",
    }


def test_source_folders_are_not_importable_by_their_own_names() -> None:
    """Installed, `kernels` is `tfjit.kernels` only."""
    code = (
        "import importlib.util; print([importlib.util.find_spec(n) for n in ('kernels', "
        "'passes', 'protos')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT.parent
    )
    assert done.stdout.strip() == "[None, None, None]"


def test_no_module_is_named_for_nothing() -> None:
    for _, path in sources():
        assert not re.fullmatch(r"(utils?|helpers?|common|misc)", path.stem), path
