"""Compare TensorFlow's two modes, with oneDNN and without.

TensorFlow chooses by the CPU unless TF_ENABLE_ONEDNN_OPTS says. tests/conftest.py sets that to 1
where it is not set, so the suite compares with one TensorFlow on every x86-64 CPU. tfjit follows
the mode with oneDNN wherever that mode computes nodes that the other refuses; `DIFFERENCES` has
each difference with both answers, and tests whose cases are among them ask for the mode they
compare with.

`python -m tests.oracle` serves the other mode to `ask`: a process has one.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

Mode = Literal["oneDNN", "plain"]
_VARIABLE: Final = "TF_ENABLE_ONEDNN_OPTS"
_VALUES: Final[dict[Mode, str]] = {"oneDNN": "1", "plain": "0"}


def mode() -> Mode:
    """Return the mode of TensorFlow in this process."""
    return "plain" if os.environ.get(_VARIABLE, "").lower() in ("0", "false") else "oneDNN"


@dataclass(frozen=True)
class Failure:
    """Hold an error of a run.

    Its class in tf.errors, and its first words.
    """

    kind: str
    words: str


Answer = list[np.ndarray] | Failure


@dataclass(frozen=True)
class Difference:
    """Hold one node that the two modes answer differently.

    inputs, attrs: of the node. onednn, plain: their answers.

    ours: the mode whose answer tfjit gives, for the reason given. None among an answer's arrays:
    memory that nothing wrote. forward: op type of a node on the first input, with the same attrs,
    whose output is a second input.
    """

    op: str
    inputs: tuple[np.ndarray, ...]
    attrs: Mapping[str, Any]
    onednn: Sequence[np.ndarray | None] | Failure
    plain: Sequence[np.ndarray | None] | Failure
    ours: Mode
    reason: str
    forward: str = ""

    def answer(self, which: Mode) -> Sequence[np.ndarray | None] | Failure:
        """Return the answer of a mode."""
        return self.onednn if which == "oneDNN" else self.plain


def _f(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def _window(*values: float) -> np.ndarray:
    return _f(*values).reshape(1, 1, -1, 1)


_NAN: Final = float("nan")
_POOL: Final = {"ksize": [1, 1, 3, 1], "strides": [1, 1, 1, 1], "padding": "VALID"}
_ONE: Final = np.ones((1, 1, 1, 1), np.float32)
_UNIT: Final = {"strides": [1, 1, 1, 1], "padding": "VALID"}
_NORM: Final = {"data_format": "NHWC", "is_training": False, "epsilon": 0.0}
_TWO: Final = np.array([2.0, 4.0], np.float32).reshape(1, 1, 2, 1)
_COMPUTES: Final = "it computes what the other refuses"

DIFFERENCES: Final = (
    Difference(
        "MaxPoolGrad",
        (_window(_NAN, 1, 2), _window(5)),
        _POOL,
        forward="MaxPool",
        onednn=[_window(0, 0, 5)],
        plain=[_window(5, 0, 0)],
        ours="oneDNN",
        reason="the gradient belongs to the element that the forward pass chose; that passes over "
        "NaN in both modes",
    ),
    Difference(
        "Conv2DBackpropInput",
        (
            np.array([1, 1, 1, 2], np.int32),
            _f(2, 3).reshape(1, 1, 1, 2),
            _f(1, 10).reshape(1, 1, 1, 2),
        ),
        _UNIT,
        onednn=[_f(2, 30).reshape(1, 1, 1, 2)],
        plain=Failure(
            "InvalidArgumentError", "Gradients for grouped convolutions are not supported on CPU"
        ),
        ours="oneDNN",
        reason=_COMPUTES,
    ),
    Difference(
        "Conv2DBackpropFilter",
        (
            _f(2, 3).reshape(1, 1, 1, 2),
            np.array([1, 1, 1, 2], np.int32),
            _f(1, 10).reshape(1, 1, 1, 2),
        ),
        _UNIT,
        onednn=[_f(2, 30).reshape(1, 1, 1, 2)],
        plain=Failure("InvalidArgumentError", "filter_size does not have enough elements"),
        ours="oneDNN",
        reason=_COMPUTES,
    ),
    Difference(
        "DepthwiseConv2dNative",
        (_f(1, 2, 3).reshape(1, 1, 3, 1), _f(10, 1).reshape(1, 2, 1, 1)),
        {**_UNIT, "dilations": [1, 2, 2, 1]},
        onednn=[_f(13).reshape(1, 1, 1, 1)],
        plain=Failure(
            "UnimplementedError", "Current kernel implementation does not support dilations"
        ),
        ours="oneDNN",
        reason=_COMPUTES,
    ),
    Difference(
        "_FusedMatMul",
        (_f([0]), _f([1]), _f(0)),
        {"num_args": 1, "fused_ops": ["BiasAdd", "GeluExact"]},
        onednn=[_f([0])],
        plain=Failure("UnimplementedError", "Fusion is not implemented: [BiasAdd,Gelu"),
        ours="oneDNN",
        reason=_COMPUTES,
    ),
    Difference(
        "FusedBatchNormV3",
        (_TWO, _f(1), _f(0), _f(1), _f(1)),
        _NORM,
        onednn=[_TWO - 1, _f(1), _f(1), _f(1), _f(1), np.zeros(0, np.float32)],
        plain=[_TWO - 1, _f(1), _f(1), None, None, np.zeros((), np.float32)],
        ours="oneDNN",
        reason="the statistics kept for the gradient are those that were used; the other leaves "
        "the memory as it was",
    ),
    Difference(
        "FusedBatchNormGradV3",
        (_TWO, _TWO, _f(1), _f(1), _f(1), np.zeros(0, np.float32)),
        _NORM,
        onednn=[_TWO, _f(14), _f(6), np.zeros((), np.float32), np.zeros((), np.float32)],
        plain=[_TWO, _f(14), _f(6), np.zeros(0, np.float32), np.zeros(0, np.float32)],
        ours="oneDNN",
        reason="the last two outputs are placeholders that nothing reads",
    ),
    Difference(
        "FusedBatchNormGradV3",
        (
            _TWO.reshape(1, 1, 1, 2),
            _TWO.reshape(1, 1, 1, 2),
            _f(1),
            _f(1),
            _f(1),
            np.zeros(0, np.float32),
        ),
        {**_NORM, "data_format": "NCHW"},
        onednn=[
            _TWO.reshape(1, 1, 1, 2),
            _f(14),
            _f(6),
            np.zeros((), np.float32),
            np.zeros((), np.float32),
        ],
        plain=Failure(
            "InvalidArgumentError",
            "The implementation of FusedBatchNormGrad with is_training=False only support NHWC",
        ),
        ours="oneDNN",
        reason=_COMPUTES,
    ),
    Difference(
        "Softmax",
        (_f([_NAN, 1], [0, 0]),),
        {},
        onednn=[_f([_NAN, 0], [0.5, 0.5])],
        plain=[_f([_NAN, _NAN], [0.5, 0.5])],
        ours="plain",
        reason="the sum that a row is divided by has the NaN in it",
    ),
    Difference(
        "BatchMatMulV2",
        (np.ones((2, 3), np.float32), np.ones((2, 4), np.float32)),
        {},
        onednn=Failure(
            "InvalidArgumentError", "Matrix size-incompatible: In[0]: [2,3], In[1]: [2,4] 0 0"
        ),
        plain=Failure(
            "InvalidArgumentError", "Matrix size-incompatible: In[0]: [2,3], In[1]: [2,4]"
        ),
        ours="oneDNN",
        reason="its words tell which matrix is transposed",
    ),
)

# Tests of whole sessions: what a run says of itself, sessions of TensorFlow on servers of tfjit
# (which would take the setting for theirs), graphs as TensorFlow's users run them, and ops that the
# optimizer leaves out where they would fail, as tfjit does.
_SESSIONS: Final = (
    "contract",
    "client/session",
    "distributed",
    "demo",
    "runtime/profiling",
    "programs/test_real_graphs.py",
    "runtime/op_kernels/containers/test_tensor_list_ops.py",
)


def compares_sessions(path: Path) -> bool:
    """Return whether a test module compares with TensorFlow's sessions as they are by default."""
    module = path.relative_to(Path(__file__).parent).as_posix()
    return module.startswith(_SESSIONS)


