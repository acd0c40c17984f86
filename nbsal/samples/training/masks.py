"""Finds the head masks of the embedded models: `python -m nbsal.samples.training.masks`.

The study reads the English Web Treebank's development part (ud_ewt/dev.conllu below NBSAL_DATA) and prints what it saw.
"""

import argparse
import os
import time
from pathlib import Path

from nbsal.errors import InputError
from nbsal.heads.statistics import HeadStudy, study
from nbsal.model.load import load
from nbsal.samples import KINDS, MASKS


def report(found: HeadStudy) -> None:
    """The commonest distance of each relation, and the selected heads with their alpha, block by block."""
    mask = found.mask()
    for name, cases in found.cases.items():
        commonest, count = found.distances[name].most_common(1)[0]
        print(f"  {name}: {cases} cases, lambda peak {commonest:+d} {count / cases:.3f}")
        alpha = found.relations.query("relation == @name").sort_values("alpha", ascending=False)
        best = [f"{row.block}.{row.head} {row.alpha:.3f}" for row in alpha.head(3).itertuples()]
        print(f"    best heads {', '.join(best)}; selected {int(mask.relations[name].sum())}")
    positions = found.positions.sort_values("alpha", ascending=False).head(5)
    print(
        "  positions: "
        + ", ".join(f"{r.block}.{r.head} at {r.offset:+d} {r.alpha:.3f}" for r in positions.itertuples())
    )
    print(f"  syntactic heads by block {mask.syntactic.sum(1).tolist()}, positional {mask.positional.sum(1).tolist()}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m nbsal.samples.training.masks", description=__doc__)
    parser.parse_args()
    root = os.environ.get("NBSAL_DATA")
    if not root:
        raise InputError("Set NBSAL_DATA to the folder that holds ud_ewt/dev.conllu.")
    MASKS.mkdir(exist_ok=True)
    for name in KINDS:
        start = time.time()
        found = study(load(f"demo/{name}"), Path(root) / "ud_ewt" / "dev.conllu", progress=False)
        found.mask().save(MASKS / f"{name}.json")
        print(f"demo/{name}: {found.mask()} after {time.time() - start:.0f} s, {found.rows} positions")
        report(found)


if __name__ == "__main__":
    main()
