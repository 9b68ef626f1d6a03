"""Between-graph replicas of one model, in either library."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.distributed.digits import batch

_HIDDEN: Final = 12
_CLASSES: Final = 10


class Replica:
    """A worker's graph and session: it trains the variables on the parameter server.

    target: "" for a DirectSession. device: a device or a function of one for all operations.
    """

    def __init__(self, library: Any, target: str, device: Any) -> None:
        self._library = library
        rng = np.random.default_rng(0)
        images = batch(0)["images:0"]
        inner = int(np.prod(images.shape[1:]))
        with (
            library.Graph().as_default() as graph,
            library.device(device),
            # the libraries differ in their default
            library.variable_scope("", use_resource=True),
        ):
            self._images = library.placeholder(library.float32, [None, *images.shape[1:]])
            self._labels = library.placeholder(library.int32, [None])
            rows: Any = library.reshape(self._images, [-1, inner])
            for number, (before, size) in enumerate(((inner, _HIDDEN), (_HIDDEN, _CLASSES))):
                first = rng.normal(0, before**-0.5, (before, size)).astype(np.float32)
                weights = library.get_variable(f"weights{number}", initializer=first)
                bias = library.get_variable(f"bias{number}", initializer=np.zeros(size, "f4"))
                rows = library.matmul(library.nn.relu(rows) if number else rows, weights) + bias
            self.loss = library.reduce_mean(
                library.nn.sparse_softmax_cross_entropy_with_logits(
                    labels=self._labels, logits=rows
                )
            )
            self.global_step = library.train.get_or_create_global_step()
            optimizer = library.train.MomentumOptimizer(0.05, 0.5)
            self._train = optimizer.minimize(self.loss, global_step=self.global_step)
            self._initialize = library.global_variables_initializer()
            self.ready = library.report_uninitialized_variables()
        config = library.ConfigProto(operation_timeout_in_ms=60_000)
        self.graph = graph
        self.session = library.Session(target, graph=graph, config=config)

    def _fed(self, number: int) -> dict[Any, np.ndarray]:
        fed = batch(number)
        return {self._images: fed["images:0"], self._labels: fed["labels:0"]}

    def initialize(self) -> None:
        """Give all variables values."""
        self.session.run(self._initialize)

    def step(self, number: int) -> float:
        """Train on a batch; return the loss before."""
        loss, _ = self.session.run([self.loss, self._train], self._fed(number))
        return float(loss)

    def evaluate(self) -> float:
        """Return the loss of the first batch."""
        return float(self.session.run(self.loss, self._fed(0)))
