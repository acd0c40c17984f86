"""`nbsal arena`: methods, also of other packages, in worlds whose reasons are known."""

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

import nbsal
from nbsal.render import html
from nbsal.support.errors import InputError

BASELINE = "random"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=run)
    parser.add_argument(
        "methods",
        nargs="*",
        metavar="METHOD",
        help="names from `nbsal methods`, or package:Method, a method class or a function from a subject to an "
        "explainer (default: the defaults for decisions, and random scores; one alone is compared with these)",
    )
    parser.add_argument(
        "--world",
        action="append",
        metavar="WORLD",
        help="classifiers, notes, smollm2 or injections; repeat it for several (default classifiers and notes)",
    )
    parser.add_argument("--size", type=int, default=60, metavar="N", help="cases of each world (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the cases (default %(default)s)")
    parser.add_argument("--save", type=Path, metavar="FILE", help="save the results, as `Results.save` does")


def run(options: argparse.Namespace) -> int:
    """Print the methods of each world, best first, those that differ by chance with the same rank."""
    from nbsal.methods.default import FOR_DECISIONS

    names = dict.fromkeys(options.methods)
    if len(names) < 2:
        names |= dict.fromkeys([*FOR_DECISIONS, BASELINE])
    settings = {} if options.world is None else {"worlds": options.world}
    methods = {name: _method(name) for name in names}
    results = nbsal.evaluation.arena(methods, size=options.size, seed=options.seed, **settings)
    if options.save:
        results.save(options.save)
    for world in results.measures:
        print(f"{world}: {results.metric.value}")
        print(html.visible(results.ranks(world).round(3).to_string()))
    for note in results.notes:
        print(html.visible(note))
    return 0


def _method(name: str) -> Any:
    """A method by its name, or what a package has under it."""
    package, colon, entry = name.partition(":")
    if not colon:
        return name
    sys.path.insert(0, "")  # packages in the folder that the command runs in
    try:
        found = getattr(importlib.import_module(package), entry)
    except (ImportError, AttributeError) as error:
        message = f"{name} cannot be imported: {error}. Write it as package.module:Method."
        raise InputError(message, argument="METHOD", value=name) from error
    finally:
        sys.path.remove("")
    return found() if isinstance(found, type) else found
