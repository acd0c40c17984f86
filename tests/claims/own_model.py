"""Numbers of notebook 07: its cells that train, run with other seeds."""

import os
from typing import Any

from tests.claims.texts import cell

OTHER = (
    ("on monday ben was late and at school", "on friday dan was late and at home"),
    ('"pears", "figs"', '"plums", "apples"'),
)


def notebook_07(most: int | None) -> None:
    """Print on how many texts each method finds the planted word, and which find the reason of the next token."""
    if most:
        os.environ["NBSAL_SIZE"] = str(most)  # trains for a few steps
    for seed in range(2 if most else 5):
        seeds = [(f"{call}(0)", f"{call}({seed})") for call in ("manual_seed", "Random")]
        names: dict[str, Any] = {}
        exec(cell("07", "# %matplotlib"), names)
        exec(cell("07", "torch.manual_seed", *seeds), names)
        exec('mine = nbsal.load("flagger", lm="tied")', names)
        exec(cell("07", "flagged =", *([("[:40]", "[40:80]")] if seed else [])), names)
        print(f"seed {seed}, texts of 40:", {name: round(40 * share) for name, share in names["hits"].items()})
        exec(cell("07", "untrained ="), names)  # draws random weights, as in the notebook
        exec(cell("07", "FRUIT ="), names)
        for person, changes in {"ben": (), "dan": OTHER}.items():
            exec(cell("07", "sentence =", *changes), names)
            place = names["saliency"].tokens.index(person)
            first = [name for name, values in names["shares"].items() if abs(values).argmax() == place]
            print(f"seed {seed}: {person} is first with {len(first)}: {', '.join(first)};", end=" ")
            print(f"share with lrp {names['shares']['lrp'][place]:.2f}", flush=True)
