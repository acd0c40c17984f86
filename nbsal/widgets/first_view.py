"""The view that answers first why a model decided, or wrote, what it did."""

from collections.abc import Mapping
from typing import Any

from nbsal.explain.lazy import Explainer
from nbsal.support.errors import InputError
from nbsal.support.validation import checked, text_list
from nbsal.widgets.answers import Answers
from nbsal.widgets.audit import Audit
from nbsal.widgets.base import View
from nbsal.widgets.browse import Browse
from nbsal.widgets.content.text_steps import Texts, texts_of
from nbsal.widgets.workbench import Workbench

AUDITED = 100  # texts: of fewer, hardly any word is named often enough to be tested


@checked
def why(model: Any, what: Any, labels: Any = None, documents: Any = None, **settings: Any) -> View:
    """Show why a model decides, or writes, what it does: the right view for a text, for texts, or for a chat.

    A text, or a pair of texts, is explained in a `Workbench`. What is asked of a model that writes, as a prompt or as
    messages, is answered and explained in `Answers`. Several texts are listed in `Browse`; with labels, and from a
    hundred texts on, an `Audit` shows what is behind the mistakes. In a script, `print` the view to read its result.

    Args:
        model: An `Explainer`, or what `nbsal.load` returns or takes.
        what: A text, a pair, a prompt, a list of messages, a list of texts, or a data frame with the column "text".
        labels: The labels of the texts, or the column that has them, by default "label".
        documents: Documents that a reply may draw on.
        **settings: Traits of the view, such as `method="occlusion"`, and for a reply the arguments of `nbsal.answer`.

    >>> import nbsal
    >>> view = nbsal.why(nbsal.load("demo/reviews-small"), "A dull film.").wait()
    >>> view.result.prediction, view.result.check.state
    ('negative', 'supported')
    """
    from nbsal.model.encoder_decoder import WRITERS  # imports torch
    from nbsal.model.loading.load import as_subject

    source = model if isinstance(model, Explainer) else as_subject(model)
    subject = source.subject if isinstance(source, Explainer) else source
    if _is_asked(what) or (isinstance(what, str) and subject.task in WRITERS):
        if labels is not None:
            raise InputError("labels belong to several texts, not to a chat.", argument="labels", value=labels)
        return Answers(source, what, documents=() if documents is None else documents, **settings)
    if documents is not None:
        message = f"documents belong to what is asked of a model that writes, and {subject.name} is asked nothing."
        raise InputError(message, argument="documents", value=documents)
    if isinstance(what, str | tuple):
        return Workbench(source, text=what, **settings)
    texts, labels = _texts_and_labels(what, labels)
    explainer = source if isinstance(source, Explainer) else Explainer(source)
    if labels is not None and len(texts) >= AUDITED:
        return Audit(explainer, texts, labels, **settings)
    return Browse(explainer, texts, labels=labels, **settings)


def _is_asked(what: Any) -> bool:
    """Whether these are the messages of a chat."""
    return isinstance(what, list) and bool(what) and isinstance(what[0], Mapping) and "role" in what[0]


def _texts_and_labels(what: Any, labels: Any) -> Texts:
    """The texts, and the labels if there are any, of a list or of a data frame."""
    return texts_of(what, labels) if hasattr(what, "columns") else (list(text_list(what)), labels)
