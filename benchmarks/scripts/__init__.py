"""One script a question; each has `workloads()`."""
