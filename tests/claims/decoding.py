"""Numbers of notebook 02: scores by layer, and the games with and without decoding."""

import string
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

import nbsal
from tests.claims.texts import cell, explainers, game_sets, margins, play, show, shuffled

FUNCTION_WORDS = """the a an and or but of in on at to for with by from is are was were be been it its this that these
those as than then so if not no i you he she they we his her their my your our me him them us who which what when where
while there here do does did has have had will would can could may might must one 's s t re ve ll d too very more most
just all any some much many such ... -- `` ''""".split()
UNIMPORTANT = {*FUNCTION_WORDS, *string.punctuation}


def notebook_02(most: int | None) -> None:
    subject = nbsal.load("demo/reviews")
    reviews = nbsal.data.texts(nbsal.data.load("samples/reviews"))[:most]
    sentences = nbsal.data.texts(shuffled("sst2", 9, subject, 10)[:80])[:most]
    for name, texts in {"reviews": reviews, "SST-2": sentences}.items():
        function_words(name, subject, texts)
        for layer in (5, 4, 3, 2):
            names = {"nbsal": nbsal, "subject": subject, "few": texts}
            layers = [(f"{call}5", f"{call}{layer}") for call in ("decoded_at(", "layer=")]
            sampled = 'few = frame["text"].sample(20, random_state=0).tolist()'
            exec(cell("02", 'frame = nbsal.data.load("samples/reviews")\nfew', (sampled, ""), *layers), names)
            table = names["with_plain"].pivot(index="explainer", columns="measure", values="mean")
            show(f"{name}, layer {layer}: agreement with plain decoding", table)
    last = nbsal.Explainer(subject, nbsal.Decoded(nbsal.GradCAM(layer=subject.depth), tau=1))
    tokens: Counter[str] = Counter()
    for text in [*reviews, *nbsal.data.texts(shuffled("sst2", 9)[:80])[:most]]:
        saliency = last(text)
        tokens.update(saliency.tokens[i] for i in np.flatnonzero(saliency.scores > 0))
    print("\nTokens with a score at the last layer, tau = 1:", dict(tokens))
    members = explainers(subject, [f"decoded-gradcam l{k}" for k in (4, 5, 6)] + [f"gradcam l{k}" for k in (0, 4, 5)])
    members |= explainers(subject, ["simple l0"]) | {"tau = 1": last}
    for name, frame in game_sets(subject).items():
        results = play(members, frame[:most])
        margins(name, results, "decoded-gradcam l5", ["gradcam l0", "gradcam l5", "simple l0"])
        margins(name, results, "decoded-gradcam l4", ["gradcam l4", "gradcam l0"])
        for first in ("decoded-gradcam l6", "tau = 1"):
            margins(name, results, first, ["random"])


def function_words(name: str, subject: Any, texts: Sequence[str]) -> None:
    """Print how much of the score of words is that of function words and punctuation, by layer."""
    shares, of_tokens, reach = [], [], []
    for text in texts:
        every = nbsal.Explainer(subject, "decoded-gradcam").every_layer(text)
        row = subject.encode(text)[0]
        content = list(row.content)
        unimportant = np.array([row.tokens[i].lower().replace("##", "") in UNIMPORTANT for i in content])
        scores = np.asarray(every.scores, float)[:, content]
        totals = np.where(scores.sum(1) > 0, scores.sum(1), np.nan)
        shares.append(scores[:, unimportant].sum(1) / totals)
        of_tokens.append(unimportant.mean())
        reach.append(totals[-1] / nbsal.Explainer(subject, "gradcam", layer=subject.depth)(text).scores.sum())
    print(f"\n{name}: {np.mean(of_tokens):.2f} of the tokens are function words and punctuation")
    print("their share of the score of words, by layer:", np.nanmean(shares, 0).round(2))
    print(f"decoding gives words {np.nanmedian(reach):.4f} of the last layer's score, in the median")