def optimize_graphs(wanted: bool) -> None:
    """Say whether sessions of TensorFlow without a config rewrite their graphs."""
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not wanted})


def words(text: str) -> str:
    """Return this process's mode's words for an error of tfjit.

    text: tfjit's words.
    """
    for difference in DIFFERENCES:
        wanted, here = difference.answer(difference.ours), difference.answer(mode())
        if isinstance(wanted, Failure) and isinstance(here, Failure) and wanted.words == text:
            return here.words
    return text


def refused(text: str) -> bool:
    """Return whether an error is one that this mode alone raises.

    text: the error text of a session.
    """
    if mode() == "oneDNN":
        return False
    return any(
        isinstance(difference.plain, Failure)
        and not isinstance(difference.onednn, Failure)
        and difference.plain.words in text
        for difference in DIFFERENCES
    )


@dataclass
class _Sessions:
    """TensorFlow's sessions of the graphs that were asked about last."""

    graphs: dict[str, Any] = field(default_factory=dict)

    def run(
        self, graph_def: bytes, fetches: Sequence[str], feeds: Mapping[str, np.ndarray]
    ) -> Answer:
        """Run a graph."""
        import tensorflow as tf

        key = hashlib.sha256(graph_def).hexdigest()
        if key not in self.graphs:
            if len(self.graphs) >= 4:
                self.graphs.pop(next(iter(self.graphs))).close()
            graph = tf.Graph()
            with graph.as_default():
                tf.import_graph_def(tf.compat.v1.GraphDef.FromString(graph_def), name="")
            self.graphs[key] = tf.compat.v1.Session(graph=graph)
        try:
            return [np.asarray(value) for value in self.graphs[key].run(list(fetches), dict(feeds))]
        except tf.errors.OpError as error:
            return Failure(type(error).__name__, cause(error.message))


