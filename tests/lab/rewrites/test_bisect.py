"""A wrong or slow rewrite, planted in each optional pass in turn, is found to the pass and rewrite."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tfjit as tf
from tests.passes.manager.test_pass_manager import program
from tfjit.lab import Bisection, bisect
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.manager import pass_registry
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.pass_registry import PASSES

Pass = Callable[[DataflowGraph, PassContext], None]


@pytest.fixture(autouse=True)
def by_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")
