"""`nbsal methods`: where to start, every method by family, and all that is known of one."""

import argparse
from collections.abc import Iterator

from nbsal.render import html
from nbsal.support.errors import UnknownName

REFERENCE = "reference variants, as their authors' programs run"
GUIDE = 'Which of them works is measured: read "Which method, and does it work?" in the documentation.'
MORE = "`nbsal methods NAME` says all of one method, `nbsal methods --full` of every one."


def add_arguments(methods: argparse.ArgumentParser) -> None:
    methods.set_defaults(run=run)
    methods.add_argument("name", nargs="?", metavar="NAME", help="print cost, properties and settings of this method")
    methods.add_argument("--full", action="store_true", help="print cost, properties and settings of every method")
    methods.add_argument("--markdown", action="store_true", help="print a Markdown table")


def run(options: argparse.Namespace) -> int:
    from nbsal.methods import catalogue

    if options.markdown:
        lines: Iterator[str] = iter([catalogue.markdown()])
    elif options.full or options.name:
        lines = _full(options.name)
    else:
        lines = _brief()
    for line in lines:
        print(html.visible(line))
    return 0


def _brief() -> Iterator[str]:
    """A line for each method, by family, below those to start with."""
    from nbsal.methods import catalogue, labels, plugins
    from nbsal.methods.default import FOR_DECISIONS, FOR_DOCUMENTS, FOR_LAYERS, FOR_REPLIES

    lists = {"decisions": FOR_DECISIONS, "replies": FOR_REPLIES, "documents": FOR_DOCUMENTS, "a layer": FOR_LAYERS}
    yield "start here"
    methods = catalogue.every_method()
    start = [method for method in methods.values() if method.facts.start]
    for method in sorted(start, key=lambda method: method.facts.recommended or len(methods)):
        name, purpose = method.name, method.facts.start
        uses = " and ".join(use for use, names in lists.items() if names[0] == name)
        yield f"  {name:34} {purpose}{f' (default for {uses})' if uses else ''}"
    families: dict[str, list[str]] = {}
    for name, method in methods.items():
        family = REFERENCE if "@" in name else method.family
        package = f" (from {origin})" if (origin := plugins.origin(name)) else ""
        families.setdefault(family, []).append(f"  {name:34} {labels.summary(method)}{package}")
    for family in sorted(families, key=lambda family: family == REFERENCE):
        yield from ("", family, *families[family])
    yield from ("", GUIDE, MORE)


def _full(name: str | None) -> Iterator[str]:
    """All that is known of one method, or of each, and what the words mean."""
    from nbsal.methods import catalogue, labels, plugins

    methods = catalogue.every_method()
    if name is not None and name not in methods:
        raise UnknownName("method", name, list(methods), where="`nbsal methods` lists")
    rows = catalogue.table()
    for each, row in (rows if name is None else rows.loc[[name]]).iterrows():
        yield f"{each:34} {row['family']:13} {row['paper']}"
        yield f"    {labels.summary(methods[str(each)])}"
        yield f"    cost: {row['cost']}"
        yield f"    scores: {row['promise']}"
        yield f"    reads: {row['needs'] or 'output'}; settings: {row['settings']}"
        if package := plugins.origin(str(each)):
            yield f"    from: {package}"
    yield ""
    for word, meaning in catalogue.glossary().items():
        yield f"{word}: {meaning}"
