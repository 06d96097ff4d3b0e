"""Schema: JSON schemas from type hints and docstrings, and the validation of arguments and results.

The modules are imported when a tool is created: `arguments` needs pydantic.
"""
