"""Every graph and lowered partition that TFJIT_DUMP writes is read back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfjit
from tfjit.framework.env import Env
from tfjit.passes.text.tensor_files import FOLDER, TensorFiles
from tfjit.passes.text.text_format import TextError, parse_graph, print_graph, read_dump
from tfjit.protos import GraphDef
from tfjit.runtime.lowering.lowered_parser import parse_lowered
from tfjit.runtime.lowering.lowered_text import print_lowered
from tfjit.runtime.lowering.verifier import verify_lowered
from tfjit.runtime.schedule.kernel_selection import select_kernels

Case = tuple[Any, dict[str, Any]]


def loop() -> Case:
    x = tfjit.placeholder(tfjit.float32, [3], name="x")
    y = tfjit.while_loop(
        lambda i, y: i < 5,
        lambda i, y: (i + 1, tfjit.cond(tfjit.equal(i % 2, 0), lambda: y * x, lambda: y - 1.0)),
        [0, x],
    )[1]
    return y, {"x:0": np.float32([1, 2, 3])}


def loop_v2() -> Case:
    tfjit.enable_control_flow_v2()
    try:
        return loop()
    finally:
        tfjit.disable_control_flow_v2()


def loop_of_products() -> Case:
    x = tfjit.placeholder(tfjit.float32, [4, 4], name="x")
    w = tfjit.constant(np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4))
    y = tfjit.while_loop(
        lambda i, y: i < 5, lambda i, y: (i + 1, tfjit.tanh(tfjit.matmul(y, w))), [0, x]
    )[1]
    return y, {"x:0": np.eye(4, dtype=np.float32)}


def branches() -> Case:
    x = tfjit.placeholder(tfjit.float32, [2, 3], name="x")
    k = tfjit.placeholder(tfjit.int32, [], name="k")
    pairs = [
        (tfjit.equal(k, n), lambda n=n: tfjit.matmul(x, x, transpose_b=True) * n) for n in (1, 2)
    ]
    y = tfjit.case(pairs, default=lambda: tfjit.matmul(x, x, transpose_b=True))
    return y, {"x:0": np.ones((2, 3), np.float32), "k:0": np.int32(2)}


def training() -> Case:
    x = tfjit.placeholder(tfjit.float32, [8, 30], name="x")
    w = tfjit.get_variable("w", initializer=np.full((30, 20), 0.1, np.float32))
    b = tfjit.get_variable("b", initializer=np.zeros(20, np.float32))
    h = tfjit.nn.softmax(tfjit.nn.relu(tfjit.matmul(x, w) + b))
    loss = tfjit.reduce_mean(tfjit.square(h - 0.5))
    step = tfjit.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    return [loss, step], {"x:0": np.ones((8, 30), np.float32)}


def constants() -> Case:
    """Tensors that stand in files, strings and numbers among them."""
    x = tfjit.placeholder(tfjit.float32, [40], name="x")
    words = tfjit.constant([b"a", b"\x00\n"] * 20)
    y = tfjit.cast(tfjit.equal(words, tfjit.reverse(words, [0])), tfjit.float32) + x
    return y * np.linspace(0, 1, 40, dtype=np.float32), {"x:0": np.zeros(40, np.float32)}


def dumped(folder: Path, graph: tfjit.Graph, fetches: Any, feeds: dict[str, Any]) -> list[Path]:
    """Run once with dumps and without compiling; the files of graphs."""
    variables = {"TFJIT_DUMP": str(folder), "TFJIT_JIT": "off", "TFJIT_VERIFY": "1"}
    options = tfjit.SessionOptions(env=Env(variables=variables))
    with tfjit.Session(graph=graph, options=options) as session:
        if graph.get_collection(tfjit.GraphKeys.GLOBAL_VARIABLES):
            session.run(tfjit.global_variables_initializer())
        session.run(fetches, feeds)
    return sorted(folder.glob("plan_*/[0-9]*.txt"))


def check_read_back(files: list[Path]) -> str:
    """All that the files hold, after each has been read and printed again."""
    seen = []
    for path in {path.with_name("lowered.txt") for path in files}:
        tensors = TensorFiles(path.parent / FOLDER)
        text = path.read_text(encoding="utf-8")
        lowered = parse_lowered(text, tensors)
        verify_lowered(lowered)
        assert print_lowered(lowered, full=tensors) == text, path
        select_kernels(lowered)
        served = print_lowered(lowered, full=tensors)
        again = parse_lowered(served, tensors)
        select_kernels(again)
        assert print_lowered(again, full=tensors) == served
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert "<<" not in text, path
        again = print_graph(read_dump(path), full=TensorFiles(path.parent / FOLDER))
        assert again == text, path
        seen.append(text)
    return "\n".join(seen)


@pytest.mark.parametrize(
    ("case", "holds"),
    [
        (loop, ("Merge(", "program=loop {", "' If(")),
        (loop_v2, ("StatelessWhile(", "function '", "program=loop {")),
        (loop_of_products, ("While(", "group(")),
        (branches, ("Switch(", "StatelessIf(", "function '")),
        (training, ("ApplyMomentum(", "group('")),
        (constants, ("...", "b'a'")),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_dumps_are_read_back(
    case: Callable[[], Case], holds: tuple[str, ...], tmp_path: Path
) -> None:
    with tfjit.Graph().as_default() as graph:
        fetches, feeds = case()
        files = dumped(tmp_path, graph, fetches, feeds)
    text = check_read_back(files)
    assert len(files) > 20 and all(part in text for part in holds)


def test_dumps_of_a_recurrent_network_are_read_back(data_dir: Path, tmp_path: Path) -> None:
    x = np.load(data_dir / "lstm_v1_loop.npz")["x"]
    graph = tfjit.Graph()
    with graph.as_default():
        tfjit.import_graph_def(
            GraphDef.FromString((data_dir / "lstm_v1_loop.pb").read_bytes()), name=""
        )
    files = dumped(tmp_path, graph, "y:0", {"x:0": x})
    assert "While(" in check_read_back(files)


def test_a_dump_without_its_files_says_which_are_missing(tmp_path: Path) -> None:
    with tfjit.Graph().as_default() as graph:
        files = dumped(tmp_path, graph, *constants())
    text = files[-1].read_text(encoding="utf-8")
    with pytest.raises(TextError, match="stands in a file"):
        parse_graph(text)
    with pytest.raises(TextError, match="is not there"):
        parse_graph(text, TensorFiles(tmp_path))
