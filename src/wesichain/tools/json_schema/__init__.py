"""JSON Schema: a compiled validator for draft 2020-12 that fetches nothing and cannot hang.

`compile` is imported where a schema is checked; `issues` and `shape` serve messages and schemas alike.
"""

__all__: list[str] = []
