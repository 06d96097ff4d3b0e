"""A name that 0.2.0 offered. Any version may remove it."""

from .entities.bullets import DATA_MODEL as DATA_MODEL
