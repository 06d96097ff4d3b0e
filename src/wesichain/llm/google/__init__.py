"""Google: Gemini, by its own API or by Vertex AI."""

from .client import GoogleClient

__all__ = ["GoogleClient"]
