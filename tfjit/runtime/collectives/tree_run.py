"""Run a member's part of a broadcast."""

from __future__ import annotations

import numpy as np

from tfjit.runtime.collectives.exchange_order import trees
from tfjit.runtime.collectives.member_exchange import MemberExchange


def broadcast_in_tree(exchange: MemberExchange, value: np.ndarray | None) -> np.ndarray:
    """Return the source's value, which other members have as None."""
    call, resolved = exchange.call, exchange.resolved
    flat = None if value is None else np.array(value).reshape(-1)
    count = int(np.prod(call.shape, dtype=np.int64))
    for tree in trees(resolved.group, resolved.rank, resolved.source_rank):
        if tree.parent is not None:
            key = f"{exchange.key}:{tree.number}:{tree.parent}:{tree.place}"
            exchange.receive(key, tree.ranks[tree.parent], count, 0)
            _, flat = exchange.wait()
        assert flat is not None
        for child in tree.children:
            exchange.send(f"{exchange.key}:{tree.number}:{tree.place}:{child}", flat, 0)
        while not exchange.is_over:  # as TensorFlow does before the next tree
            exchange.wait()
    assert flat is not None
    return flat.reshape(call.shape).copy()


__all__ = ["broadcast_in_tree"]
