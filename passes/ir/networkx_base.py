"""Give graphs networkx's interface without an import of networkx.

networkx imports 280 modules, which take a third of a process's time to the first result, and plans
need none of them. So networkx's class becomes the base of the working graph when a method of
networkx is first asked for.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

_Table = dict[str, object]
_lock = threading.Lock()


class _BeforeNetworkx:
    """Stand in for `networkx.MultiDiGraph` until one of its attributes is used."""

    def __init__(self, incoming_graph_data: None = None, **attr: object) -> None:
        """Make the dictionaries of an empty graph, in networkx's form."""
        assert incoming_graph_data is None
        self.graph = attr
        self._node: _Table = {}
        self._adj: _Table = {}
        self._succ = self._adj
        self._pred: _Table = {}
        self.__networkx_cache__: _Table = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._node)

    def __contains__(self, n: object) -> bool:
        return n in self._node

    def __len__(self) -> int:
        return len(self._node)

    def __getitem__(self, n: str) -> object:
        adopt_networkx()
        return self[n]

    def __str__(self) -> str:
        adopt_networkx()
        return str(self)

    def __getattr__(self, name: str) -> object:
        """Return an attribute of networkx's class, which becomes the base."""
        adopt_networkx()
        return getattr(self, name)


if TYPE_CHECKING:
    import networkx as nx

    class NetworkxGraph(nx.MultiDiGraph):
        """Derive from networkx's class, which is imported when it is needed."""
else:

    class NetworkxGraph(_BeforeNetworkx):
        """Derive from networkx's class, which is imported when it is needed."""


def adopt_networkx() -> None:
    """Make `networkx.MultiDiGraph` the base of `NetworkxGraph`, once.

    All graphs become instances of it, those that exist included.
    """
    with _lock:
        if NetworkxGraph.__bases__ == (_BeforeNetworkx,):
            import networkx as nx

            NetworkxGraph.__bases__ = (nx.MultiDiGraph,)


if "networkx" in sys.modules:
    adopt_networkx()


__all__ = ["NetworkxGraph", "adopt_networkx"]
