"""Models: one module per provider, and text ReAct for models that cannot call tools."""

__all__: list[str] = []
