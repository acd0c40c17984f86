"""Evaluation of methods on models with a planted shortcut: whether the word that decides is the strongest one."""

from itertools import islice
from threading import Event

import numpy as np

from nbsal.evaluation.cache import explain_texts
from nbsal.evaluation.curve import Curve
from nbsal.evaluation.makers import Methods, makers_of
from nbsal.evaluation.results import MetricInfo, Results
from nbsal.evaluation.worlds import share_of_words
from nbsal.model.loading.load import load
from nbsal.samples import planted as models
from nbsal.support.progress import Meter, Progress
from nbsal.support.validation import checked, plural, positive_number

MEAN = "mean"
METRIC = "precision at 1"


@checked
def planted(
    explainers: Methods,
    size: int = 100,
    seed: int = 0,
    *,
    batch_size: int = 32,
    progress: Progress = True,
    cancel: Event | None = None,
) -> Results:
    """The share of messages in which the planted word has the highest score of all words, for each planted model.

    `explainers` is a catalogue name, a method, or a function from a subject to an `Explainer`; or several of them, as a
    dict that names them (without functions also as a list). Each explains the decisions about `size` messages of every
    model of `nbsal.samples.planted` whose shortcut is a word: in these, the shortcut decides against the evidence.
    Words that share the highest score count as their share; "mean" is the mean over the models. Layers are decoded with
    the model's input embeddings.

    >>> results = planted(["occlusion", "random"], size=5, progress=False)
    >>> results.best("word")
    'occlusion'
    """
    size = positive_number(size, "size")
    makers = makers_of(explainers, "explainers")
    names = [name for name, shortcut in models.SHORTCUTS.items() if shortcut.words]
    shares: dict[str, list[list[float]]] = {}
    with Meter(len(names), progress, cancel) as meter:
        for name in names:
            meter.check()
            subject, words = load(models.PREFIX + name, lm="tied"), models.SHORTCUTS[name].words
            texts = [message.text for message in islice(models.decisive(name, seed), size)]
            members = {method: make(subject) for method, make in makers.items()}
            for method, (saliencies,) in explain_texts(members, texts, batch_size, None, False, cancel).items():
                shares.setdefault(method, []).append([share_of_words(saliency, words) for saliency in saliencies])
            meter.step()
    measures = [*names, MEAN]
    curves = {
        (method, measure): Curve.from_values((1,), np.array(values)[None, None], range(size))
        for method, parts in shares.items()
        for measure, values in zip(measures, [*parts, np.mean(parts, 0)], strict=True)
    }
    better, bounds = dict.fromkeys(measures, "high"), dict.fromkeys(measures, (0, 1))
    metric = MetricInfo("model", "k", METRIC, better=better, bounds=bounds)
    return Results(metric, curves, (f"{plural(size, 'message')} a model", METRIC))
