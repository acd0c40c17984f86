"""Numbers of notebook 08: the games, and its checks on other texts and seeds."""

from typing import Any

import pandas

import nbsal
from tests.claims.texts import cell, game_sets, margins, play, show, shuffled

FLIPPED = "so much facile technique"  # loses its decision with its full stop


def notebook_08(most: int | None) -> None:
    names: dict[str, Any] = {}
    exec(cell("08", "# %matplotlib"), names)
    subject, members = names["subject"], names["explainers"]
    ours, *others = members
    for name, frame in game_sets(subject).items():
        margins(name, play(members, frame[:most]), ours, [*others, "random"])
    tenths = [step / 10 for step in range(11)]
    for seed in range(1 if most else 10):
        frame = shuffled("samples/reviews", seed, subject, 10)[:32][:most]
        few = {name: members[name] for name in (ours, *others[:2])}
        margins(f"32 reviews, random_state {seed}", play(few, frame, fractions=tenths), ours, others[:2])

    reviews = nbsal.data.texts(shuffled("samples/reviews", 0, subject, 10))
    sentences = nbsal.data.texts(shuffled("sst2", 5, subject, 10)[:60])
    names["texts"] = sentences[:most]
    exec(cell("08", "ways ="), names)
    show("AOPC by way of hiding, 60 sentences of SST-2", names["aopc"])
    exec(cell("08", "agreement ="), names)
    table = names["agreement"].query("measure == 'kendall'")[["explainer", "mean"]]
    show("Kendall's tau between methods, 60 sentences of SST-2", table, index=False)
    every = ("[:12]", "")
    for name, texts in {"reviews": reviews[30:60], "SST-2": sentences[:30]}.items():
        names["texts"] = texts[:most]
        exec(cell("08", "change =", every), names)
        show(f"Tau between the maps of the two classes, {name}", pandas.Series(names["change"]))
    for name, texts in {"reviews": reviews[:12], "SST-2": sentences[:20]}.items():
        names["texts"], columns = texts[:most], {}
        for seed in range(1 if most else 5):
            exec(cell("08", "broken =", every, ("seed(0)", f"seed({seed})")), names)
            columns[seed] = names["kept"]
        show(f"Tau between the trained and the ruined model, by seed, {name}", pandas.DataFrame(columns))
    ends, others_end = ([text for text in texts if text.endswith(".")] for texts in (reviews, sentences))
    stays = [text for text in others_end[:30] if FLIPPED not in text]
    steady = {}
    for name, texts in {"reviews": ends[12:42], "SST-2": others_end[:30], "SST-2, 29": stays}.items():
        names["texts"] = texts[:most]
        exec(cell("08", "dotted =", every, ("t[:-1]", "t[:-1].rstrip()")), names)
        steady[name] = names["steady"]
    show("Tau with and without the final full stop", pandas.DataFrame(steady))
