"""The public API is typed throughout: no exported symbol has an unknown or missing type."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def main() -> int:
    tool = Path(sys.executable).parent / "basedpyright"
    done = subprocess.run(
        [str(tool), "--verifytypes", "wesichain", "--ignoreexternal", "--outputjson"],
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(done.stdout)["typeCompleteness"]
    counts = report["exportedSymbolCounts"]
    for symbol in report["symbols"]:
        if symbol["isExported"] and not symbol["isTypeKnown"]:
            print(symbol["name"])
            for diagnostic in symbol["diagnostics"]:
                print("   ", diagnostic["message"].splitlines()[0])
    print(f"{counts['withKnownType']} symbols are typed, {counts['withUnknownType'] + counts['withAmbiguousType']} not")
    return 0 if counts["withUnknownType"] + counts["withAmbiguousType"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
