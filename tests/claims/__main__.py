"""Numbers that notebooks cite for other texts: `python -m tests.claims 02` (03 or 04; `--quick`: 3 texts).

Benchmark texts come from the folder that NBSAL_DATA names. A notebook takes one to ten minutes.
"""

import argparse

from tests.claims.decoding import notebook_02
from tests.claims.relevance import notebook_03, notebook_04

PARTS = (notebook_02, notebook_03, notebook_04)


def main() -> None:
    parts = {part.__name__[-2:]: part for part in PARTS}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebook", choices=parts, help="the number of a notebook")
    parser.add_argument("--quick", action="store_true", help="three texts of each set; the numbers mean nothing")
    options = parser.parse_args()
    parts[options.notebook](3 if options.quick else None)


if __name__ == "__main__":
    main()
