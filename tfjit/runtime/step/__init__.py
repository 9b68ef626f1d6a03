"""Make lowered code runnable: memory plan, argument blocks, tables, host function.

In: Lowered with its calls. Out: Step, which runs. Not in here: decisions of a schedule.
"""
