"""Measure the names of the package against its style: `python -m tests.style`.

Names such as `found`, `given` or `one` say how a value came about, not what it is. This program counts them in the
identifiers of `nbsal/` and of the front end, for every 1,000 lines, and lists module docstrings and file comments whose
first line has the form "Name: ...", which a reader has to translate.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "nbsal"
VAGUE = frozenset("found told said own shown given known wanted kept asked made one lacking".split())
MOST = 12  # vague names for every 1,000 lines
_TYPESCRIPT_TEXT = re.compile(r"//[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_NAME_COLON = re.compile(r"^[A-Z]\w*: ")


def vague_words(identifier: str) -> list[str]:
    """The vague words that a name in snake_case or camelCase is put together from.

    >>> vague_words("foundRows"), vague_words("_own"), vague_words("rows")
    (['found'], ['own'], [])
    """
    return [part.lower() for part in _PARTS.findall(identifier) if part.lower() in VAGUE]


def python_identifiers(source: str) -> Iterator[str]:
    """Every name in a Python source, each time it stands there; words in strings and comments do not count."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            yield token.string


def typescript_identifiers(source: str) -> Iterable[str]:
    """Every name in a TypeScript source; words in comments and quoted strings do not count."""
    return re.findall(r"[A-Za-z_$][\w$]*", _TYPESCRIPT_TEXT.sub(" ", source))


def sources() -> Iterator[Path]:
    """The Python and front-end sources of the package."""
    yield from (path for path in sorted(PACKAGE.rglob("*.py")) if "frontend" not in path.parts)
    yield from sorted((PACKAGE / "frontend" / "src").rglob("*.ts"))


def vague_names(paths: Iterable[Path]) -> tuple[dict[Path, Counter[str]], int]:
    """Vague words by file, and the number of lines in all files."""
    words, lines = {}, 0
    for path in paths:
        source = path.read_text(encoding="utf-8")
        lines += source.count("\n")
        identifiers = python_identifiers(source) if path.suffix == ".py" else typescript_identifiers(source)
        words[path] = Counter(word for identifier in identifiers for word in vague_words(identifier))
    return words, lines


def first_line(path: Path) -> str:
    """The first line that says what a file is: its docstring's, or its first comment's."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]
    return source.partition("\n")[0].lstrip("/* ")


def colon_titles(paths: Iterable[Path]) -> list[Path]:
    """Files whose first line has the form "Name: ..."."""
    return [path for path in paths if _NAME_COLON.match(first_line(path))]


def main() -> int:
    paths = list(sources())
    words, lines = vague_names(paths)
    total, titles = sum(map(Counter.total, words.values())), colon_titles(paths)
    for path, counts in sorted(words.items(), key=lambda item: -item[1].total())[:10]:
        if counts:
            print(f"{counts.total():4} {path.relative_to(PACKAGE.parent)}: {dict(counts.most_common())}")
    rate = 1000 * total / lines
    print(f"vague names: {total} in {lines} lines, {rate:.1f} for every 1,000 (at most {MOST})")
    print(f'first lines of the form "Name: ...": {len(titles)}')
    for path in titles:
        print(f"     {path.relative_to(PACKAGE.parent)}")
    return int(rate > MOST or bool(titles))


if __name__ == "__main__":
    sys.exit(main())
