"""Lower loops and branches to jumps between the rows of a table.

The file decides which constructs become jumps, and the target of each jump:

loop      (head:)                     branch    test: not this case -> next case
test      test: over -> behind        ...
...                                   case      jump -> behind;
                                                (next case:) test: not this case -> next case
repeat    jump -> head; (behind:)     join      (behind:)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tfjit.kernels.executor.table_executor import JUMP, TEST_BYTE, TEST_INT32, TEST_INT64

if TYPE_CHECKING:
    from tfjit.kernels.registry import NativeCall
    from tfjit.runtime.lowering.lowered import Instruction

# dtype of a scalar -> (kind of test, mask). A float is true unless all its bits but the sign are 0.
_TESTS: Final[dict[str, tuple[int, int]]] = {
    **dict.fromkeys(("bool", "int8", "uint8"), (TEST_BYTE, -1)),
    **dict.fromkeys(("int32", "uint32"), (TEST_INT32, -1)),
    **dict.fromkeys(("int64", "uint64"), (TEST_INT64, -1)),
    "float32": (TEST_INT32, 0x7FFFFFFF),
    "float64": (TEST_INT64, 0x7FFFFFFFFFFFFFFF),
}


def compiled_constructs(
    instructions: Sequence[Instruction], calls: Mapping[int, NativeCall]
) -> set[int]:
    """Return the ids of the loops and branches that can become jumps.

    Their instructions are all compiled, and none needs a variable's lock.
    """
    found: set[int] = set()
    refused: set[int] = set()
    for instruction in instructions:
        if instruction.construct is None:
            continue
        found.add(id(instruction.construct))
        if instruction.role is None:
            fits = id(instruction) in calls and not instruction.locks_variable
        else:
            fits = all(value.dtype.name in _TESTS for value in instruction.inputs)
        if not fits:
            refused.update(id(construct) for construct in instruction.construct.chain)
    return found - refused


@dataclass(slots=True)
class Jump:
    """Describe a jump row of the table.

    target: the row to continue with, -1 for a later row. test: mask, value and invert of a test's
    block.
    """

    target: int
    kind: int
    test: tuple[int, int, int] | None = None


@dataclass(slots=True)
class _Open:
    """Track an open loop or branch.

    case: its number. next_case, behind: rows of jumps that need these targets.
    """

    head: int = 0
    case: int = 0
    next_case: list[int] = field(default_factory=list)
    behind: list[int] = field(default_factory=list)


class Labels:
    """Resolve jump targets while a native run's rows are written in order."""

    def __init__(self) -> None:
        self._open: list[_Open] = []

    def arrive(self, marker: Instruction, row: int) -> list[tuple[int, int]]:
        """Return (earlier row, target row) of the jumps to a marker.

        The marker's own rows begin at `row`.
        """
        if marker.role in ("loop", "branch"):
            self._open.append(_Open(head=row))
        # A failed case test continues after the jump that ends the previous case.
        elif marker.role == "case":
            innermost = self._open[-1]
            waiting, innermost.next_case = innermost.next_case, []
            return [(jump, row + 1) for jump in waiting]
        elif marker.role == "join":
            done = self._open.pop()
            return [(jump, row) for jump in done.next_case + done.behind]
        elif marker.role == "repeat":
            return [(jump, row + 1) for jump in self._open[-1].behind]
        return []

    def leave(self, marker: Instruction, row: int) -> list[Jump]:
        """Return the jumps of a marker, the first at `row`."""
        if marker.role in ("loop", "join"):
            return []
        innermost = self._open[-1]
        if marker.role == "repeat":
            self._open.pop()
            return [Jump(innermost.head, JUMP)]
        kind, mask = _TESTS[marker.inputs[0].dtype.name]
        construct = marker.construct
        assert construct is not None
        if marker.role == "test":
            innermost.behind.append(row)
            return [Jump(-1, kind, (mask, 0, 0))]
        jumps = []
        if marker.role == "case":
            innermost.case += 1
            innermost.behind.append(row)
            jumps.append(Jump(-1, JUMP))
        if innermost.case + 1 < construct.cases:  # the last case also serves all other numbers
            innermost.next_case.append(row + len(jumps))
            jumps.append(
                Jump(-1, kind, (mask, 0, 0) if construct.boolean else (mask, innermost.case, 1))
            )
        return jumps
