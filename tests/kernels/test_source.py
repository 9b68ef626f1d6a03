"""Each generated kernel names the module that generates it."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

from tfjit.kernels.source import KernelSource

ROOT = Path(__file__).parents[2]
RANDOM = ROOT / "kernels" / "cpu" / "random" / "stateful_random.py"
STRINGS = ROOT / "kernels" / "cpu" / "strings" / "string_function.py"
LAUNCHES = ROOT / "kernels" / "cuda" / "template" / "launches.py"
SOURCES = ("source", "launches.source")


def test_a_writer_is_a_path_of_the_source_tree() -> None:
    source = KernelSource("# text", module="tfjit.kernels.cpu.reduction.scan", title="running sum")
    assert source.writer == "kernels/cpu/reduction/scan.py"
    assert (ROOT / source.writer).is_file()
    assert source.description == "running sum, kernels/cpu/reduction/scan.py"
    runtime = replace(source, module="tfjit.runtime.step.layout")
    assert (ROOT / runtime.writer).is_file()
    unknown = KernelSource("# text")
    assert (unknown.writer, unknown.description) == ("", "kernel")
    assert unknown == source and unknown.digest == source.digest


def test_every_writer_names_its_module() -> None:
    unnamed = []
    for path in (ROOT / "kernels").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "KernelSource(" in text else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "KernelSource":
                given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
                # these have their caller's name as an argument
                own = "module" if path in (LAUNCHES, RANDOM, STRINGS) else "__name__"
                if given.get("module") != own:
                    unnamed.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert unnamed == []


def test_every_writer_of_a_cuda_kernel_names_its_module() -> None:
    unnamed = []
    for path in LAUNCHES.parent.parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in SOURCES:
                given = [*node.args, *(keyword.value for keyword in node.keywords)]
                if len(given) == 4 and ast.unparse(given[3]) not in ("__name__", "module"):
                    unnamed.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert unnamed == []
