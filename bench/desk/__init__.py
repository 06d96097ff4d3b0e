"""Shifting Desk: does a playbook help an agent at a desk whose rules nobody wrote down?

Worlds are generated from a seed: records in SQLite, tools that are honestly named and described, and rules
that no description tells. `python -m bench.desk` runs the experiment; its design is
docs/learning-experiment-2.md and, for the third round, docs/learning-experiment-3.md.
"""
