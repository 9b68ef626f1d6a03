"""Files of events, as writers of summaries make them."""

from __future__ import annotations

import os
from collections.abc import Iterator

from tfjit.client.data.record_files import tf_record_iterator
from tfjit.protos import Event


def summary_iterator(path: str | os.PathLike[str]) -> Iterator[Event]:
    """Yield the Event messages of a file.

    Raises NotFoundError without it, DataLossError where it is damaged.
    """
    for record in tf_record_iterator(path):
        yield Event.FromString(record)
