"""Run a member's part of a ring: a reduction or a gather."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from tfjit.framework.types.dtypes import DType
from tfjit.runtime.collectives.exchange_order import (
    FINISH,
    MERGE,
    RECEIVE,
    SEND,
    aligned_chunk_size,
    chunk_bounds,
    ring,
    ring_actions,
    subdiv_offsets,
)
from tfjit.runtime.collectives.member_exchange import MemberExchange

_MERGES: Final[dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]]] = {
    "Add": np.add,
    "Mul": np.multiply,
    "Max": np.maximum,
    "Min": np.minimum,
}


class _Field:
    """A chunk of one ring on its way.

    number: of the field, part of its keys. value: elements that no other member changes. left: the
    actions to come, the next one last.
    """

    def __init__(
        self,
        number: int,
        place: int,
        before: int,
        value: np.ndarray,
        actions: list[tuple[str, int]],
    ) -> None:
        self.number, self.place, self.before, self.value = number, place, before, value
        self.left = actions[::-1]
        self.received: np.ndarray | None = None


def reduce_in_ring(exchange: MemberExchange, value: np.ndarray) -> np.ndarray:
    """Return the reduction of all members' values."""
    call, group = exchange.call, exchange.resolved.group
    flat = np.array(value).reshape(-1)  # a copy: other members read it behind the end of the node
    offsets = subdiv_offsets(call.subdiv_offsets, call.max_subdivs, group, flat.nbytes)
    count = group.size * len(offsets)
    size = aligned_chunk_size(flat.itemsize, flat.size, count)
    chunks = [flat[begin:end] for begin, end in chunk_bounds(size, flat.size, count)]
    fields = _run(exchange, chunks, offsets)
    if group.size == 1:
        return flat.reshape(value.shape)
    return np.concatenate([field.value for field in fields]).reshape(value.shape)


def gather_in_ring(exchange: MemberExchange, value: np.ndarray) -> np.ndarray:
    """Return all members' values joined, in the order of ranks."""
    size = exchange.resolved.group.size
    flat = np.array(value).reshape(-1)
    # a member's own elements stand in for those that are to come: all are as many
    fields = _run(exchange, [flat] * size, (0,))
    shape = (value.shape[0] * size, *value.shape[1:])
    return np.concatenate([field.value for field in fields]).reshape(shape)


def _run(
    exchange: MemberExchange, chunks: list[np.ndarray], offsets: tuple[int, ...]
) -> list[_Field]:
    """Take all chunks through the ring; return their fields in order."""
    call, resolved = exchange.call, exchange.resolved
    size, rings = resolved.group.size, []
    for offset in offsets:
        order = ring(resolved.group, offset)
        place = order.index(resolved.rank)
        rings.append((place, order[place - 1]))
    fields = []
    for number, chunk in enumerate(chunks):
        place, before = rings[number % len(offsets)]
        actions = ring_actions(call.kind, place, number // len(offsets), size)
        fields.append(_Field(number, place, before, chunk, list(actions) if chunk.size else []))
    for field in fields:
        _advance(exchange, field, size)
    while not exchange.is_over:
        tag, received = exchange.wait()
        fields[tag].received = received
        _advance(exchange, fields[tag], size)
    return fields


def _advance(exchange: MemberExchange, field: _Field, size: int) -> None:
    """Go on with a field up to its next exchange."""
    call = exchange.call
    if field.received is not None and not (field.left and field.left[-1][0] == MERGE):
        field.value, field.received = field.received, None
    while field.left:
        action, number = field.left.pop()
        key = f"{exchange.key}:{number}:{field.number}:"
        if action == SEND:
            exchange.send(f"{key}{field.place}", field.value, field.number)
            return
        if action == RECEIVE:
            key += str((field.place - 1) % size)
            exchange.receive(key, field.before, field.value.size, field.number)
            return
        with np.errstate(all="ignore"):
            if action == MERGE and field.received is not None:
                field.value = _MERGES[call.merge](field.value, field.received)
                field.received = None
            elif action == FINISH and call.final == "Div":
                field.value = divided(field.value, size, call.dtype)


def divided(value: np.ndarray, count: int, dtype: DType) -> np.ndarray:
    """Return values divided by a count; integers are rounded towards zero."""
    if not dtype.is_integer:
        return value / np.asarray(count, value.dtype)
    quotient = np.abs(value) // count
    return (np.sign(value) * quotient).astype(value.dtype)


__all__ = ["divided", "gather_in_ring", "reduce_in_ring"]
