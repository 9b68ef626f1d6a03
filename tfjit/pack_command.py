"""Run `tfjit pack`: write models, plans and kernels into one file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tfjit.arguments import (
    SOURCE,
    UsageError,
    add_several,
    array_in,
    read_model_of,
    signature_of,
    sizes_of,
    split_argument,
    tensor_name,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    import numpy as np

    from tfjit.client.packing.packer import Packed
    from tfjit.client.packing.recorder import RunRequest
    from tfjit.client.session.model_file import ModelFile

_FORM = "NAME=SIZES, as in images:0=1,8,8,1, or NAME=FILE.npy"


TEXT: Final = (
    "Write a model with its plans and compiled kernels into one file, from which "
    "tfjit.Session(graph=FILE) starts at compiled speed, without Numba and a cache."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("model", metavar="MODEL", help=SOURCE)
    add_several(
        parser,
        "--feed",
        "NAME=SIZES",
        "a shape of the tensor NAME, as in images:0=1,8,8,1, or FILE.npy, a value; several for one "
        "NAME make several plans",
    )
    add_several(
        parser,
        "--fetch",
        "NAME",
        "tensor to compute, or operation to run (default: the outputs of the signature)",
    )
    parser.add_argument(
        "--signature",
        metavar="NAME",
        default="",
        help="of a SavedModel: its names are those of feeds and fetches (default: the only one, or "
        "serving_default)",
    )
    add_several(
        parser,
        "--cpu",
        "LEVEL",
        "level of x86-64 that runs it: x86-64-v2, -v3 (AVX2) or -v4 (AVX-512); several for several "
        "machines (default: the highest of this CPU)",
    )
    parser.add_argument("-o", "--out", metavar="FILE", type=Path, required=True, help="the pack")
    parser.add_argument(
        "--processes", metavar="N", type=int, default=0, help="compilers at a time (default: cores)"
    )


def pack(args: argparse.Namespace) -> int:
    """Run the command with its parsed arguments; return the exit code."""
    if args.processes < 0:
        raise UsageError(f"--processes {args.processes}: expected a positive number")
    levels = _levels(args.cpu)
    if args.out.is_dir() or not args.out.parent.is_dir():
        raise UsageError(f"--out {args.out}: expected the name of a file in a folder that exists")
    model = read_model_of(args.model)
    if model.pack is not None:
        raise UsageError(f"{args.model} is a pack already: pack the model that it was made of")
    requests = _requests(model, args.feed, args.fetch, args.signature)
    from tfjit.client.packing.packer import pack_model
    from tfjit.client.packing.recorder import RunFailed
    from tfjit.demo.progress import Progress

    work = ["starting"]
    try:
        with Progress(f"packing {args.model}", detail=lambda: f", {work[0]}"):
            packed = pack_model(
                model,
                requests,
                args.out,
                levels,
                args.processes or None,
                lambda text: work.__setitem__(0, text),
            )
    except RunFailed as error:
        print(f"tfjit pack: {error}", file=sys.stderr)
        return 1
    print(_report(packed))
    _warn(packed)
    return 0


def _levels(names: Sequence[str]) -> list[str]:
    """Return the levels to pack for, by default this CPU's highest."""
    from tfjit.kernels.jit import target

    short = {level.rpartition("-")[2]: level for level in target.LEVELS}
    levels = [short.get(name, name) for name in dict.fromkeys(names)]
    wrong = [name for name in levels if name not in target.LEVELS]
    if wrong:
        raise UsageError(f"--cpu {wrong[0]}: expected one of {', '.join(target.LEVELS)}")
    levels = levels or list(target.levels_here()[:1])
    if not levels:
        raise UsageError("packs are for x86-64, which this machine is not")
    return levels


def _requests(
    model: ModelFile, feeds: Sequence[str], fetches: Sequence[str], signature: str
) -> list[RunRequest]:
    """Return the runs that the arguments ask for."""
    from tfjit.client.packing.recorder import RunRequest

    if signature and signature not in model.signatures:
        known = ", ".join(sorted(model.signatures)) or "none"
        raise UsageError(f"--signature {signature}: the model has {known}")
    chosen = signature_of(model, signature)
    names = list(dict.fromkeys(tensor_name(model, name, signature) for name in fetches))
    if not names and chosen is not None:
        names = [info.name for _, info in sorted(chosen.outputs.items()) if info.name]
    if not names:
        raise UsageError(
            "nothing to fetch: name at least one tensor, as in --fetch probs:0 (`tfjit inspect "
            "MODEL` lists them)"
        )
    given: dict[str, list[tuple[int, ...] | np.ndarray]] = {}
    for argument in feeds:
        name, text = split_argument(argument, "--feed", _FORM)
        sizes = sizes_of(text)
        value = array_in(text, f"--feed {argument}") if sizes is None else sizes
        given.setdefault(tensor_name(model, name, signature), []).append(value)
    count = max((len(values) for values in given.values()), default=1)
    uneven = next((name for name, values in given.items() if len(values) not in (1, count)), "")
    if uneven:
        raise UsageError(
            f"--feed {uneven}: {len(given[uneven])} shapes, and another feed has {count}: the "
            "first shapes of all feeds are one plan, the second ones the next; a single shape "
            "serves all"
        )
    return [
        RunRequest(
            {name: values[min(n, len(values) - 1)] for name, values in given.items()}, tuple(names)
        )
        for n in range(count)
    ]


def _report(packed: Packed) -> str:
    manifest = packed.manifest
    plans = "1 plan" if len(manifest.runs) == 1 else f"{len(manifest.runs)} plans"
    lines = [f"{packed.path}: {packed.size_bytes / 1e6:,.2f} MB, {plans}"]
    lines += [f"  {level}: {part.kernels} kernels" for level, part in manifest.levels.items()]
    if packed.checked is None:
        lines.append("not checked: this CPU has none of these levels")
    elif not packed.checked.missing:
        lines.append("checked: a fresh process runs it and finds all kernels in it")
    return "\n".join(lines)


def _warn(packed: Packed) -> None:
    """Name the kernels that the pack lacks, on stderr."""
    refused = [text for level in packed.manifest.levels.values() for text in level.refused]
    for text in refused:
        print(f"tfjit pack: left to its reference kernel: {text}", file=sys.stderr)
    missing = packed.checked.missing if packed.checked is not None else 0
    if missing and not refused:
        print(
            f"tfjit pack: a fresh process misses {missing} kernels, which it compiles itself",
            file=sys.stderr,
        )


__all__ = ["pack"]
