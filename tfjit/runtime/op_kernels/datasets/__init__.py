"""Implement the kinds of datasets, and iterators.

In: an OpContext and inputs. Out: a `Dataset`, or elements of one. Not in here: the notions of
dataset, elements and iterator, which stand in `runtime/datasets`.
"""

__all__: list[str] = []
