"""Every framework against a misbehaving OpenAI-compatible server: `python -m bench.fire`."""
