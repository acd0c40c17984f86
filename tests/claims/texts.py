"""Texts that the notebooks do not use, comparisons on them, and cells of notebooks to run on them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas

import nbsal

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SHORT = 400  # characters of a short review


def shuffled(table: str, seed: int, subject: Any = None, shortest: int = 0) -> pandas.DataFrame:
    """A table in random order; with `shortest`, its texts of so many tokens or more."""
    settings = {"shortest": shortest, "tokenizer": subject.tokenizer} if shortest else {}
    return nbsal.data.load(table, **settings).sample(frac=1, random_state=seed)


def short_reviews(table: str) -> pandas.DataFrame:
    frame = nbsal.data.load(table)
    return frame[frame["text"].str.len() < SHORT][["text", "label"]]


def game_sets(subject: Any) -> dict[str, pandas.DataFrame]:
    """Texts with labels for `demo/reviews`."""
    sentences = shuffled("sst2", 1, subject, 10)
    both = pandas.concat([short_reviews("imdb"), short_reviews("yelp_polarity")]).sample(frac=1, random_state=1)
    return {"SST-2 A": sentences[:160], "SST-2 B": sentences[160:320], "IMDB and Yelp": both[:80]}


def deletion_sets(subject: Any) -> dict[str, list[str]]:
    """Texts of 14 tokens or more, and short reviews, for `demo/reviews`."""
    imdb, yelp = (short_reviews(name).sample(frac=1, random_state=0) for name in ("imdb", "yelp_polarity"))
    frames = {
        "SST-2": shuffled("sst2", 0, subject, 14)[200:300],
        "samples": shuffled("samples/reviews", 5, subject, 14)[:50],
        "IMDB and Yelp": pandas.concat([imdb[60:90], yelp[60:80]]),
    }
    return {name: nbsal.data.texts(frame) for name, frame in frames.items()}


def explainers(subject: Any, names: Sequence[str]) -> dict[str, Any]:
    """Explainers by name; `gradxact l5` is one of layer 5."""
    parts = {name: name.partition(" l") for name in names}
    return {
        name: nbsal.Explainer(subject, method, **({"layer": int(layer)} if layer else {}))
        for name, (method, _, layer) in parts.items()
    }


def play(members: Mapping[str, Any], frame: pandas.DataFrame, **settings: Any) -> Any:
    """Both games, with five random orders."""
    settings = {"fractions": (0, 0.1, 0.2, 0.3, 0.5, 0.7, 1), "random": 5, "progress": False} | settings
    return nbsal.evaluation.games(members, nbsal.data.texts(frame), frame["label"].tolist(), **settings)


def delete(members: Mapping[str, Any], texts: Sequence[Any]) -> Any:
    """AOPC of the members."""
    settings = {"measures": ("aopc",), "fractions": (0.1, 0.3, 0.5, 0.7, 0.9), "progress": False}
    return nbsal.evaluation.faithfulness(members, texts, **settings)


def margins(title: str, results: Any, first: str, others: Sequence[str]) -> None:
    """Print paired margins of one member over others."""
    show(f"{title}: {first} against", results.paired(first, list(others)).drop(columns="first"), index=False)


def show(title: str, table: pandas.DataFrame | pandas.Series, **settings: Any) -> None:
    print(f"\n{title}\n{table.round(3).to_string(**settings)}", flush=True)


def cell(notebook: str, start: str, *changes: tuple[str, str]) -> str:
    """The code of a notebook's first cell that begins so, with changes; each must change something."""
    text = next(NOTEBOOKS.glob(f"{notebook}_*.py")).read_text(encoding="utf-8")
    code = next(part for part in text.split("\n# %%") if part.partition("\n")[2].startswith(start)).partition("\n")[2]
    for old, new in changes:
        if old not in code:
            raise ValueError(f"no {old!r} in the cell {start!r} of notebook {notebook}")
        code = code.replace(old, new)
    return code
