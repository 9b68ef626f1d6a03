"""Arrays over another process's blocks: given back with their last view, private behind a fork."""

from __future__ import annotations

import os
import subprocess
import sys
import weakref

import numpy as np
import pytest

from tests.distributed.shared_memory.conftest import Ends
from tfjit.distributed.shared_memory import importer
from tfjit.distributed.shared_memory.block_map import BlockMap, BlockName
from tfjit.distributed.shared_memory.importer import Importer

SIZE = 1 << 18


def maps(ends: Ends) -> dict[int, BlockMap]:
    assert ends.importer._pool is not None
    return ends.importer._pool.maps


def test_a_block_is_mapped_once_and_given_back(ends: Ends) -> None:
    seen = set()
    for n in range(5):
        loan = ends.exporter.lend(np.full(SIZE, n, np.uint8))
        found = ends.get(loan, SIZE)[5:10]
        assert found.tolist() == [n] * 5
        assert not ends.notices
        del found
        assert ends.notices == [("release", loan.name.number)]
        ends.pass_on()
        seen.add(maps(ends)[loan.name.number].address)
    assert len(seen) == 1 and len(ends.pool._blocks) == 1


def test_connections_with_a_process_share_its_maps(ends: Ends) -> None:
    other = Ends(ends.pool)
    array = ends.pool.array(SIZE)
    for one in (ends, other):
        one.get(one.exporter.lend(array), SIZE)
    assert len(maps(ends)) == 1 and maps(ends) is maps(other)
    known = weakref.ref(next(iter(maps(ends).values())))
    ends.importer.close()
    assert known() is not None
    other.importer.close()
    assert known() is None


def test_a_freed_block_is_unmapped(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    loan = ends.exporter.lend(np.zeros(SIZE, np.uint8))
    monkeypatch.setattr("tfjit.distributed.shared_memory.block_pool._IDLE_BYTES", 0)
    ends.get(loan, SIZE)
    assert maps(ends)
    ends.pass_on()
    assert not maps(ends) and not ends.pool._blocks


def test_own_arrays_are_limited(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that keeps its arrays gets others to copy, so that the owner has its blocks."""
    monkeypatch.setattr(importer, "_OWN_BYTES", 2 * SIZE)
    found = [ends.get(ends.exporter.lend(np.zeros(SIZE, np.uint8)), SIZE) for _ in range(3)]
    assert [array.flags.writeable for array in found] == [True, True, False]
    del found[0]
    assert ends.get(ends.exporter.lend(np.zeros(SIZE, np.uint8)), SIZE).flags.writeable


def test_bytes_beyond_a_block_are_refused(ends: Ends) -> None:
    name = ends.exporter.lend(np.zeros(8192, np.uint8)).name
    for size, offset in ((8193, 0), (1, 8192), (8192, 1), (-1, 5), (5, -1)):
        with pytest.raises(ValueError, match="in a block"):
            ends.importer.get(name, size, offset)
    assert ends.importer.get(name, 0, 8192).nbytes == 0
    ends.importer.close()
    with pytest.raises(ValueError, match="closed"):
        ends.importer.get(name, 1)


def test_a_number_of_another_size_is_another_block(ends: Ends) -> None:
    name = ends.exporter.lend(np.full(8192, 1, np.uint8)).name
    other = ends.exporter.lend(np.full(4096, 2, np.uint8)).name
    assert ends.importer.get(name, 1)[0] == 1
    assert ends.importer.get(BlockName(other.file, name.number, 4096), 1)[0] == 2


_FORK = """
import os
from tests.distributed.shared_memory.conftest import Ends
from tfjit.distributed.shared_memory.block_pool import BlockPool
import numpy as np
SIZE = 1 << 18
ends = Ends(BlockPool())
mine = ends.get(ends.exporter.lend(np.full(SIZE, 1, np.uint8)), SIZE)
made = ends.pool.array(SIZE)
made[:] = 2
read, write = os.pipe()
go, more = os.pipe()
child = os.fork()
if not child:
    assert not ends.pool._blocks
    os.read(go, 1)
    assert (mine == 1).all() and (made == 2).all(), (mine, made)
    mine[:] = 5
    del mine, made
    assert not [n for n in ends.notices if n[0] == "release"][1:]
    os.write(write, b"child")
    os._exit(0)
assert [kind for kind, _ in ends.notices] == ["retire", "release"], ends.notices
mine[10:] = 3
ends.pass_on()
del made  # neither block is written again
for _ in range(3):
    ends.pool.array(SIZE)[:] = 9
os.write(more, b"x")
assert os.read(read, 5) == b"child"
assert os.waitpid(child, 0)[1] == 0
assert mine[:10].tolist() == [1] * 10 and (mine[10:] == 3).all()
later = ends.get(ends.exporter.lend(np.full(SIZE, 7, np.uint8)), SIZE)
assert (later == 7).all()
del mine
assert not ends.notices
del later
assert [kind for kind, _ in ends.notices] == ["release"]
print("fine")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_and_its_parent_have_arrays_of_their_own() -> None:
    done = subprocess.run([sys.executable, "-c", _FORK], capture_output=True, text=True, timeout=60)
    assert done.stdout == "fine\n", done.stderr


def test_importers_that_are_gone_count_nothing() -> None:
    before = len(Importer._all)
    made = Importer(os.getpid(), "pool", lambda number: None, lambda number: None)
    assert len(Importer._all) == before + 1
    del made
    assert len(Importer._all) == before
