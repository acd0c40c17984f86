"""The documents of the repository as pages of the site, with links that lead to pages."""

import os
import re
import shutil
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
PAGES = {
    "README.md": "index.md",  # the site's own, which this program does not write
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "tests/bench/README.md": "benchmarks/index.md",
    "tests/hosts.md": "reference/hosts.md",
    "tests/matrix.md": "reference/matrix.md",
    "tests/kinds.md": "reference/kinds.md",
    "tests/answers/matrix.md": "reference/replies.md",
    "notebooks/INDEX.md": "reference/exhibits.md",
    "notebooks/gallery/README.md": "views/gallery.md",
    "nbsal/samples/README.md": "reference/samples.md",
    **{f"notebooks/{path.name}": f"course/{path.stem}.md" for path in sorted((ROOT / "notebooks").glob("*.ipynb"))},
}
WRITTEN = [source for source, page in PAGES.items() if page != "index.md" and source.endswith(".md")]
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


def write(pages: Path) -> None:
    """Write the documents into the folder of pages, with the pictures that they show."""
    for source in WRITTEN:
        page = pages / PAGES[source]
        page.parent.mkdir(parents=True, exist_ok=True)
        text = (ROOT / source).read_text(encoding="utf-8")
        page.write_text(adapt(text, source, PAGES[source]), encoding="utf-8")
        for mark, _, target in LINK.findall(text):
            if mark and "://" not in target:
                shutil.copy(ROOT / Path(source).parent / target, page.parent)


def adapt(text: str, source: str, page: str) -> str:
    """A document whose links lead from a page to pages; the name of a file that is no page remains as text."""

    def replace(match: re.Match[str]) -> str:
        mark, label, target = match.groups()
        if mark:
            return match[0] if "://" in target else f"![{label}]({PurePosixPath(target).name})"
        path, _, anchor = target.partition("#")
        if "://" in target or not path:
            return match[0]
        linked = PAGES.get(os.path.normpath(PurePosixPath(source).parent / path))
        if linked is None:
            return label
        relative = os.path.relpath(linked, PurePosixPath(page).parent)
        return f"[{label}]({relative}{'#' if anchor else ''}{anchor})"

    return LINK.sub(replace, text)
