"""A template judges groups of nodes alike once."""

from __future__ import annotations

import pytest

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests.passes.fusing import fused, groups
from tfjit.kernels.ir.fused_group import FusedGroup
from tfjit.passes.fusion.fused_group_builder import GroupMaker

# Two halves that differ by the names of nodes and inputs, and by attrs that no kernel reads.
HALF = """
    x{n} = Placeholder(shape=<4,8>)
    y{n} = Placeholder(shape=<4,8>)
    k{n} = Slice(x{n}, b, s, _class=[b'loc:@x{n}'])
    a{n} = Mul(k{n}, k{n})
    r{n} = _Retval(a{n}, index={n})
"""


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[FusedGroup]:
    """The groups that a template was asked about."""
    found: list[FusedGroup] = []
    check = GroupMaker.check

    def noted(self: GroupMaker, group: FusedGroup) -> None:
        found.append(group)
        check(self, group)

    monkeypatch.setattr(GroupMaker, "check", noted)
    return found


def graph_of(*halves: str) -> str:
    constants = "b = Const(value=int32<2>[0, 2])\ns = Const(value=int32<2>[4, 4])\n"
    constants += "c = Const(value=int32<2>[0, 3])\n"
    return constants + "".join(half.format(n=n) for n, half in enumerate(halves))


def test_groups_of_nodes_alike_are_checked_once(checked: list[FusedGroup]) -> None:
    graph, _ = fused(graph_of(HALF))
    alone = len(checked)
    checked.clear()
    graph, _ = fused(graph_of(HALF, HALF, HALF))
    assert len(groups(graph)) == 3
    assert len(checked) == alone > 0


@pytest.mark.parametrize(
    "other",
    [
        HALF.replace("b, s", "c, s"),
        HALF.replace("Mul(k{n}, k{n})", "Sub(k{n}, k{n})"),
        HALF.replace("<4,8>", "<6,8>"),
        HALF.replace("Mul(k{n}, k{n})", "Mul(k{n}, z)"),
        HALF + "    q{n} = _Retval(k{n}, index=7)\n",
    ],
)
def test_other_groups_are_checked_too(other: str, checked: list[FusedGroup]) -> None:
    z = "z = Placeholder(shape=<4,4>)\n"
    fused(z + graph_of(HALF))
    alone = len(checked)
    checked.clear()
    fused(z + graph_of(HALF, other))
    assert len(checked) > alone
