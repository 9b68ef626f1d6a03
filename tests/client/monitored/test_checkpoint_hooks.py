"""Checkpoints of hooks and their listeners, beside TensorFlow's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow

import tfjit
from tests.client.monitored.programs import files, model

tf1 = tensorflow.compat.v1


def listener(m: Any, calls: list[Any], stop_at: int | None = None) -> Any:
    class Listens(m.train.CheckpointSaverListener):  # type: ignore[misc, name-defined]
        def begin(self) -> None:
            calls.append("begin")

        def before_save(self, session: Any, global_step_value: int) -> None:
            calls.append(("before_save", int(global_step_value)))

        def after_save(self, session: Any, global_step_value: int) -> bool | None:
            calls.append(("after_save", int(global_step_value)))
            return global_step_value == stop_at or None

        def end(self, session: Any, global_step_value: int) -> None:
            calls.append(("end", int(global_step_value)))

    return Listens()


@pytest.mark.parametrize("stop_at", [None, 4])
@pytest.mark.parametrize("own_saver", [True, False])
def test_listeners(own_saver: bool, stop_at: int | None, tmp_path: Path) -> None:
    seen = []
    for m, name in ((tf1, "theirs"), (tfjit, "ours")):
        folder, calls = tmp_path / name, []
        folder.mkdir()
        with m.Graph().as_default():
            _, train, x = model(m)
            hook = m.train.CheckpointSaverHook(
                str(folder),
                save_steps=2,
                saver=m.train.Saver(max_to_keep=2) if own_saver else None,
                checkpoint_basename="mine",
                listeners=[listener(m, calls), listener(m, calls, stop_at)],
            )
            runs = 0
            with m.train.MonitoredSession(hooks=[hook]) as session:
                while not session.should_stop() and runs < 7:
                    session.run(train, {x: [0, 0]})
                    runs += 1
        m.summary.FileWriterCache.clear()
        seen.append((runs, calls, files(folder)))
    assert seen[1] == seen[0]
    assert seen[1][0] == (7 if stop_at is None else 4)


@pytest.mark.parametrize("count", [0, 2])
def test_savers_of_the_graph(count: int, tmp_path: Path) -> None:
    seen = []
    for m in (tf1, tfjit):
        with m.Graph().as_default():
            model(m)
            for _ in range(count):
                m.add_to_collection(m.GraphKeys.SAVERS, m.train.Saver())
            scaffold = m.train.Scaffold(saver=m.train.Saver())
            hook = m.train.CheckpointSaverHook(str(tmp_path), save_steps=1)
            with pytest.raises(RuntimeError) as caught:
                m.train.MonitoredSession(
                    m.train.ChiefSessionCreator(scaffold=scaffold), hooks=[hook]
                )
            seen.append(str(caught.value))
        m.summary.FileWriterCache.clear()
    assert seen[1] == seen[0]


def test_the_graph_in_the_folder_is_readable(tmp_path: Path) -> None:
    from google.protobuf import text_format

    with tfjit.Graph().as_default() as graph:
        model(tfjit)
        for as_text in (True, False):
            path = tfjit.train.write_graph(graph, tmp_path / "new", f"{as_text}", as_text)
            assert path == str(tmp_path / "new" / f"{as_text}")
    theirs = tf1.GraphDef()
    text_format.Parse((tmp_path / "new" / "True").read_text(), theirs)
    assert theirs == tf1.GraphDef.FromString((tmp_path / "new" / "False").read_bytes())
    assert {node.name for node in theirs.node} == {op.name for op in graph.get_operations()}
    assert len(list((tmp_path / "new").iterdir())) == 2
