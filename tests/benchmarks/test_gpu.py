"""The benchmarks on a GPU, in the simulator and with tiny shapes. No time is judged here."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks.gpu import ours
from benchmarks.gpu.graphs import compare, graph_of, on_gpu
from benchmarks.gpu.limits import multiply_adds
from benchmarks.gpu.peers import Peer, State, evaluate
from benchmarks.gpu.plot import draw
from benchmarks.gpu.report import limits_line, row
from benchmarks.gpu.runner import Part, Record, run_part
from benchmarks.gpu.workloads import workloads
from benchmarks.workload import Feeds
from tests.kernels.cuda.harness import compile_ptx
from tests.kernels.cuda.texts import need_numba_cuda
from tests.simulated_gpu import simulated_gpu
from tfjit.kernels.cuda.device import driver
from tfjit.lab.peers.graph import PeerNode
from tfjit.lab.peers.numpy_like import FOLDED, RULES

pytestmark = pytest.mark.simulator
WORKLOADS = {workload.name: workload for workload in workloads(tiny=True)}
CHAIN = "chain of 7 ops, 3e+01"


def test_without_a_gpu_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    if driver.device_count()[0]:
        pytest.skip("this machine has a GPU")
    assert command.main(["gpu"]) == 0
    assert capsys.readouterr().out.startswith("no GPU, so nothing is measured: ")
    assert command.main(["gpu", "nonsense"]) == command.main(["gpu", "--candidates", "x"]) == 2


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Each part is a process; the table has a row a candidate, the file every figure."""
    path = tmp_path / "figures.json"
    arguments = [
        "gpu",
        CHAIN,
        "--tiny",
        "--simulated",
        "--candidates",
        "tfjit,kernels,unfused,cupy",
    ]
    assert command.main([*arguments, "--peer-python", "missing", "--json", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("simulated GPU: copy ")
    assert any(line.startswith("memory: a session of chain") for line in lines)
    assert "cupy: left out, cupy is not installed" in lines
    figures = json.loads(path.read_text())
    assert set(figures["card"]) > {"copy_gbs", "in_gbs", "out_gbs", "product_tfs"}
    found = {record["candidate"]: record for record in figures["results"]}
    assert set(found) == {"tfjit", "kernels", "unfused", "sessions"}
    assert found["tfjit"]["libraries"] == {} and found["tfjit"]["note"] == ""
    assert (found["tfjit"]["launches"], found["unfused"]["launches"]) == (1, 8)
    assert found["tfjit"]["bytes"] == 2 * 4 * 33 + 3 * 4
    assert found["sessions"]["bytes_after"] == 0 < found["sessions"]["bytes_of_one"]
    for name in ("tfjit", "unfused"):
        assert all(
            found[name][key] > 0 for key in ("device_us", "cold_us", "resident_us", "wall_us")
        )
    # a run that was cut off behind its first candidate
    kept = [found["tfjit"], found["sessions"], {**found["kernels"], "error": "late"}]
    path.write_text(json.dumps({**figures, "results": kept}))
    more = [*arguments[:-1], "tfjit,kernels", "--json", str(path), "--resume"]
    assert command.main(more) == 0
    printed = capsys.readouterr().out
    again = json.loads(path.read_text())
    assert again["card"] == figures["card"] and "simulated GPU" not in printed
    assert [r["candidate"] for r in again["results"]] == ["tfjit", "sessions", "kernels"]
    assert again["results"][0] == found["tfjit"] and "error" not in again["results"][2]


@pytest.mark.parametrize("fault", ["slow", "crash", "late"])
def test_a_failed_workload_does_not_lose_the_others(fault: str, tmp_path: Path) -> None:
    names = (CHAIN, "add of scalars")
    python, limit, deadline = "python", 0.0, time.monotonic() + 60
    if fault == "crash":
        python, limit = "false", 60.0
    if fault == "late":
        deadline = time.monotonic()
    part = Part("tfjit", names, limit, 60.0, python)
    found: list[Record] = []
    run_part(part, tmp_path, ["--tiny", "--simulated"], deadline, found.append)
    assert [record["workload"] for record in found] == list(names)
    reason = {
        "slow": "no result after 0 s",
        "crash": "the process ended with status 1: no output",
        "late": "left out: the time of this part is over",
    }[fault]
    assert [record["error"] for record in found] == [reason] * 2


def test_wrong_outputs_are_an_error() -> None:
    workload = WORKLOADS[CHAIN]
    data, feeds = graph_of(workload), workload.feeds(np.random.default_rng(0))
    expected = ours.on_host(workload, data, feeds)
    expected[0][0] = expected[0][0] + 1
    with simulated_gpu(), pytest.raises(AssertionError, match="y:0, run 0"):
        ours.measure(workload, data, feeds, True, expected)


def test_graphs_are_placed() -> None:
    graph = on_gpu(graph_of(WORKLOADS["50 nodes"]))
    assert {node.device for node in graph.node} == {"", "/device:GPU:0"}
    assert [node.op for node in graph.node if not node.device] == ["Placeholder"]


class NumPy(Peer):
    """A library beside tfjit that every machine has."""

    def prepare(self, feeds: Feeds) -> None:
        def softmax(node: PeerNode, x: Any) -> Any:
            powers = np.exp(x - x.max(-1, keepdims=True))
            return powers / powers.sum(-1, keepdims=True)

        def cross_entropy(node: PeerNode, logits: Any, labels: Any) -> Any:
            found = softmax(node, logits)
            rows = np.arange(len(labels))
            gradient = found.copy()
            gradient[rows, labels] -= 1
            return -np.log(found[rows, labels]), gradient

        def of_numpy(function: Any) -> Any:
            # NumPy makes numbers of arrays without axes
            return lambda node, *inputs: np.asarray(function(np, node, *inputs)).view(Placed)

        self.rules = {op: of_numpy(RULES[op]) for op in FOLDED} | {
            "Sigmoid": lambda node, x: 1 / (1 + np.exp(-x)),
            "Softmax": softmax,
            "SparseSoftmaxCrossEntropyWithLogits": cross_entropy,
        }

    def place(self, array: np.ndarray) -> Any:
        return array.view(Placed)

    def step(self, values: list[Any]) -> list[Any]:
        state: State = self.state
        fed = dict(zip(self.names, values, strict=True))
        return evaluate(self.graph, fed, state, self.rules, self.constant, np.sqrt, self.folded)

    def numpy(self, value: Any) -> np.ndarray:
        return np.asarray(value)

    def synchronize(self) -> None:
        pass


class Placed(np.ndarray):
    """An array that counts as one of another library."""


@pytest.mark.parametrize(
    "start", ["chain", "softmax", "layer norm", "attention", "MLP", "LSTM 4", "training step, MLP"]
)
def test_peers_say_what_tfjit_says(start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The walk over the graph with variables and constants, by the rules for NumPy."""
    from benchmarks.gpu import peers

    class OfHost(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, (np.ndarray, np.generic)) and not isinstance(value, Placed)

    class Known(metaclass=OfHost):
        pass

    monkeypatch.setattr(peers, "_KNOWN", Known)
    workload = next(w for name, w in WORKLOADS.items() if name.startswith(start))
    data, feeds = graph_of(workload), workload.feeds(np.random.default_rng(0))
    peer = NumPy(workload, data, feeds)
    peer.reset()
    values = peer.placed(feeds)
    runs = [[peer.numpy(v) for v in peer.step(values)] for _ in range(workload.steps)]
    compare(workload, runs, ours.on_host(workload, data, feeds))
    assert set(peer.figures(feeds)) == {"device_us", "resident_us", "wall_us", "note"}


def test_the_cards_peak_is_of_fused_multiply_adds() -> None:
    need_numba_cuda()
    source = multiply_adds()
    (ptx,) = compile_ptx([(source.text, source.arity)])
    assert ptx.count("fma.rn.f32") >= 8 and "mul.f32" not in ptx.split("BB0_3")[-1]


def test_the_picture(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each candidate has a bar for each workload that both have measured."""
    for name in ("matplotlib", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, MagicMock())
    pyplot = sys.modules["matplotlib"].pyplot
    figure, axes = MagicMock(), MagicMock()
    pyplot.subplots.return_value = figure, axes
    times = {("a", "tfjit"): 2.0, ("b", "tfjit"): 4.0, ("b", "jax"): 8.0, ("c", "jax"): 1.0}
    results = [{"workload": w, "candidate": c, "device_us": t} for (w, c), t in times.items()]
    draw([*results, {"workload": "a", "candidate": "jax", "error": "why"}], tmp_path / "x.png")
    (call,) = axes.barh.call_args_list
    assert call.args[0] == pytest.approx([1.0]) and call.args[1] == [2.0]
    assert call.kwargs["label"] == "jax"
    figure.savefig.assert_called_once_with(tmp_path / "x.png")


def test_lines_of_failures() -> None:
    record: Record = {"candidate": "jax", "workload": "w"}
    assert "FAILED: why" in row(record | {"error": "why"}, {})
    assert row(record | {"absent": "no rule"}, {}).endswith("-  (no rule)")
    assert limits_line({"error": "why"}) == "limits FAILED: why"
    plain = {"device_us": 2.0, "resident_us": 3.0, "wall_us": 5000.0}
    assert row(record | plain, {}).split() == ["jax", "w", "2.0", "3.0", "5000"]
    full = {"bytes": 4e6, "flops": 2e6, "launches": 7, "note": ""}
    line = row(record | plain | full, {"copy_gbs": 4000.0, "product_tfs": 2.0})
    assert line.split()[5:] == ["2000.0", "50%", "1.00", "50%", "7", "1.0"]
    line = row(record | plain | full | {"cold_us": 4.0}, {"copy_gbs": 4000.0, "product_tfs": 2.0})
    assert line.split()[5:9] == ["1000.0", "25%", "1.00", "50%"]
