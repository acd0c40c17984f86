"""llms.txt, the site in short for language models (llmstxt.org), from the navigation and the pages themselves."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.docs import examples

COMMENT = re.compile(r"\A---\n.*?^---\n|<!--.*?-->", re.DOTALL | re.MULTILINE)  # also what the search is told
HEADING = re.compile(r"^# (.+?)(?: \{.*\})?$", re.MULTILINE)
PROSE = re.compile(r"(?<=\n\n)(?![#|<:!${-]|```)\S.*(?:\n\S.*)*")  # a paragraph
LINK = re.compile(r"\[([^\]]*)\][(\[][^)\]]*[)\]]")
SENTENCE = re.compile(r".+?[.:?!](?= [A-Z]|$)")
OPTIONAL = "Project"  # a section that may be skipped


def write(nav: list[Any], pages: Path, folder: Path) -> None:
    """Write the file into the folder of the built site."""
    start = pages / "index.md"
    lines = [f"# nbsal\n\n> {describe(start)[1]}\n", f"```python\n{examples.blocks(start)[-1]}```\n"]
    for entry in nav[1:]:
        ((section, part),) = entry.items()
        lines.append(f"## {'Optional' if section == OPTIONAL else section}\n")
        for path in leaves(part):
            name, sentence = describe(pages / path)
            lines.append(f"- [{name}]({path.removesuffix('md')}html){': ' if sentence else ''}{sentence}")
        lines.append("")
    (folder / "llms.txt").write_text("\n".join(lines), encoding="utf-8")


def leaves(entries: list[Any]) -> Iterator[str]:
    """The pages of a part of the navigation."""
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        else:
            for part in entry.values():
                yield from [part] if isinstance(part, str) else leaves(part)


def describe(page: Path) -> tuple[str, str]:
    """The heading of a page, and the first sentence of its text."""
    text = COMMENT.sub("", page.read_text(encoding="utf-8"))
    heading = HEADING.search(text)
    assert heading, f"{page.name} has no heading"
    paragraph = PROSE.search(text, heading.end())
    prose = " ".join(LINK.sub(r"\1", paragraph[0] if paragraph else "").split())
    sentence = SENTENCE.match(prose)
    return heading[1].replace("`", ""), (sentence[0] if sentence else prose).rstrip(":")
