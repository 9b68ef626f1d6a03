"""Collect losses of a graph, and add them."""

from __future__ import annotations

from tfjit import ops
from tfjit.framework.graphs.default_graph import add_to_collection, get_collection
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.graphs.operation import Tensor


def add_loss(loss: Tensor, loss_collection: str | None = GraphKeys.LOSSES) -> None:
    """Add a loss to a collection; without one, do nothing."""
    if loss_collection:
        add_to_collection(loss_collection, loss)


def get_losses(scope: str | None = None, loss_collection: str = GraphKeys.LOSSES) -> list[Tensor]:
    """Return the losses of a collection.

    scope: only losses whose names match it from the start.
    """
    return get_collection(loss_collection, scope)


def get_regularization_losses(scope: str | None = None) -> list[Tensor]:
    """Return the losses that regularizers of variables have made."""
    return get_collection(GraphKeys.REGULARIZATION_LOSSES, scope)


def get_regularization_loss(
    scope: str | None = None, name: str = "total_regularization_loss"
) -> Tensor:
    """Return the sum of the regularization losses; zero without any."""
    losses = get_regularization_losses(scope)
    return ops.add_n(losses, name=name) if losses else ops.constant(0.0)


def get_total_loss(
    add_regularization_losses: bool = True, name: str = "total_loss", scope: str | None = None
) -> Tensor:
    """Return the sum of all losses, with those of regularizers by default.

    Raises ValueError without any loss.
    """
    losses = get_losses(scope=scope)
    if add_regularization_losses:
        losses += get_regularization_losses(scope=scope)
    return ops.add_n(losses, name=name)
