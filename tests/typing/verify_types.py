"""The public API is typed throughout: no exported symbol has an unknown or missing type."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def main() -> int:
    folder = Path(sys.executable).parent
    done = subprocess.run(
        [str(folder / "basedpyright"), "--verifytypes", "wesichain", "--ignoreexternal", "--outputjson"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,  # away from the project's own settings; the interpreter is found through PATH
        env={**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', '')}"},
    )
    report = json.loads(done.stdout)["typeCompleteness"]
    counts = report["exportedSymbolCounts"]
    unknown, known = counts["withUnknownType"], counts["withKnownType"]
    for symbol in report["symbols"]:
        if (
            symbol["isExported"]
            and any("unknown" in one["message"] for one in symbol["diagnostics"])
            and unknown
        ):
            print(symbol["name"])
    print(f"{known} symbols are typed, {counts['withAmbiguousType']} by inference, {unknown} not")
    return 0 if known and not unknown else 1


if __name__ == "__main__":
    sys.exit(main())
