"""How an op is computed: reference kernels, generated CPU kernels, and the store of compiled code."""
