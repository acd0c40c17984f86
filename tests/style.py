"""Measure the names of the package against its style: `python -m tests.style`.

Names such as `found`, `given` or `one` say how a value came about, not what it is. This program counts them in
`nbsal/` and its front end, and lists files whose first line has the form "Name: ...", which a reader has to translate.
"""

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
_NAME_COLON = re.compile(r'(?:"""|// ?|/\*+ ?)[A-Z]\w*: ')


def identifiers(path: Path, source: str) -> Iterable[str]:
    """Every name in a source, each time it stands there; words in strings and comments do not count."""
    if path.suffix == ".py":
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        return [token.string for token in tokens if token.type == tokenize.NAME]
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
        parts = (part.lower() for name in identifiers(path, source) for part in _PARTS.findall(name))
        words[path] = Counter(part for part in parts if part in VAGUE)
    return words, lines


def colon_titles(paths: Iterable[Path]) -> list[Path]:
    """Files whose first line, a docstring or a comment, has the form "Name: ..."."""
    sources = ((path, path.read_text(encoding="utf-8")) for path in paths)
    return [path for path, source in sources if _NAME_COLON.match(source)]


def main() -> int:
    paths = list(sources())
    words, lines = vague_names(paths)
    total, titles = sum(map(Counter.total, words.values())), colon_titles(paths)
    for path, counts in sorted(words.items(), key=lambda item: -item[1].total())[:10]:
        print(f"{counts.total():4} {path.relative_to(PACKAGE.parent)}: {dict(counts.most_common())}")
    print(f"vague names: {total} in {lines} lines, {1000 * total / lines:.1f} for every 1,000 (at most {MOST})")
    print('first lines of the form "Name: ...":', *titles)
    return int(1000 * total / lines > MOST or bool(titles))


if __name__ == "__main__":
    sys.exit(main())
