"""Give tests of this folder a server of TensorFlow and a graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf

from tests.distributed.session.servers import local_server


@pytest.fixture(scope="module")
def target() -> str:
    """The target of a server with one task."""
    return str(local_server().target)


@pytest.fixture
def graph() -> Iterator[Any]:
    """A graph of TensorFlow, as the default one."""
    made = tf.Graph()
    with made.as_default():
        yield made
