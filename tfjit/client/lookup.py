"""The namespace `tfjit.lookup`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Final

from tfjit.client.data.lookup_tables import (
    HashTable,
    StaticHashTable,
    StaticVocabularyTable,
)
from tfjit.client.data.mutable_tables import DenseHashTable, MutableHashTable
from tfjit.client.data.table_initializers import (
    KeyValueTensorInitializer,
    TableInitializerBase,
    TextFileIndex,
    TextFileInitializer,
)

__all__ = [
    "HashTable",
    "KeyValueTensorInitializer",
    "StaticHashTable",
    "StaticVocabularyTable",
    "TableInitializerBase",
    "TextFileIndex",
    "TextFileInitializer",
    "experimental",
]

experimental: Final = SimpleNamespace(
    DenseHashTable=DenseHashTable, MutableHashTable=MutableHashTable
)
