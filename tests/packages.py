"""Packages with entry points, which tests put on the path."""

from pathlib import Path


def write(folder: Path, module: str, source: str, entries: str) -> None:
    """Write version 1.0 of a package of one module into a folder, as pip installs it."""
    (folder / f"{module}.py").write_text(source)
    metadata = folder / f"{module}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module.replace('_', '-')}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(entries)
