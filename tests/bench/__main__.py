"""Run all benchmarks and print one table of results: `python -m tests.bench [--only NAME ...] [--quick]`.

Each benchmark runs in a process of its own, so that memory use is measured separately. Other output goes to stderr.
"""

from tests.bench.measure import run_alone
from tests.bench.table import line, markdown, parser

BENCHES = "single decoding relevance attribution perturbation games corpus pages lab views".split()
BENCHES += "workbench growth peers answers answer_peers served live gpu".split()


def main() -> None:
    only = {"nargs": "*", "default": BENCHES, "choices": BENCHES, "metavar": "NAME", "help": ", ".join(BENCHES)}
    options = parser(__doc__, only=only).parse_args()
    print(markdown([]), flush=True)
    for name in options.only:
        for row in run_alone(name, options.rounds, options.quick):
            print(line(row), flush=True)


if __name__ == "__main__":
    main()
