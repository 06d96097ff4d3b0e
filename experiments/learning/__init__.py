"""The learning experiment: worlds as data, one harness, every run on record."""
