"""Model files: which are known, where they are kept, and how they get there."""

__all__: list[str] = []
