"""Answer questions about passes and fusion: `python -m benchmarks experiments [NAME ...]`.

Each experiment is a module that a course could begin with: a question, graphs, pipelines, a table
and a picture. docs/experiments.md goes through them.
"""
