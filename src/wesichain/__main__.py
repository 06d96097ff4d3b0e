"""`python -m wesichain`: the command line, if its script is not on the path."""

from __future__ import annotations

from wesichain.cli import main

if __name__ == "__main__":
    main()
