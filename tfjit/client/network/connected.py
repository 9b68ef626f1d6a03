"""The inputs and outputs of a layer's calls, as its properties."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.client.network.call_records import CallRecords

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure


class Connected:
    """A layer that knows the inputs and outputs of its calls."""

    _records: CallRecords

    @property
    def input(self) -> Structure:
        """The inputs of the only call. Raises AttributeError for several or none."""
        return self._records.only("input")

    @property
    def output(self) -> Structure:
        """The outputs of the only call. Raises AttributeError for several or none."""
        return self._records.only("output")

    @property
    def input_shape(self) -> Structure:
        """The inputs' shape in all calls, a tuple.

        Raises AttributeError where the calls differ or are none.
        """
        return self._records.only_shape("input")

    @property
    def output_shape(self) -> Structure:
        """The outputs' shape in all calls, a tuple.

        Raises AttributeError where the calls differ or are none.
        """
        return self._records.only_shape("output")

    def get_input_at(self, node_index: int) -> Structure:
        """Return the inputs of a call by its number.

        Raises ValueError beyond the last.
        """
        return self._records.at(node_index, "input")

    def get_output_at(self, node_index: int) -> Structure:
        """Return the outputs of a call by its number.

        Raises ValueError beyond the last.
        """
        return self._records.at(node_index, "output")

    def get_input_shape_at(self, node_index: int) -> Structure:
        """Return the shape of the inputs of a call, a tuple."""
        return self._records.shape_at(node_index, "input")

    def get_output_shape_at(self, node_index: int) -> Structure:
        """Return the shape of the outputs of a call, a tuple."""
        return self._records.shape_at(node_index, "output")
