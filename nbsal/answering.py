"""Why a model replied what it replied: the entry point to answers."""

from collections.abc import Mapping, Sequence
from typing import Any

from nbsal.answers.answer import Answer
from nbsal.answers.explain import explain_reading, read
from nbsal.explainer import Explainer
from nbsal.methods import catalogue
from nbsal.methods.base import Method
from nbsal.model.subject import Subject
from nbsal.validation import checked

READING = ("documents", "template", "tools", "seed", "cancel", "on_token")  # arguments about what is read


@checked
def answer(
    subject: Subject,
    asked: Any,
    reply: Any = None,
    *,
    method: str | Method | Sequence[str | Method] | Mapping[str, str | Method] = "gae",
    **settings: Any,
) -> Answer | dict[str, Answer]:
    """Explain the reply of a causal language model, or of an encoder-decoder such as T5, by its sources.

    `asked` is a prompt that the model reads as it is, or a list of messages for its chat template; `documents` are
    texts, dicts with "title" and "text", or a dict of texts by title. They replace `{documents}` in the last message,
    else the template places them, else they stand before the question. `reply` is a text or token ids; by default the
    model writes it, with the settings of `generate` that are passed (`max_new_tokens=128`, `do_sample=False`).

    Of an encoder-decoder, `asked` is the source text, and layers are those of the encoder. The tokens that its decoder
    begins with, a forced language (`forced_bos_token_id`) among them, belong to the template.

    `method` is a catalogue name, a method, or several (the result is then a dict of answers of one reply). `unit` is
    what methods hide and what `sources()` speaks of: "token", "word", "sentence", "paragraph", "document", "message",
    or (start, end) characters of the last message. `number` is what is explained of a token: its "logprob", "logit" or
    "logit-prob"; by default the log-probability for methods that hide, the logit for all others. `seed` makes drawn
    tokens repeatable, `on_token` receives the text while the model writes it.

    >>> import nbsal
    >>> notes, documents = nbsal.load("demo/notes"), ["Mara lives in Oslo now.", "Boris lives in Rouen."]
    >>> question = [{"role": "user", "content": "Where does Mara live?"}]
    >>> reply = answer(notes, question, documents=documents, unit="document", method="occlusion", progress=False)
    >>> reply.text, reply.matrix("word", "document").loc["Oslo"].idxmax()
    (' Mara lives in Oslo.</s>', 'document 1')
    """
    if isinstance(method, str | Method):
        return Explainer(subject, method).reply(asked, reply, **settings)
    explainers = {name: Explainer(subject, each) for name, each in catalogue.name_methods(method).items()}
    about = {"unit": settings.pop("unit", "sentence"), "number": settings.pop("number", None)}
    about |= {"progress": settings.pop("progress", True), "cancel": settings.get("cancel")}
    arguments = {name: settings.pop(name, () if name == "documents" else None) for name in READING}
    reading, origin = read(subject, asked, reply, **arguments, settings=settings)
    return {name: explain_reading(explainer, reading, origin, **about) for name, explainer in explainers.items()}
