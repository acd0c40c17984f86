"""Fill a folder for NBSAL_DATA: `python -m nbsal.evaluation.fill_tables FOLDER [TABLE ...]`.

Each table comes from the Hugging Face hub by the library `datasets` (`pip install 'nbsal[hub]'`). What the folder has
already is not fetched again.
"""

import argparse
import os
from pathlib import Path

from nbsal.evaluation import data

# Those that the notebooks and `python -m nbsal.figures` read.
DEFAULT = ("sst2", "ag_news", "imdb", "yelp_polarity", "mnli", "squad")


def fill(folder: Path, name: str) -> Path:
    """Fetch a table into the folder, unless it is there."""
    path = folder / name / f"{data.TABLES[name].split}.jsonl"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")  # an interrupted run must not look finished
    data.load(name).to_json(part, orient="records", lines=True, force_ascii=False)
    return part.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m nbsal.evaluation.fill_tables", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("tables", nargs="*", default=DEFAULT, help=f"of {', '.join(data.TABLES)}")
    options = parser.parse_args()
    if unknown := set(options.tables) - set(data.TABLES):
        parser.error(f"unknown tables: {', '.join(sorted(unknown))}. Choose of: {', '.join(data.TABLES)}")
    os.environ.pop(data.FOLDER, None)  # else tables would be read from there
    for name in options.tables:
        print(fill(options.folder, name), flush=True)


if __name__ == "__main__":
    main()
