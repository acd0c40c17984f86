"""Print the pages that compare nbsal with other tools: `python -m tests.bench.features [--write] [--run TOOL ...]`.

`--run` probes tools that are installed in this environment and stores the answers. The tools exclude each other's
versions of transformers, so each may be run in an environment of its own; the pages need none of them.
"""

import argparse
import contextlib
import json
import sys
from datetime import date

from tests.bench.features.page import FOLDER, RESULTS, load, pages
from tests.bench.features.registry import TOOLS, run_tool

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", nargs="+", choices=TOOLS, default=(), metavar="TOOL", help=", ".join(TOOLS))
    parser.add_argument("--write", action="store_true", help="update the pages")
    options = parser.parse_args()
    for tool in options.run:
        with contextlib.redirect_stdout(sys.stderr):
            results = load() | {tool: {"date": date.today().isoformat()} | run_tool(tool)}
        ordered = {name: results[name] for name in TOOLS if name in results}
        RESULTS.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for name, text in pages().items():
        print(text)
        if options.write:
            (FOLDER / name).write_text(text, encoding="utf-8")
