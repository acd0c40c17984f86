"""Every benchmark in one go, and one table of what they found: `python -m tests.bench [--only NAME ...] [--quick]`.

Each runs in a process of its own, so that none inherits another's memory; what they say on the way goes to stderr.
"""

from tests.bench.measure import alone
from tests.bench.table import line, markdown, parser

BENCHES = ("decoding", "relevance", "perturbation", "games", "corpus", "pages", "peers", "gpu")


def main() -> None:
    options = parser("", __doc__)
    options.add_argument("--only", nargs="*", default=BENCHES, choices=BENCHES, metavar="NAME", help=", ".join(BENCHES))
    given = options.parse_args()
    print(markdown([]), flush=True)
    for name in given.only:
        for row in alone(name, given.rounds, given.quick):
            print(line(row), flush=True)


if __name__ == "__main__":
    main()
