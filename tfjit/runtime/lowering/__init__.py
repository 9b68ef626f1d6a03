"""Lower a static partition to instructions over values; decide, execute nothing.

In: a partition with known shapes. Out: Lowered: instructions, values, structured control flow.
Not in here: addresses, threads, Python code.
"""
