"""Compute the head masks of the embedded models: `python -m nbsal.samples.training.masks`.

Studies the attention heads on the development part of the English Web Treebank (ud_ewt/dev.conllu in the folder
NBSAL_DATA), prints the statistics and saves the masks.
"""

import argparse
import os
import time
from pathlib import Path

from nbsal.heads.statistics import HeadStudy, study
from nbsal.model.loading.load import load
from nbsal.samples import KINDS, MASKS
from nbsal.support.errors import InputError


def report(results: HeadStudy) -> None:
    """Print the commonest distance of each relation, the best heads with their alpha, and the heads selected."""
    mask = results.mask()
    for name, cases in results.cases.items():
        commonest, count = results.distances[name].most_common(1)[0]
        print(f"  {name}: {cases} cases, lambda peak {commonest:+d} {count / cases:.3f}")
        alpha = results.relations.query("relation == @name").sort_values("alpha", ascending=False)
        best = [f"{row.block}.{row.head} {row.alpha:.3f}" for row in alpha.head(3).itertuples()]
        print(f"    best heads {', '.join(best)}; selected {int(mask.relations[name].sum())}")
    positions = results.positions.sort_values("alpha", ascending=False).head(5)
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
        raise InputError("NBSAL_DATA is not set. Set it to the folder that contains ud_ewt/dev.conllu.")
    MASKS.mkdir(exist_ok=True)
    for name in KINDS:
        start = time.time()
        results = study(load(f"demo/{name}"), Path(root) / "ud_ewt" / "dev.conllu", progress=False)
        results.mask().save(MASKS / f"{name}.json")
        print(f"demo/{name}: {results.mask()} after {time.time() - start:.0f} s, {results.rows} positions")
        report(results)


if __name__ == "__main__":
    main()
