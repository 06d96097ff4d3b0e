"""The same scenarios for every framework, each in an environment of its own: `python -m bench.peers`."""
