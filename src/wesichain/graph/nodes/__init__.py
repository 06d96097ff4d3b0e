"""The nodes of a super-step: run concurrently, within their limits."""
