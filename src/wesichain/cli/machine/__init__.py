"""The commands about this machine: doctor and models."""

from .doctor import doctor
from .models import models

__all__ = ["doctor", "models"]
