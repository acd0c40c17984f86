"""Explain the same texts with several methods of one model, or with several models."""

from collections.abc import Iterable, Mapping, Sequence
from threading import Event
from typing import Any

from nbsal.explain.batches import explain_many
from nbsal.explain.explainer import Explainer
from nbsal.explain.saliency import Comparison
from nbsal.methods import catalogue
from nbsal.methods.base import Method
from nbsal.model.loading.load import as_subject
from nbsal.support.errors import InputError, NbsalError
from nbsal.support.progress import Progress
from nbsal.support.validation import Text, checked, text_list

Methods = str | Method | Sequence[str | Method] | Mapping[str, str | Method]


@checked
def compare(
    subject: Any,
    methods: Methods,
    texts: Text | Iterable[Text],
    targets: Any = None,
    batch_size: int = 32,
    progress: Progress = True,
    cancel: Event | None = None,
) -> Comparison:
    """Explain the same texts with several methods, which share what is run, or with several models.

    The result is a dict of explanations. Its keys are the names of the methods or, with a dict of models, those of the
    models; with several of both, a key is "model: method". `to_frame()` gives one frame of all.

    Args:
        subject: What `nbsal.load` returns or takes, or a dict of such: `{"before": subject, "after": tuned}`.
        methods: A name, an instance, a list of them, or a dict that names them.
        texts: A text, a pair, or any iterable of them.
        targets: What is explained of each text, or of all. By default what the model predicts.
        batch_size: How many texts are run together at most.
        progress: Whether to show a progress bar, or a function that is called with what is done, and of how much.
        cancel: An event that stops the call.

    >>> import nbsal
    >>> many = compare(nbsal.load("demo/reviews"), ["gradcam", "simple"], ["A joy.", "A bore."])
    >>> {name: len(saliencies) for name, saliencies in many.items()}
    {'gradcam': 2, 'simple': 2}
    >>> sorted(many.to_frame()["method"].unique())
    ['gradcam', 'simple']
    >>> models = {name: nbsal.load(f"demo/{name}") for name in ("reviews", "news")}
    >>> {name: saliencies[0].prediction for name, saliencies in compare(models, "gradcam", "A joy.").items()}
    {'reviews': 'positive', 'news': 'Business'}
    """
    named = catalogue.name_methods([methods] if isinstance(methods, str | Method) else methods)
    for argument, value in (("methods", named), ("subject", subject)):
        if isinstance(value, Mapping) and not value:
            raise InputError(f"{argument} is empty. Pass at least one.", argument=argument, value=value)
    many = [texts] if isinstance(texts, str | tuple) else texts
    if not isinstance(subject, Mapping):
        subject = as_subject(subject)
        explainers = {name: Explainer(subject, method) for name, method in named.items()}
        return Comparison(explain_many(explainers, many, targets, batch_size, progress, cancel))
    explainers_by_model = {
        model: {
            model if len(named) == 1 else f"{model}: {name}": Explainer(named_subject, method)
            for name, method in named.items()
        }
        for model, named_subject in subject.items()
    }
    results, every_text = Comparison(), list(text_list(many))
    for explainers in explainers_by_model.values():
        try:
            results.update(explain_many(explainers, every_text, targets, batch_size, progress, cancel))
        except NbsalError as error:
            error.partial = results | (error.partial or {})
            raise
    return results
