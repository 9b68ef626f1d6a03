"""Hold the state that outlives a run: variables, tables, readers, tensor lists.

In: values from kernels. Out: values to kernels. Not in here: op kernels, plans.
"""
