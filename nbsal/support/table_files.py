"""Benchmark tables as files: JSON lines, Parquet, folders that `datasets` saved, and the TSV files of GLUE."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nbsal.support.errors import MissingExtra
from nbsal.support.validation import loading

# GLUE's folder, its name of each split, and its columns with ours; labels may be words there.
GLUE = {
    "sst2": ("SST-2", {"validation": "dev"}, {"sentence": "sentence", "label": "label"}),
    "qqp": (
        "QQP",
        {"validation": "dev"},
        {"question1": "question1", "question2": "question2", "is_duplicate": "label"},
    ),
    "mnli": (
        "MNLI",
        {"validation_matched": "dev_matched", "validation_mismatched": "dev_mismatched"},
        {"sentence1": "premise", "sentence2": "hypothesis", "gold_label": "label"},
    ),
}
Rows = Iterable[Mapping[str, Any]]


def find(root: Path, name: str, split: str) -> Path | None:
    """The file or folder of a table in a folder of tables, in any of the layouts that people have."""
    candidates = [root / name / f"{split}.jsonl", root / name / f"{split}.parquet", root / name / split]
    candidates += sorted((root / name).glob(f"**/{split}-*.parquet"))[:1]
    if name in GLUE:
        folder, splits, _ = GLUE[name]
        candidates += [root / part / f"{splits.get(split, split)}.tsv" for part in (folder, name)]
    return next((path for path in candidates if path.exists()), None)


def read(path: Path, name: str, labels: tuple[str, ...]) -> list[Mapping[str, Any]]:
    """The rows of a file or folder that `find` found."""
    if path.is_dir():
        return list(_arrow_rows(path, sorted(path.glob("data-*.arrow"))))
    readers: dict[str, Callable[[], Rows]] = {
        ".jsonl": lambda: _json_rows(path, name),
        ".parquet": lambda: _parquet_rows(path),
        ".tsv": lambda: _glue_rows(path, name, labels),
    }
    return list(readers[path.suffix]())


def _json_rows(path: Path, name: str) -> Iterator[Mapping[str, Any]]:
    with loading(path, f"table {name} in JSON lines"), path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _parquet_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    """The rows of a Parquet file, or of all parts of a split where it was written in parts."""
    parquet = _pyarrow("pyarrow.parquet")
    first = path.name.split("-")[0]
    parts = sorted(path.parent.glob(f"{first}-*.parquet")) if "-" in path.name else [path]
    for part in parts:
        with loading(part, "Parquet file"):
            yield from parquet.read_table(part).to_pylist()


def _arrow_rows(folder: Path, parts: list[Path]) -> Iterator[Mapping[str, Any]]:
    """The rows of a split that `Dataset.save_to_disk` wrote."""
    arrow = _pyarrow("pyarrow")
    with loading(folder, "folder of a dataset"):
        if not parts:
            raise ValueError("it has no file data-*.arrow")
        for part in parts:
            with arrow.memory_map(str(part)) as source:
                yield from arrow.ipc.open_stream(source).read_all().to_pylist()


def _glue_rows(path: Path, name: str, labels: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    """The rows of a TSV file of GLUE, whose texts may hold quotation marks but no tabs."""
    columns = GLUE[name][2]
    with loading(path, f"table {name} of GLUE"), path.open(encoding="utf-8-sig") as lines:
        rows = (line.rstrip("\n").split("\t") for line in lines if line != "\n")
        header = next(rows, [])
        for fields in rows:  # not by the module csv, whose limit on the size of a field holds for the whole process
            row = dict(zip(header, fields, strict=False))
            entry = {ours: row[theirs] for theirs, ours in columns.items()}
            label = entry["label"]
            yield {**entry, "label": labels.index(label) if label in labels else int(label)}


def _pyarrow(module: str) -> Any:
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError:
        raise MissingExtra("Reading Parquet and Arrow files", "scale") from None
