"""JSON Schema: a compiled validator for draft 2020-12 with bounded time and without network access."""

__all__: list[str] = []
