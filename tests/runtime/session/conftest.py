"""Share one session world among the tests of a module."""

from __future__ import annotations

import pytest

from tests.runtime.session.configs import World


@pytest.fixture(scope="module")
def world() -> World:
    return World()
