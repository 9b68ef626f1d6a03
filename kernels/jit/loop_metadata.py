"""Put hints to LLVM's vectoriser on loops, as metadata in text.

A long chain of vector operations on one block of elements is bound by latency: the next block's
operations are too far away in the instruction stream to overlap. Interleaving several blocks in one
iteration hides the latency. LLVM interleaves by itself for short loops only. Measured on Zen 4: exp
and log four times over take 6.5 ns an element plain, 4.3 with two blocks, 2.9 with four.
"""

from __future__ import annotations

import re

# llvmlite writes quotes around names that LLVM itself writes without
_LABEL = re.compile(r'^"?([-\w.$]+)"?:')
_TARGET = re.compile(r'label %"?([-\w.$]+)')
_METADATA = re.compile(r"^!(\d+) = ", re.MULTILINE)


def interleave_loops(text: str, count: int) -> str:
    """Add "interleave `count` blocks" to a module's innermost loops.

    The hint is put on each branch back to an earlier block. Outer loops get it too; it has no
    effect there.
    """
    numbers = [int(n) for n in _METADATA.findall(text)]
    number = max(numbers, default=-1) + 1
    hint = number
    number += 1
    added = [f'!{hint} = !{{!"llvm.loop.interleave.count", i32 {count}}}']
    lines = text.split("\n")
    seen: set[str] = set()
    for i, line in enumerate(lines):
        if line.startswith("define "):
            seen = set()
            continue
        label = _LABEL.match(line)
        if label:
            seen.add(label[1])
            continue
        if (
            line.startswith("  br ")
            and "!llvm.loop" not in line
            and any(target in seen for target in _TARGET.findall(line))
        ):
            lines[i] = f"{line}, !llvm.loop !{number}"
            added.append(f"!{number} = distinct !{{!{number}, !{hint}}}")
            number += 1
    return "\n".join([*lines, *added, ""])
