"""This project with the policy that tells the model of every fault; for the trial by fire."""

from functools import partial

from bench.peers.adapters.wesichain import IMPORT, VERSION, stub
from bench.peers.adapters.wesichain import online as with_options
from wesichain import ObserveErrors

NAME = "Wesichain, policy=ObserveErrors()"
online = partial(with_options, policy=ObserveErrors())

__all__ = ["IMPORT", "NAME", "VERSION", "online", "stub"]
