"""Storage: where what a user keeps is kept."""

__all__: list[str] = []
