"""Amazon Bedrock."""

from .client import BedrockClient

__all__ = ["BedrockClient"]
