"""`StubOutForTesting`: attributes that a test replaces and gives back."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure


class StubOutForTesting:
    """Replaces attributes of modules, classes and objects until `CleanUp`.

    It is a context manager, too. The end of the object's life is a clean-up.
    """

    def __init__(self) -> None:
        # (owner, name, attribute), in the order of replacing
        self.cache: list[tuple[object, str, object]] = []
        self.stubs: list[tuple[object, str, object]] = []

    def __del__(self) -> None:
        self.CleanUp()

    def __enter__(self) -> StubOutForTesting:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.CleanUp()

    def CleanUp(self) -> None:
        """Give back all attributes."""
        self.SmartUnsetAll()
        self.UnsetAll()

    def SmartSet(self, obj: Structure, attr_name: str, new_attr: object) -> None:
        """Replace an attribute in the object or base class that has it.

        Raises AttributeError when there is none.
        """
        if inspect.ismodule(obj) or (not inspect.isclass(obj) and attr_name in vars(obj)):
            owner = obj
        else:
            bases = inspect.getmro(obj if inspect.isclass(obj) else type(obj))
            owner = next((base for base in bases if attr_name in vars(base)), None)
            if owner is None:
                raise AttributeError("Attribute not found.")
        self.stubs.append((owner, attr_name, _kept(owner, attr_name)))
        setattr(owner, attr_name, new_attr)

    def SmartUnsetAll(self) -> None:
        """Give back the attributes that `SmartSet` replaced."""
        _give_back(self.stubs)

    def Set(self, parent: object, child_name: str, new_child: object) -> None:
        """Replace an attribute of an object. Raises AttributeError when it has none."""
        self.cache.append((parent, child_name, _kept(parent, child_name)))
        setattr(parent, child_name, new_child)

    def UnsetAll(self) -> None:
        """Give back the attributes that `Set` replaced."""
        _give_back(self.cache)


def _kept(owner: object, name: str) -> object:
    """Return the attribute; a staticmethod as such, which getattr would unwrap."""
    value: object = getattr(owner, name)
    own = getattr(owner, "__dict__", {}).get(name)
    return own if isinstance(own, (staticmethod, classmethod)) else value


def _give_back(kept: list[tuple[object, str, object]]) -> None:
    # The latest first: an attribute that was replaced twice gets its first value.
    while kept:
        owner, name, value = kept.pop()
        setattr(owner, name, value)
