"""Hold datasets, the elements of one pass over them, and iterators.

In: functions and captured values. Out: elements, tuples of ndarrays. A `Dataset` is an immutable
variant that starts `Elements`; an `IteratorResource` pulls these, one at a time. Not in here: the
kinds of datasets, which stand in `op_kernels/datasets`.
"""