def cause(text: str) -> str:
    """Return the kernel's words of a session's error text.

    They follow the line that names the node.
    """
    lines = text.split("\n")
    for i, line in enumerate(lines):
        if line.startswith("Node: '"):
            return lines[i + 1].split("\t [[")[0].strip()
    return lines[0].split("\t [[")[0].strip()


@functools.cache
def _own() -> _Sessions:
    return _Sessions()


@functools.cache
def _server(which: Mode) -> subprocess.Popen[bytes]:
    root = str(Path(__file__).resolve().parent.parent)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.oracle"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, _VARIABLE: _VALUES[which]},
        cwd=root,
    )
    atexit.register(process.kill)
    return process


def ask(
    which: Mode, graph_def: bytes, fetches: Sequence[str], feeds: Mapping[str, np.ndarray]
) -> Answer:
    """Return TensorFlow's answer in a mode.

    This process answers if it has that mode, else one that has.
    """
    if which == mode():
        return _own().run(graph_def, fetches, feeds)
    process = _server(which)
    assert process.stdin is not None and process.stdout is not None
    pickle.dump((graph_def, list(fetches), dict(feeds)), process.stdin)
    process.stdin.flush()
    answer: Answer = pickle.load(process.stdout)
    return answer


def main() -> None:
    """Serve requests of another process.

    A pickled (graph, fetches, feeds) from stdin, a pickled answer to stdout.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # TensorFlow's prints must not mix with the answers
    sessions = _Sessions()
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(sessions.run(*request), answers)
        answers.flush()


if __name__ == "__main__":
    # pickles name the classes of the module that others import
    from tests.oracle import main as serve

    serve()
