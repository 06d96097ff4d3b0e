"""Schema: from type hints and docstrings to JSON schemas, and from JSON to checked arguments and results.

Imported where a tool is made, module by module: `arguments` needs pydantic.
"""
