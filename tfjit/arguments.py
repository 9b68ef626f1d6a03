"""Read the arguments of several commands: models, feeds, fetches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    import numpy as np

    from tfjit.client.session.model_file import ModelFile


SOURCE: Final = (
    "a GraphDef or MetaGraphDef file (.pb, .meta, .pbtxt), or the folder of a SavedModel"
)
"""The help of a model that is no pack."""
MODEL: Final = f"{SOURCE}, or a pack"
"""The help of a model."""
FEED: Final = "value of the tensor NAME: FILE.npy, or FILE.npz:ARRAY"
"""The help of `--feed` with values."""
SHAPE: Final = "shape of a feed instead of a value, as in images:0=1,8,8,1"
"""The help of `--shape`."""


class UsageError(Exception):
    """The command line asks for something that cannot be meant."""


def add_several(parser: argparse.ArgumentParser, option: str, metavar: str, text: str) -> None:
    """Add an option that takes several values and may be repeated."""
    parser.add_argument(option, metavar=metavar, action="extend", nargs="+", default=[], help=text)


def read_model_of(name: str) -> ModelFile:
    """Return the model that an argument names. Raises UsageError."""
    from tfjit.client.session.model_file import read_model

    try:
        return read_model(name)
    except FileNotFoundError:
        raise UsageError(f"there is no file or folder {name}") from None
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from None


def signature_of(model: ModelFile, name: str = "") -> Any:
    """Return a signature of a model, or None.

    name: "" for "serving_default", or the only one.
    """
    signatures = model.signatures
    if name:
        return signatures.get(name)
    return signatures.get("serving_default") or (
        next(iter(signatures.values())) if len(signatures) == 1 else None
    )


def tensor_name(model: ModelFile, name: str, signature: str = "") -> str:
    """Return the name of a tensor or operation.

    `name` may also be a name of the signature: by default of the model's only one, or of
    "serving_default".
    """
    key = name.removesuffix(":0")
    chosen = signature_of(model, signature)
    if chosen is None or any(node.name == key for node in model.graph_def.node):
        return name
    for side in (chosen.inputs, chosen.outputs):
        if key in side:
            found: str = side[key].name
            return found
    return name


def fetches_of(names: Sequence[str]) -> list[str]:
    """Return the fetches without repetitions, in order."""
    if not names:
        raise UsageError(
            "nothing to fetch: name at least one tensor, as in --fetch probs:0 (`tfjit inspect "
            "MODEL` lists them)"
        )
    return list(dict.fromkeys(names))


def split_argument(argument: str, option: str, form: str) -> tuple[str, str]:
    """Return the tensor and the text of NAME=TEXT.

    Raises UsageError with the form.
    """
    name, equals, value = argument.partition("=")
    if not equals or not name or not value:
        raise UsageError(f"{option} {argument}: expected {form}")
    return name if ":" in name else f"{name}:0", value


def feeds_of(arguments: Sequence[str]) -> dict[str, np.ndarray]:
    """Return tensor name -> array, from NAME=FILE.npy and NAME=FILE.npz:ARRAY."""
    feeds: dict[str, Any] = {}
    for argument in arguments:
        name, file = split_argument(argument, "--feed", "NAME=FILE.npy or NAME=FILE.npz:ARRAY")
        if name in feeds:
            raise UsageError(f"--feed {argument}: {name} is fed twice")
        feeds[name] = array_in(file, f"--feed {argument}")
    return feeds


def array_in(file: str, option: str) -> np.ndarray:
    """Return the array in FILE.npy or FILE.npz:ARRAY. Nothing is unpickled.

    Raises UsageError, which names the option.
    """
    import numpy as np

    path, array = file, ""
    if not Path(file).exists() and ".npz:" in file:
        path, _, array = file.rpartition(":")
    try:
        loaded = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise UsageError(f"{option}: there is no file {path}") from None
    except (OSError, ValueError, EOFError) as error:
        raise UsageError(f"{option}: {path} is not an array that NumPy wrote: {error}") from None
    if isinstance(loaded, np.ndarray):
        return loaded
    with loaded as archive:
        if not array and len(archive.files) == 1:
            array = archive.files[0]
        if array not in archive.files:
            found = ", ".join(archive.files)
            raise UsageError(
                f"{option}: {path} holds several arrays ({found}); name one of them, as in "
                f"{path}:{archive.files[0]}"
            )
        value: np.ndarray = archive[array]
        return value


def shapes_of(arguments: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return tensor name -> shape, from NAME=1,8,8,1.

    "NAME=scalar" is the empty shape.
    """
    shapes = {}
    for argument in arguments:
        name, text = split_argument(argument, "--shape", "NAME=SIZES, as in images:0=1,8,8,1")
        sizes = sizes_of(text)
        if sizes is None:
            raise UsageError(
                f"--shape {argument}: sizes are whole numbers with commas between, or the word "
                "scalar"
            )
        if any(size < 0 for size in sizes):
            raise UsageError(f"--shape {argument}: sizes are not negative")
        shapes[name] = sizes
    return shapes


def sizes_of(text: str) -> tuple[int, ...] | None:
    """Return the shape that "1,8,8,1" or "scalar" spells, None for other text."""
    try:
        return () if text == "scalar" else tuple(int(size) for size in text.split(","))
    except ValueError:
        return None
