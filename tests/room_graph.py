"""Read the graph of rooms: `python -m tests.room_graph` prints files, floors and arrows.

A floor is one more than the highest floor of a room's imports in its layer. Lazy and type-only
imports count as any other. `tests/test_layers.py` holds the order of the rooms.
"""

from __future__ import annotations

import ast
import functools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# From the user down to the wire. A layer imports itself and those after it.
LAYERS = ("lab", "client", "distributed", "runtime", "passes", "kernels", "framework", "protos")
# Where the source of `tfjit.<layer>` stands in the tree.
FOLDERS = {
    layer: ROOT / layer if layer in ("passes", "kernels", "protos") else ROOT / "tfjit" / layer
    for layer in (*LAYERS, "ops")
}
# The rooms of each layer, from the bottom: a room imports only rooms before it.
# "" is the layer's own folder.
ROOMS = {
    "framework": ("", "types", "scalar", "op_defs", "files", "graphs"),
    "kernels": (
        *("", "vmath", "vmath.tools", "ir", "codegen", "jit", "executor", "cpu.template"),
        *("cpu.elementwise", "cpu.random", "cpu.gemm", "cpu.linear_algebra", "cpu.data_movement"),
        *("cpu.reduction", "cpu.conv", "cpu.loop_program", "cpu.codecs", "cpu.strings"),
        *("cpu.reference", "cpu.reference.records"),
        *("cpu.reference.arrays", "cpu.reference.arithmetic", "cpu.reference.random_values"),
        *("cpu.reference.images", "cpu.reference.sparse", "cpu.reference.layers"),
        *("cpu.reference.state", "cpu.images", "cpu", "cuda.libraries", "cuda.device"),
        "cuda.template",
        "cuda.data_movement",
        *(
            "cuda.elementwise",
            "cuda.reduction",
            "cuda.gemm",
            "cuda.conv",
            "cuda.images",
            "cuda.random",
            "cuda",
            "precompile",
        ),
    ),
    "passes": (
        *(
            "ir",
            "text",
            "history",
            "manager",
            "analysis",
            "patterns",
            "fusion",
            "canonicalize",
            "partitioning",
            "legalize",
        ),
        *("control_flow", "loops", "offload", ""),
    ),
    "runtime": (
        *(
            "host",
            "resources",
            "collectives",
            "kernel_api",
            "",
            "lowering",
            "schedule",
            "step",
            "executor",
        ),
        *(
            "sizes",
            "stored_plans",
            "plan",
            "offload",
            "datasets",
            "op_kernels.control_flow",
            "op_kernels.containers",
            "op_kernels.state",
        ),
        *("op_kernels.io", "op_kernels.datasets", "op_kernels", "profiling", "session"),
    ),
    "ops": (
        *("core", "arithmetic", "random_values", "layers", "arrays", "images", "sparse", "state"),
        *("containers", "control_flow", "checks", "", "records", "autodiff", "autodiff.arithmetic"),
        *("autodiff.arrays", "autodiff.layers", "autodiff.images", "autodiff.sparse"),
        "autodiff.random_values",
        *("autodiff.state", "autodiff.containers", "autodiff.control_flow"),
    ),
    "distributed": (
        *("shared_memory", "protocol", "parcels", "channels", "worker", "master", "server"),
        *("session", ""),
    ),
    "client": (
        "session",
        "variables",
        "network",
        "images",
        "data",
        "composites",
        "ragged",
        "datasets",
        "evaluation",
        "feature_columns",
        "probability",
        "rnn",
        "training",
        "saving",
        "monitored",
        "packing",
        "testing",
        "",
    ),
    "lab": ("peers", "measure", "rewrites", "page", ""),
}


def sources() -> Iterator[tuple[str, Path]]:
    """Yield (layer, file) of every module that is not generated; "top" is above all layers."""
    for layer, folder in FOLDERS.items():
        for path in sorted(folder.rglob("*.py")):
            if not path.name.endswith("_pb2.py"):
                yield layer, path
    for path in [
        *sorted((ROOT / "tfjit").glob("*.py")),
        *sorted((ROOT / "tfjit" / "demo").glob("*.py")),
    ]:
        yield "top", path


@functools.cache
def imports(path: Path) -> tuple[tuple[int, str], ...]:
    """Return (line, dotted name) of each import, lazy and type-only ones included.

    `from a import b` gives "a.b": b may be a module, and its layer is that of `a.b` either way.
    """
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return tuple(found)


def may_import(importer: str, imported: str) -> bool:
    """Return whether code in layer `importer` may import `tfjit.<imported>`."""
    if importer == "top" or importer == imported:
        return True
    if imported == "ops":
        return importer in ("lab", "client")
    if importer == "ops":
        return imported == "framework"
    return imported in LAYERS and LAYERS.index(importer) < LAYERS.index(imported)


@functools.cache
def room_of(layer: str, dotted: str) -> str:
    """Return the room that a dotted name below a layer is in: "cpu.gemm" of "cpu.gemm.packing"."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        if (FOLDERS[layer].joinpath(*parts[:length]) / "__init__.py").is_file():
            return ".".join(parts[:length])
    return ""


def arrows(layer: str) -> dict[str, Counter[str]]:
    """Return for each room of a layer the rooms that it imports, with their import counts."""
    found: dict[str, Counter[str]] = {room: Counter() for room in ROOMS[layer]}
    for of, path in sources():
        if of != layer:
            continue
        inside = path.relative_to(FOLDERS[layer]).with_suffix("").parts
        here = room_of(layer, ".".join(inside))
        for _, name in imports(path):
            if name.startswith(f"tfjit.{layer}."):
                there = room_of(layer, name.removeprefix(f"tfjit.{layer}."))
                if there != here:
                    found[here][there] += 1
    return found


def main() -> None:
    """Print every layer's rooms from the top floor down, and the totals."""
    rooms = files = total = 0
    for layer, order in ROOMS.items():
        graph = arrows(layer)
        floors: dict[str, int] = {}
        for room in order:
            below = [floors.get(other, len(order) + 1) for other in graph[room]]
            floors[room] = 1 + max(below, default=0)
        print(f"{layer}:")
        for room in sorted(order, key=lambda r: -floors[r]):
            folder = FOLDERS[layer].joinpath(*room.split(".")) if room else FOLDERS[layer]
            count = sum(1 for p in folder.glob("*.py") if p.name != "__init__.py")
            to = ", ".join(f"{other or layer} ({n})" for other, n in sorted(graph[room].items()))
            print(f"  {floors[room]:2}  {room or layer:27} {count:3} files  -> {to}")
            rooms, files, total = rooms + 1, files + count, total + len(graph[room])
    print(f"{rooms} rooms, {files} files, {total} arrows between rooms of one layer")


if __name__ == "__main__":
    main()
