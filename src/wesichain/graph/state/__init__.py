"""States: their types, how writes are folded into them, and who may change a value."""
