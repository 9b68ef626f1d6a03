"""How a partition runs: sessions, devices, resources, steps, the executor and its pools."""
