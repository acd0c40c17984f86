"""Run all benchmarks and print one table of results: `python -m tests.bench [NAME ...] [--quick]`.

Each benchmark runs in a process of its own, so that memory use is measured separately. Other output goes to stderr.
"""

from tests.bench.measure import run_alone
from tests.bench.table import line, markdown, parser

BENCHES = "defaults single decoding attribution perturbation games corpus lab views".split()
BENCHES += "workbench arena growth peers answers answer_peers jobs memory served live gpu".split()


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHES)} (default: all)")
    options = arguments.parse_args()
    for unknown in set(options.names) - set(BENCHES):
        arguments.error(f"{unknown} is none of {', '.join(BENCHES)}")
    print(markdown([]), flush=True)
    for name in options.names or BENCHES:
        for row in run_alone(name, options.rounds, options.quick):
            print(line(row), flush=True)


if __name__ == "__main__":
    main()
