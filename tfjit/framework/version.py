"""The version of tfjit."""

__version__ = "0.1.0"
