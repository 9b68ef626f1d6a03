"""Write a plan's lowered partition, kernels and step for TFJIT_DUMP.

The kernels are those of a plan or of a node. Each text is headed by the kernel's writer and by the
nodes that the kernel serves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tfjit.passes.text.tensor_files import FOLDER, TensorFiles
from tfjit.runtime.lowering.lowered_text import print_lowered

if TYPE_CHECKING:
    from tfjit.kernels.source import KernelSource
    from tfjit.runtime.lowering.lowered import Instruction, Lowered
    from tfjit.runtime.step.step import Step

_TITLE_LENGTH = 60


def dump_lowered(folder: Path, lowered: Lowered) -> None:
    """Write a partition's instructions; comments name the kernels chosen so far."""
    folder.mkdir(parents=True, exist_ok=True)
    text = print_lowered(lowered, full=TensorFiles(folder / FOLDER))
    (folder / "lowered.txt").write_text(text, encoding="utf-8")


def kernel_texts(instructions: Iterable[Instruction]) -> dict[str, str]:
    """Return the text of each kernel, with its nodes, by file name."""
    users: dict[KernelSource, list[str]] = {}
    for instruction in instructions:
        for call in {
            id(call): call for call in (instruction.call, instruction.unfused) if call is not None
        }.values():
            for source in call.sources():
                users.setdefault(source, []).append(_described(instruction))
    texts: dict[str, str] = {}
    for source, nodes in users.items():
        head = [f"# {source.title or 'kernel'}, entries {', '.join(source.entries)}"]
        head += [f"# written by {source.writer}"] if source.writer else []
        head += ["# serves:", *(f"#   {node}" for node in dict.fromkeys(nodes))]
        texts[_file_name(source)] = "\n".join([*head, source.text])
    return texts


def kernel_path(folder: Path, source: KernelSource) -> Path:
    """Return the file of a kernel's text among the dumps in `folder`."""
    return folder / "kernels" / _file_name(source)


def _file_name(source: KernelSource) -> str:
    title = re.sub(r"[^\w+-]+", "_", source.title or "kernel")[:_TITLE_LENGTH]
    return f"{title}_{source.digest[:12]}.py"


def dump_kernels(folder: Path, instructions: Iterable[Instruction]) -> None:
    """Write the texts of all kernels to `folder`/kernels."""
    for name, text in kernel_texts(instructions).items():
        path = folder / "kernels" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def dump_step(folder: Path, step: Step) -> None:
    """Write the generated function of a plan's newest step."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "step.py").write_text(step.text, encoding="utf-8")


def _described(instruction: Instruction) -> str:
    group = instruction.spec.attrs.get("group")
    members = f": {', '.join(group.names)}" if group is not None else ""
    return f"{instruction.node_path} ({instruction.node.op}){members}"
