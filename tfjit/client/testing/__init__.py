"""Support unit tests of graphs: test cases, numeric gradients, benchmarks.

In: tests of user programs. Out: assertions on values of tensors. Not in here: anything that other
rooms use; `tfjit.test` loads this room when a program asks for it.
"""
