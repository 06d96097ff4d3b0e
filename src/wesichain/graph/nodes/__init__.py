"""Performing super-steps: visits to nodes, side by side, within their limits."""
