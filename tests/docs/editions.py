"""Editions of the papers' exhibits as pages of the site: `python -m tests.docs.editions FOLDER`.

FOLDER is what `python -m nbsal.figures --out FOLDER` wrote. Each paper's index becomes a Markdown page in
`.docs/editions`, with its pictures and tables as files beside it. Pages with the texts of whole data sets are left out.
"""

import argparse
import re
from base64 import b64decode, b64encode
from html import unescape
from pathlib import Path

from nbsal.figures.__main__ import PAPERS
from tests import pictures
from tests.docs.repository import ROOT

FOLDER = ROOT / ".docs" / "editions"
TITLE = re.compile(r"<h1>(.*?)</h1>(.*?)<nav>", re.DOTALL)  # and what the program says about all exhibits
SECTION = re.compile(r"<section><h2[^>]*>(.*?)</h2>(.*?)</section>", re.DOTALL)
PICTURE = re.compile(r'<img alt="([^"]*)" src="data:image/png;base64,([^"]*)">')
LINK = re.compile(r'<p><a href="[^"]*">(.*?)</a></p>')
STYLE = re.compile(r"<style.*?</style>", re.DOTALL)
RULE = re.compile(r"([^{}]+)\{\s*(font-weight: bold|font-style: italic)")
CELL = re.compile(r'(<td id="([^"]*)"[^>]*>)(.*?)(</td>)')
ATTRIBUTE = re.compile(r'(<(?:table|t[hdr])\b[^>]*?) (?:id|class)="[^"]*"')
EMPTY = re.compile(r"<th([^>]*)>(?:&nbsp;|\s)*</th>")
LEFT_OUT = "This page is not published: it contains the texts of a data set. The program writes it."


def publish_edition(source: Path, paper: str, folder: Path) -> Path:
    """Write the page of one paper from the program's output in `source`; return its path."""
    html = (source / paper / "index.html").read_text(encoding="utf-8")
    files = folder / paper
    files.mkdir(parents=True, exist_ok=True)
    for old in files.iterdir():
        old.unlink()
    names = {b64encode(path.read_bytes()).decode(): path.name for path in sorted((source / paper).glob("*.png"))}
    for picture, name in names.items():
        (files / name).write_bytes(b64decode(pictures.compress(picture)))
    for path in (source / paper).glob("*.csv"):
        (files / path.name).write_bytes(path.read_bytes())
    page = folder / f"{paper}.md"
    page.write_text(page_of(html, paper, names, sorted(path.name for path in files.glob("*.csv"))), encoding="utf-8")
    return page


def page_of(html: str, paper: str, names: dict[str, str], tables: list[str]) -> str:
    """The program's index as Markdown; `names` has the file of each picture, by its content in base 64."""
    title, introduction = TITLE.search(html).groups()  # type: ignore[union-attr]

    def picture(match: re.Match[str]) -> str:
        path = f"{paper}/{names[match[2]]}"
        return f'<a href="{path}"><img class="output" alt="{match[1]}" src="{path}"></a>'

    parts = [f"# {unescape(title)}", introduction.strip()]
    for heading, body in SECTION.findall(html):
        body = LINK.sub(rf"<p>\1. {LEFT_OUT}</p>", PICTURE.sub(picture, _plain_tables(body)))
        lines = [line.strip() for line in body.splitlines()]
        body = "\n".join(line for line in lines if line).replace('<div class="wide">', '<div class="output">')
        slug = heading.partition(".")[0].replace(" ", "-").lower()
        links = [
            f'<a href="{paper}/{name}">{name}</a>' for name in tables if re.fullmatch(rf"{slug}(-[a-z])?\.csv", name)
        ]
        body += f"<p><small>As data: {', '.join(links)}</small></p>" if links else ""
        parts.append(f"## {unescape(heading)}\n\n{body}")
    return "\n\n".join(parts) + "\n"


def _plain_tables(html: str) -> str:
    """Tables without style sheets, which many pages that show Markdown remove: bold and italic cells as tags."""
    styles: dict[str, str] = {}
    for sheet in STYLE.findall(html):
        for selectors, rule in RULE.findall(sheet):
            styles |= dict.fromkeys(re.findall(r"#([\w-]+)", selectors), "b" if "bold" in rule else "i")

    def cell(match: re.Match[str]) -> str:
        tag = styles.get(match[2], "")
        return f"{match[1]}<{tag}>{match[3]}</{tag}>{match[4]}" if tag else match[0]

    html = CELL.sub(cell, STYLE.sub("", html))
    while ATTRIBUTE.search(html):
        html = ATTRIBUTE.sub(r"\1", html)
    return EMPTY.sub(r"<td\1></td>", html).replace(" >", ">")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the --out folder of python -m nbsal.figures")
    folder = parser.parse_args().folder
    for paper in PAPERS:
        page = publish_edition(folder, paper, FOLDER)
        print(page, flush=True)
