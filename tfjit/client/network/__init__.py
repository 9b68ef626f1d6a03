"""Build layers of networks: named variables and the ops on them.

In: tensors, the variable scope. Out: tensors; losses and updates in the graph's collections. Not in
here: ops, which stand in `tfjit.ops`; losses of a model, metrics, optimizers.
"""
