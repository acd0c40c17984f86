"""Check a method by its catalogue name: `python -m nbsal.testing NAME [--model FOLDER]`."""

import argparse
import os
import sys
import warnings
from collections.abc import Sequence

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import transformers

import nbsal
from nbsal.support.errors import NbsalError
from nbsal.testing.suite import CHECKS, default_subjects, run, write_table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks, print a table of their results, and return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m nbsal.testing", description=__doc__)
    parser.add_argument("method", help="a catalogue name, also of another package (`nbsal methods` lists them)")
    parser.add_argument("--model", help="a folder, hub id or demo/ name to check on (default: several small models)")
    parser.add_argument("--only", action="append", choices=CHECKS, help="run this check only; may be repeated")
    options = parser.parse_args(arguments)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    try:
        subjects = [nbsal.load(options.model)] if options.model else default_subjects()
        results = run(options.method, subjects, only=options.only)
    except NbsalError as error:
        print(f"nbsal.testing: {error}", file=sys.stderr)
        return 2
    print(write_table(results))
    failed = sum(result.outcome == "failed" for result in results)
    passed = sum(result.outcome == "passed" for result in results)
    print(f"{options.method}: {passed} passed, {failed} failed, {len(results) - passed - failed} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
