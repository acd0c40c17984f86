"""Build the documentation site: `python -m tests.docs [FOLDER]`."""

import argparse
import logging
from pathlib import Path

from tests.docs import site

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("build/docs"), help="default: build/docs")
    folder = parser.parse_args().folder
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)  # why a build stops
    site.build(folder)
    print(f"Look at it with: python -m http.server -d {folder}")
