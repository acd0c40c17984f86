"""Put the pages of the site together in one folder, and let MkDocs build them strictly."""

import shutil
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from mkdocs.commands.build import build as build_site
from mkdocs.config import load_config

from tests.docs import llms, methods, notebooks, reference, repository, search, views

SOURCES = repository.ROOT / ".docs"
CONFIGURATION = SOURCES / "mkdocs.yml"
DATA = ("*.yml", "*.toml", "methods.md")  # what is read, and is no page of the site


def build(folder: Path) -> None:
    """Build the whole site into a folder."""
    with tempfile.TemporaryDirectory() as temporary:
        pages = Path(temporary) / "pages"
        collect(pages)
        nav = list(expand(navigation(), pages))
        render(pages, nav, folder)
        llms.write(nav, pages, folder)
    search.check(folder)


def render(pages: Path, nav: list[Any], folder: Path) -> None:
    """Render pages into a folder; a warning, such as that of a link without a target, stops the build with Abort."""
    folders = {"docs_dir": str(pages), "site_dir": str(folder.resolve())}
    config = load_config(str(CONFIGURATION), nav=nav, strict=True, repo_url=repository_url(), **folders)
    config.plugins.run_event("startup", command="build", dirty=False)
    try:
        build_site(config)
    finally:
        config.plugins.run_event("shutdown")


def repository_url() -> str | None:
    """The address of the repository, where pyproject.toml names one; every page then links to it."""
    project = tomllib.loads((repository.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    addresses: dict[str, str] = {name.lower(): address for name, address in project.get("urls", {}).items()}
    return addresses.get("repository") or addresses.get("homepage")


def collect(pages: Path) -> None:
    """Write every page of the site into a folder: those written by hand, the repository's, and the generated ones."""
    shutil.copytree(SOURCES, pages, ignore=shutil.ignore_patterns(*DATA))
    repository.write(pages)
    notebooks.write(pages / "course")
    methods.write(pages / "reference" / "methods")
    reference.write(pages / "reference" / "python")
    views.write(pages)


def navigation() -> list[Any]:
    """The navigation as the configuration states it."""
    entries: list[Any] = yaml.safe_load(CONFIGURATION.read_text(encoding="utf-8"))["nav"]
    return entries


def expand(entries: list[Any], pages: Path) -> Iterator[Any]:
    """The navigation with every entry that ends with "*" replaced by the pages that begin so and are not listed."""
    listed = CONFIGURATION.read_text(encoding="utf-8").split()
    for entry in entries:
        if isinstance(entry, dict):
            yield {name: list(expand(part, pages)) if isinstance(part, list) else part for name, part in entry.items()}
        elif entry.endswith("*"):
            paths = (path.relative_to(pages).as_posix() for path in sorted(pages.glob(f"{entry}.md")))
            yield from (path for path in paths if path not in listed)
        else:
            yield entry
