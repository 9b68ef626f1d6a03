"""Choose whether new variables are resource variables."""

from __future__ import annotations

_resource_by_default = False


def enable_resource_variables() -> None:
    """Make resource variables where `use_resource` is not given."""
    global _resource_by_default
    _resource_by_default = True


def disable_resource_variables() -> None:
    """Make reference variables where `use_resource` is not given, as TF1 does."""
    global _resource_by_default
    _resource_by_default = False


def resource_variables_enabled() -> bool:
    """Return whether variables are resource variables unless told otherwise."""
    return _resource_by_default
