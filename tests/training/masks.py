"""Compute the head masks of the embedded models: `python -m tests.training.masks`.

Studies the attention heads on the development part of the English Web Treebank (ud_ewt/dev.conllu in the folder
NBSAL_DATA) and saves the masks.
"""

import argparse
import time

from nbsal.heads.statistics import study
from nbsal.model.loading.load import load
from nbsal.samples import KINDS, MASKS
from tests.training.corpora import folder


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.training.masks", description=__doc__)
    parser.parse_args()
    treebank = folder() / "ud_ewt" / "dev.conllu"
    MASKS.mkdir(exist_ok=True)
    for name in KINDS:
        start = time.time()
        results = study(load(f"demo/{name}"), treebank, progress=False)
        results.mask().save(MASKS / f"{name}.nbsal")
        print(f"demo/{name}: {results.mask()} after {time.time() - start:.0f} s, {results.rows} positions")


if __name__ == "__main__":
    main()
