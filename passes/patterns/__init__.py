"""Rewrites as patterns: expressions, the matcher, rules, passes of rules.

In: rules, declared as expressions over op types, constants and tensors. Out: passes that rewrite a
graph in one walk, and reasons why a rule left a node alone. Not in here: the built-in rules
(`canonicalize`).

`from tfjit.passes import patterns as p` gives the names below; they are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tfjit.passes.ir.declined import Declined as Declined
    from tfjit.passes.patterns.bound import Bound as Bound
    from tfjit.passes.patterns.explain import Explanation as Explanation
    from tfjit.passes.patterns.explain import why_not as why_not
    from tfjit.passes.patterns.expressions import attr as attr
    from tfjit.passes.patterns.expressions import constant as constant
    from tfjit.passes.patterns.expressions import constants as constants
    from tfjit.passes.patterns.expressions import op as op
    from tfjit.passes.patterns.expressions import op_type as op_type
    from tfjit.passes.patterns.expressions import tensor as tensor
    from tfjit.passes.patterns.expressions import tensors as tensors
    from tfjit.passes.patterns.rewrite_rule import Rule as Rule
    from tfjit.passes.patterns.rewriting import as_pass as as_pass
    from tfjit.passes.patterns.rewriting import rewrite as rewrite
    from tfjit.passes.patterns.rewriting import rule as rule

_HOMES: Final = {
    "ir.declined": "Declined",
    "patterns.bound": "Bound",
    "patterns.explain": "Explanation why_not",
    "patterns.expressions": "attr constant constants op op_type tensor tensors",
    "patterns.rewriting": "as_pass rewrite rule",
    "patterns.rewrite_rule": "Rule",
}
_NAMES: Final = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"tfjit.passes.{_NAMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES})
