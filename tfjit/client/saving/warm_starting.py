"""`warm_start`: begin training with the values of an earlier run."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from tfjit.client.saving.checkpoint_values import checkpoint_path, init_from_checkpoint
from tfjit.client.saving.saver import named_variables
from tfjit.client.saving.vocabulary_remapping import remapped_matrix
from tfjit.client.variables.assignments import assign
from tfjit.client.variables.variables import Variable
from tfjit.framework.graphs.default_graph import get_collection
from tfjit.framework.graphs.graph_keys import GraphKeys

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import InitializerLike, Structure

_LOGGER: Final = logging.getLogger("tensorflow")


class _VocabFields(NamedTuple):
    new_vocab: str
    new_vocab_size: int
    num_oov_buckets: int
    old_vocab: str
    old_vocab_size: int = -1
    backup_initializer: InitializerLike | None = None
    axis: int = 0


class VocabInfo(_VocabFields):
    """The vocabularies of a matrix of words.

    It has a row or column for each word.

    new_vocab, old_vocab: files with a word a line, of this run and of the checkpoint.
    new_vocab_size: the number of words of new_vocab that are used. num_oov_buckets: rows or columns
    behind those of the words. old_vocab_size: the number of words of old_vocab that are used, -1
    for all. backup_initializer: of words that the old vocabulary lacks (zeros by default). axis: 0
    for rows, 1 for columns. Raises ValueError for another axis.
    """

    __slots__ = ()

    def __new__(
        cls,
        new_vocab: str,
        new_vocab_size: int,
        num_oov_buckets: int,
        old_vocab: str,
        old_vocab_size: int = -1,
        backup_initializer: InitializerLike | None = None,
        axis: int = 0,
    ) -> VocabInfo:
        if axis not in (0, 1):
            raise ValueError(
                "The only supported values for the axis argument are 0 and 1.  Provided axis: "
                f"{axis}"
            )
        return super().__new__(
            cls,
            new_vocab,
            new_vocab_size,
            num_oov_buckets,
            old_vocab,
            old_vocab_size,
            backup_initializer,
            axis,
        )


def warm_start(
    ckpt_to_initialize_from: str,
    vars_to_warm_start: Structure = ".*",
    var_name_to_vocab_info: Mapping[str, VocabInfo] | None = None,
    var_name_to_prev_var_name: Mapping[str, str] | None = None,
) -> None:
    """Let initializers of variables read their values from a checkpoint.

    vars_to_warm_start: a pattern of names of trainable variables, a list of patterns of names of
    global variables, a list of variables, or None for only those with a vocabulary.
    var_name_to_vocab_info: the vocabularies by names of variables. var_name_to_prev_var_name: the
    names in the checkpoint that differ. Raises ValueError for names that no chosen variable has,
    and for other values of vars_to_warm_start.
    """
    _LOGGER.info("Warm-starting from: %s", ckpt_to_initialize_from)
    grouped = _grouped(vars_to_warm_start)
    vocabularies, previous = var_name_to_vocab_info or {}, var_name_to_prev_var_name or {}
    plain: dict[str, Structure] = {}
    count = 0
    for name, variables in grouped.items():
        old_name = previous.get(name) or name
        if name in vocabularies:
            _remap(variables, vocabularies[name], ckpt_to_initialize_from, old_name)
            count += 1
        elif vars_to_warm_start:
            if old_name in plain:  # a second variable of this value
                init_from_checkpoint(ckpt_to_initialize_from, plain)
                plain.clear()
            plain[old_name] = variables[0] if len(variables) == 1 else variables
            count += 1
    if plain:
        init_from_checkpoint(ckpt_to_initialize_from, plain)
    _LOGGER.info("Warm-started %d variables.", count)
    for argument, names in (
        ("var_name_to_prev_var_name", previous),
        ("var_name_to_vocab_info", vocabularies),
    ):
        unused = set(names) - set(grouped)
        if unused:
            raise ValueError(
                f"You provided the following variables in {argument} that were not used: "
                f"{unused}.  Perhaps you misspelled them?  Here is the list of viable variable "
                f"names: {grouped.keys()}"
            )


def _grouped(chosen: Structure) -> dict[str, list[Variable]]:
    """Return the variables by their names in the checkpoint.

    Slices of one tensor are a list.
    """
    if chosen is None or isinstance(chosen, str):
        _LOGGER.info("Warm-starting variables only in TRAINABLE_VARIABLES.")
        found = get_collection(GraphKeys.TRAINABLE_VARIABLES, chosen)
    elif not isinstance(chosen, list):
        raise ValueError(
            f"`vars_to_warm_start must be a `list` or `str`.  Given type is {type(chosen)}"
        )
    elif all(isinstance(item, str) for item in chosen):
        found = [
            variable
            for pattern in chosen
            for variable in get_collection(GraphKeys.GLOBAL_VARIABLES, pattern)
        ]
    elif all(isinstance(item, Variable) for item in chosen):
        found = chosen
    else:
        raise ValueError(
            "If `vars_to_warm_start` is a list, it must be all `Variable` or all `str`.  Given "
            f"types are {[type(item) for item in chosen]}"
        )
    grouped: dict[str, list[Variable]] = {}
    for variable in found:
        (name,) = named_variables([variable])
        grouped.setdefault(name, []).append(variable)
    return grouped


def _remap(
    variables: Sequence[Variable], vocabulary: VocabInfo, checkpoint: str, old_name: str
) -> None:
    """Initialize a matrix by words; its slices along axis 0, too."""
    path = checkpoint_path(checkpoint)
    rows = sum(int(variable.shape[0]) for variable in variables)
    for variable in variables:
        place = variable._save_slice_info
        sizes: Structure = variable.shape.as_list()
        first = place.var_offset[0] if place is not None else 0
        value = remapped_matrix(path, old_name, sizes, first, rows, vocabulary)
        variable._initializer_op = assign(variable, value)
