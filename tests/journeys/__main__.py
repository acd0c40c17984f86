"""Print what calls visit and how many nouns the package has: `python -m tests.journeys`.

Of a call, its second one is counted: the functions of the package that it enters, and their files. All else is read
from the sources. Below the table are the names that each number stands for.
"""

import logging
import warnings

from tests.journeys.census import FRONT_END, PACKAGE, ROOT, lines
from tests.journeys.measures import GOALS, counted, visits


def line(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    warnings.filterwarnings("ignore", module="transformers")
    logging.disable(logging.WARNING)
    print(line("measure", "today", "goal"), line("---", "--:", "--:"), sep="\n")
    for name, visit in visits().items():
        print(line(f"functions / files: {name}", visit, GOALS.get(name, "-")), flush=True)
    listed = counted()
    for name, entries in listed.items():
        print(line(name, len(entries), GOALS.get(name, "-")))
    sizes = {
        "lines of Python": lines(PACKAGE, ".py"),
        "lines of TypeScript and CSS": lines(FRONT_END, ".ts", ".css"),
        "lines of tests, without benchmarks": lines(ROOT / "tests", ".py", but="bench"),
    }
    for name, size in sizes.items():
        print(line(name, f"{size:,}", GOALS.get(name, "-")))
    for name, entries in listed.items():
        if name != "classes":
            print(f"\n{name}:", *(entries or ["none"]), sep="\n  ")


if __name__ == "__main__":
    main()
