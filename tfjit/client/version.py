"""`tfjit.version`: versions of tfjit and of its graphs."""

from __future__ import annotations

from typing import Final

from tfjit.framework.graphs.graph import PRODUCER
from tfjit.framework.version import __version__

VERSION: Final = __version__
GRAPH_DEF_VERSION: Final = PRODUCER
GRAPH_DEF_VERSION_MIN_CONSUMER: Final = 0
GRAPH_DEF_VERSION_MIN_PRODUCER: Final = 0

__all__ = [
    "GRAPH_DEF_VERSION",
    "GRAPH_DEF_VERSION_MIN_CONSUMER",
    "GRAPH_DEF_VERSION_MIN_PRODUCER",
    "VERSION",
]
