"""The programs, with their lengths and the tolerances of their outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from benchmarks.programs.models import (
    agents,
    images,
    ranking,
    recurrent,
    small,
    sparse,
    transformers,
)

LENGTHS: Final = ("full", "quick", "tiny")


@dataclass(frozen=True, slots=True)
class Program:
    """Describe a program.

    steps: of its full and its quick length. tiny: options of the small model that tests run.

    The first `strict` outputs are compared number by number, within `rtol` and `atol`; None
    compares all. Training amplifies rounding, so of the later outputs the median of the last tenth
    is compared, within the share `late`; None compares no later output. `spared` is the share of
    the strictly compared outputs that may differ: a decision at a threshold that rounding turned.
    unpacked: why the program does not run from a pack, "" if it does.
    """

    name: str
    run: Callable[..., None]
    steps: tuple[int, int]
    tiny: Mapping[str, Any] = field(default_factory=dict)
    tiny_steps: int = 4
    strict: int | None = 10
    rtol: float = 1e-3
    atol: float = 1e-4
    late: float | None = 0.1
    spared: float = 0.0
    unpacked: str = ""

    def length(self, length: str) -> int:
        """Return the number of steps of a length."""
        return {"full": self.steps[0], "quick": self.steps[1], "tiny": self.tiny_steps}[length]

    def options(self, length: str) -> dict[str, Any]:
        """Return the options of the program's function: the model's sizes."""
        return dict(self.tiny) if length == "tiny" else {}


_TINY_TEXT: Final = {"layers": 2, "width": 16, "heads": 2}

PROGRAMS: Final = (
    Program(
        "encoder",
        transformers.encoder,
        (100, 25),
        _TINY_TEXT | {"vocabulary": 50, "batch": 2, "length": 8, "masked": 2},
    ),
    Program(
        "click_through",
        ranking.click_through,
        (3000, 500),
        {"items": 50, "categories": 5, "users": 20, "width": 4, "batch": 4, "lengths": (2, 5, 3)},
    ),
    Program(
        "deep_fm",
        ranking.deep_fm,
        (2000, 400),
        {"fields": 3, "numeric": 2, "values": 60, "width": 4, "batch": 8, "units": (8, 4)},
    ),
    Program(
        "wide_and_deep",
        ranking.wide_and_deep,
        (4000, 800),
        {"examples": 40, "buckets": 20, "batch": 8, "units": (8, 4)},
        unpacked="threads of TensorFlow's queue runners feed its own graph",
    ),
    Program(
        "char_rnn_unrolled",
        recurrent.characters,
        (150, 40),
        {"units": 8, "letters": 9, "batch": 3, "length": 4},
    ),
    Program(
        "char_rnn_loop",
        partial(recurrent.characters, loop=True),
        (150, 40),
        {"units": 8, "letters": 9, "batch": 3, "length": 4},
    ),
    Program(
        "graph_convolution",
        sparse.graph_convolution,
        (600, 150),
        {"nodes": 30, "features": 20, "per_node": 4, "links": 40, "hidden": 4, "classes": 3},
    ),
    Program(
        "word_vectors",
        sparse.word_vectors,
        (6000, 1500),
        {"words": 40, "width": 8, "batch": 8, "negatives": 4},
    ),
    Program(
        "scoring",
        transformers.scoring,
        (400, 120),
        _TINY_TEXT | {"words": 20, "batch": 2, "lengths": (3, 5)},
        strict=None,
    ),
    Program(
        "sampling",
        transformers.sampling,
        (60, 15),
        _TINY_TEXT | {"words": 20, "prompt": 3, "length": 5, "kept": 6},
        strict=None,
    ),
    Program(
        "detector",
        images.detector,
        (2000, 500),
        {"size": 32, "width": 8, "shapes": 3, "kept": 10},
        strict=None,
        spared=0.01,
    ),
    Program(
        "residual_network",
        images.residual_network,
        (200, 40),
        # Batch norms magnify the last bits: TensorFlow with and without oneDNN differs by 0.7 % in
        # the fifth step (full size), by 17 % in the last steps, by 3 % in models smaller than the
        # tiny one here.
        {"blocks": 1, "size": 16, "batch": 16, "widths": (4, 8)},
        rtol=5e-3,
        strict=4,
        late=0.5,
    ),
    Program(
        "adversaries",
        images.adversaries,
        (600, 120),
        {"size": 8, "width": 4, "batch": 4, "noise": 4},
        rtol=5e-3,
        late=0.25,
    ),
    Program(
        "q_learning",
        agents.q_learning,
        (6000, 1500),
        {"units": 8, "batch": 4, "before": 6, "copied_every": 5},
        tiny_steps=12,
        strict=60,
        late=None,
    ),
    Program("simulation", small.simulation, (15000, 4000), {"bodies": 4, "stages": 2}),
    Program(
        "perceptron",
        small.perceptron,
        (8000, 2000),
        {"width": 12, "units": (8, 4), "batch": 4},
    ),
    Program(
        "batch_sizes",
        small.batch_sizes,
        (2000, 500),
        {"width": 4, "units": 8, "layers": 3, "sizes": 9},
    ),
)

BY_NAME: Final = {program.name: program for program in PROGRAMS}
