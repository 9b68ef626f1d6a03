"""How fast tfjit runs, fused and unfused, beside its peers. `python -m benchmarks --help`."""
