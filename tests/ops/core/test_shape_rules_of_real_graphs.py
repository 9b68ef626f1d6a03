"""The real graphs: every op type is known, and every tensor has the static shape and dtype that
TensorFlow gives it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import tfjit
from tfjit.framework.op_defs.op_registry import registry

tensorflow = pytest.importorskip("tensorflow")
tf1 = tensorflow.compat.v1
ROOT = Path(__file__).resolve().parents[3]
GRAPHS = [
    ROOT / "tfjit" / "demo" / "digits_cnn.pb",
    *sorted((ROOT / "tests" / "data").glob("*.pb")),
]


@pytest.mark.parametrize("path", GRAPHS, ids=lambda p: p.stem)
def test_static_shapes(path: Path) -> None:
    data = path.read_bytes()
    theirs, ours = tf1.Graph(), tfjit.Graph()
    with theirs.as_default():
        tf1.import_graph_def(tf1.GraphDef.FromString(data), name="")
    with ours.as_default():
        tfjit.import_graph_def(tfjit.GraphDef.FromString(data), name="")
    kinds = {op.type for op in theirs.get_operations()}
    wrong = []
    for op in theirs.get_operations():
        mine = ours.get_operation_by_name(op.name)
        for a, b in zip(op.outputs, mine.outputs, strict=True):
            expected = None if a.shape.rank is None else tuple(a.shape.as_list())
            # TensorFlow takes a TensorArray's element shape from its handle, where nothing is
            # known; we take the gather's own attr.
            fits = (
                b.shape.is_subtype_of(tfjit.TensorShape(expected))
                if "TensorArrayGatherV3" in kinds
                else b.shape_tuple == expected
            )
            if not fits or a.dtype.as_datatype_enum != b.dtype.as_datatype_enum:
                wrong.append(
                    f"{op.type} {a.name}: TensorFlow {a.dtype.name}{expected}, here "
                    f"{b.dtype.name}{b.shape_tuple}"
                )
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:30])


def test_saved_model_function_ops_are_known() -> None:
    path = ROOT / "tests" / "data" / "lstm_saved_model" / "saved_model.pb"
    model = tfjit.SavedModel.FromString(path.read_bytes())
    graph = model.meta_graphs[0].graph_def
    ops = {n.op for n in graph.node} | {n.op for f in graph.library.function for n in f.node_def}
    functions = {f.signature.name for f in graph.library.function}
    assert not {op for op in ops - functions if op not in registry}
