"""Places of variables that are slices of a larger tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Message


class SaveSliceInfo:
    """A variable's place in a tensor of a checkpoint.

    full_name, full_shape: of the tensor. var_offset, var_shape: start and size of the slice in each
    dimension. save_slice_info_def: a SaveSliceInfoDef to take the four from; import_scope: a prefix
    of its name.
    """

    def __init__(
        self,
        full_name: str | None = None,
        full_shape: Sequence[int] | None = None,
        var_offset: Sequence[int] | None = None,
        var_shape: Sequence[int] | None = None,
        save_slice_info_def: Message = None,
        import_scope: str | None = None,
    ) -> None:
        if save_slice_info_def is not None:
            found = save_slice_info_def
            full_name, full_shape = found.full_name, list(found.full_shape)
            var_offset, var_shape = list(found.var_offset), list(found.var_shape)
            if import_scope:
                full_name = f"{import_scope.rstrip('/')}/{full_name}"
        self.full_name = full_name or ""
        self.full_shape = list(full_shape or ())
        self.var_offset = list(var_offset or ())
        self.var_shape = list(var_shape or ())

    @property
    def spec(self) -> str:
        """The form that SaveV2 and RestoreV2 want: "4 6 0,2:0,6"."""
        sizes = "".join(f"{size} " for size in self.full_shape)
        places = zip(self.var_offset, self.var_shape, strict=True)
        return sizes + ":".join(f"{start},{length}" for start, length in places)

    def to_proto(self, export_scope: str | None = None) -> Message:
        """Return the place as a SaveSliceInfoDef.

        None when it is not in `export_scope`.
        """
        from tfjit.protos import SaveSliceInfoDef

        name = self.full_name
        if export_scope is not None:
            if not name.startswith(export_scope):
                return None
            name = name.removeprefix(export_scope.rstrip("/") + "/")
        return SaveSliceInfoDef(
            full_name=name,
            full_shape=self.full_shape,
            var_offset=self.var_offset,
            var_shape=self.var_shape,
        )


class PartitionInfo:
    """The shape of a tensor, and the offsets of a slice.

    An initializer makes the slice.
    """

    __slots__ = ("full_shape", "var_offset")

    def __init__(self, full_shape: Sequence[int], var_offset: Sequence[int]) -> None:
        self.full_shape = list(full_shape)
        self.var_offset = list(var_offset)
