"""The same scenarios for every framework, each in its own environment: `python -m bench.peers`."""
