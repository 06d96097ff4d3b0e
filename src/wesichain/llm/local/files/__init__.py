"""Model files: the known models, the cache, and downloads."""

__all__: list[str] = []
