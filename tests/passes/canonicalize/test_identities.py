"""The identities of `simplify` are rules that can match."""

from __future__ import annotations

import pytest

from tfjit.passes.canonicalize.identities import IDENTITIES
from tfjit.passes.patterns.check import check_rule
from tfjit.passes.patterns.rewrite_rule import Rule


@pytest.mark.parametrize("rule", IDENTITIES, ids=lambda rule: rule.name)
def test_each_rule_passes_the_check_of_declared_rules(rule: Rule) -> None:
    check_rule(rule)


def test_names_are_unique() -> None:
    assert len({rule.name for rule in IDENTITIES}) == len(IDENTITIES)
