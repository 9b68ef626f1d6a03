"""Run a program from a pack: write the pack in one process, open it in another.

The program builds its graph as always. The packing process saves graph and variables when they are
initialised, and keeps the fetches and feeds of each new signature. The other process runs the same
names in a session over the pack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

MAX_REQUESTS: Final = 16
PACKING_STEPS: Final = 250
PACKING_S: Final = 20.0


def _named(graph: Any, fetches: Any) -> Any:
    """Return the names of fetches in their structure."""
    if isinstance(fetches, dict):
        return {key: _named(graph, value) for key, value in fetches.items()}
    if isinstance(fetches, (list, tuple)):
        return [_named(graph, value) for value in fetches]
    return graph.as_graph_element(fetches).name


def _flat(names: Any) -> list[str]:
    if isinstance(names, str):
        return [names]
    return [name for part in names for name in _flat(part)]


def _initializes(names: Any) -> bool:
    """Return whether a run is that of `global_variables_initializer`."""
    return isinstance(names, str) and ":" not in names and names.startswith("init")


def _fed(feed_dict: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (tensor, value) of feeds; a SparseTensor has three."""
    for key, value in (feed_dict or {}).items():
        if hasattr(key, "dense_shape"):
            yield from zip((key.indices, key.values, key.dense_shape), value, strict=True)
        else:
            yield key, value


class PackingSession:
    """A session of tfjit that notes the runs to be packed."""

    def __init__(self, tf: Any, config: Any, folder: Path) -> None:
        self._tf, self._session, self._folder = tf, tf.Session(config=config), folder
        self.requests: dict[Any, tuple[dict[str, np.ndarray], tuple[str, ...]]] = {}
        self.inner = self._session
        self._saved = False

    def __enter__(self) -> PackingSession:
        self._session.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._session.__exit__(*error)

    def run(self, fetches: Any, feed_dict: Any = None) -> Any:
        """Run as the session does."""
        graph = self._session.graph
        names = _named(graph, fetches)
        if _initializes(names):
            return self._session.run(fetches, feed_dict)
        if not self._saved:
            self._saved = True
            builder = self._tf.saved_model.Builder(str(self._folder))
            builder.add_meta_graph_and_variables(self._session, ["serve"])
            builder.save()
        feeds = {}
        for key, value in _fed(feed_dict):
            tensor = graph.as_graph_element(key)
            feeds[tensor.name] = np.asarray(value, tensor.dtype.as_numpy_dtype)
        flat = tuple(_flat(names))
        signature = (flat, tuple((name, value.shape) for name, value in sorted(feeds.items())))
        if len(self.requests) < MAX_REQUESTS:
            self.requests.setdefault(signature, (feeds, flat))
        return self._session.run(fetches, feed_dict)


class PackedSession:
    """A session over a pack that runs the names of another graph's tensors."""

    def __init__(self, tf: Any, config: Any, pack: Path) -> None:
        import tfjit

        self._graph = tf.get_default_graph()
        self.inner = tfjit.Session(graph=pack, config=config)
        self._known: dict[int, tuple[Any, Any]] = {}

    def __enter__(self) -> PackedSession:
        self.inner.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.inner.__exit__(*error)

    def _names(self, fetches: Any) -> Any:
        """Return the names of fetches, which a program makes once or in each step."""
        parts = fetches if isinstance(fetches, list) else [fetches]
        key = hash(tuple(map(id, parts)))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = (fetches, _named(self._graph, fetches))
        return found[1]

    def run(self, fetches: Any, feed_dict: Any = None) -> Any:
        """Run the tensors of these names; variables are initialised already."""
        names = self._names(fetches)
        if _initializes(names):
            return None
        feeds = {key.name: value for key, value in _fed(feed_dict)}
        return self.inner.run(names, feeds)


def write(session: PackingSession, folder: Path, out: Path) -> None:
    """Pack the saved model with the noted runs."""
    from tfjit.client.packing.packer import RunRequest, pack_model
    from tfjit.client.session.model_file import read_model
    from tfjit.kernels.jit import target

    requests = [RunRequest(feeds, names) for feeds, names in session.requests.values()]
    pack_model(read_model(folder), requests, out, target.levels_here()[:1])


def opener(pack: Path | None) -> Callable[[Any, Any], PackedSession] | None:
    """Return the function that makes a program's session; None for a plain session.

    pack: the pack to open.
    """
    if pack is None:
        return None
    return lambda tf, config: PackedSession(tf, config, pack)
