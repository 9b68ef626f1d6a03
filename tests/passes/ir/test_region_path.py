"""One path for a node of a body, whatever scope its name has."""

from __future__ import annotations

from tfjit.passes.ir.region_path import branch_part, node_path, region_path


def test_a_name_with_the_scope_of_its_region_is_its_own_path() -> None:
    body = region_path("", "while", "body")
    assert body == "while/body"
    assert node_path(body, "while/body/MatMul") == "while/body/MatMul"
    assert node_path(body, "MatMul") == "while/body/MatMul"
    assert node_path(body, "while/bodyguard") == "while/body/while/bodyguard"
    assert node_path(body, "") == body
    assert node_path("", "MatMul") == "MatMul"


def test_nested_regions() -> None:
    then = branch_part(0, is_if=True)
    for name in ("cond", "while/body/cond"):
        assert region_path("while/body", name, then) == "while/body/cond/then_branch"
    assert [branch_part(k, is_if=True) for k in (0, 1)] == ["then_branch", "else_branch"]
    assert region_path("", "case", branch_part(2, is_if=False)) == "case/branch_2"
