"""A name that 0.2.0 offered. Any version may remove it."""

from .scores import Judgement as Judgement
