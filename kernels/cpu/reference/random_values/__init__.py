"""Draw random values in NumPy: stateful, stateless, candidate samplers.

The families of `tfjit/ops/random_values/`, and the distributions that they share.

In: a NodeSpec and the input arrays. Out: the output arrays. Not in here: the bit generator
(`cpu/random/philox.py`).
"""
