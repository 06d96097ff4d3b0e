"""The documentation, held: pages, links, blocks of code, the reference, the tutorial."""
