"""Every benchmark in one go, and one table of what they found: `python -m tests.bench [--only NAME ...] [--quick]`.

Each runs in a process of its own, so that none inherits another's memory; what they say on the way goes to stderr.
"""

import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from importlib import import_module

from tests.bench.table import Row, markdown, missing, parser

BENCHES = ("decoding", "relevance", "perturbation", "games", "corpus", "pages", "peers")


def told(name: str, rounds: int, quick: bool) -> list[Row]:
    """The rows of one benchmark."""
    with redirect_stdout(sys.stderr):
        rows: list[Row] = import_module(f"tests.bench.{name}").results(rounds, quick)
        return rows


def alone(name: str, rounds: int, quick: bool) -> list[Row]:
    """The rows of one benchmark, run in a fresh process; or a row of why there are none."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        try:
            return process.submit(told, name, rounds, quick).result()
        except Exception as error:  # whatever it is, the other benchmarks can be run
            return [missing(name, f"{type(error).__name__}: {error}")]


def main() -> None:
    options = parser("", __doc__)
    options.add_argument("--only", nargs="*", default=BENCHES, choices=BENCHES, metavar="NAME", help=", ".join(BENCHES))
    given = options.parse_args()
    print(markdown(row for name in given.only for row in alone(name, given.rounds, given.quick)))


if __name__ == "__main__":
    main()
