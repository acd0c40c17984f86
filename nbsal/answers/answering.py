"""Why a model replied what it replied: the entry point to answers."""

from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import Any

from nbsal.answers.answer import Answer
from nbsal.answers.explain import explain_reply
from nbsal.explain.explainer import Explainer
from nbsal.methods import catalogue
from nbsal.methods.base import Method
from nbsal.model.subject import Subject
from nbsal.support.errors import InputError
from nbsal.support.progress import Progress
from nbsal.support.validation import checked


@checked
def answer(
    subject: Subject,
    asked: Any,
    reply: Any = None,
    *,
    documents: Any = (),
    method: str | Method | Sequence[str | Method] | Mapping[str, str | Method] = "gae",
    unit: Any = "sentence",
    number: str | None = None,
    template: str | None = None,
    tools: Any = None,
    seed: int | None = None,
    batch_size: int | None = None,
    progress: Progress = True,
    cancel: Event | None = None,
    on_token: Callable[[str], None] | None = None,
    **generate: Any,
) -> Answer | dict[str, Answer]:
    """Explain the reply of a causal language model, or of an encoder-decoder such as T5, by its sources.

    `asked` is a prompt that the model reads as it is, or a list of messages for its chat template; `documents` are
    texts, dicts with "title" and "text", or a dict of texts by title. They replace `{documents}` in the last message,
    else the template places them, else they stand before the question. `reply` is a text or token ids; by default the
    model writes it, with the settings of `generate` that are passed (`max_new_tokens=128`, `do_sample=False`).

    Of an encoder-decoder, `asked` is the source text, and layers are those of the encoder. The tokens that its decoder
    begins with, a forced language (`forced_bos_token_id`) among them, belong to the template.

    `method` is a catalogue name, a method, or several, which share the reply and what they run (the result is then a
    dict of answers). `unit` is what methods hide and what `sources()` speaks of: "token", "word", "sentence",
    "paragraph", "document", "message", or (start, end) characters of the last message. How units are hidden is a
    setting of the method: `nbsal.Occlusion(way="text")` writes the prompt anew without them. `number` is what is
    explained of a token: its "logprob", "logit" or "logit-prob", the logarithm of its odds; by default "logprob" for
    methods that hide ("logit-prob" for contextcite), "logit" for all others.

    `template` replaces the chat template, `tools` are passed to it. `seed` makes drawn tokens repeatable, `on_token`
    receives the text while the model writes it, and at most `batch_size` texts are run together.

    After `cancel`, the `partial` of the error is what was finished: the text that the model had written, as a str, or
    else the answer (or the dict of answers) with the scores of the tokens that were explained, `explained` of them from
    the first on; all others have zeros. Methods that hide explain all tokens together, or none.

    >>> import nbsal
    >>> notes, documents = nbsal.load("demo/notes"), ["Mara lives in Oslo now.", "Boris lives in Rouen."]
    >>> question = [{"role": "user", "content": "Where does Mara live?"}]
    >>> reply = answer(notes, question, documents=documents, unit="document", method="occlusion", progress=False)
    >>> reply.text, reply.matrix("word", "document").loc["Oslo"].idxmax()
    (' Mara lives in Oslo.</s>', 'document 1')
    """
    settings: dict[str, Any] = {
        "documents": documents,
        "unit": unit,
        "number": number,
        "template": template,
        "tools": tools,
        "seed": seed,
        "batch_size": batch_size,
        "progress": progress,
        "cancel": cancel,
        "on_token": on_token,
        **generate,
    }
    if isinstance(method, str | Method):
        return Explainer(subject, method).reply(asked, reply, **settings)
    methods = catalogue.name_methods(method)
    if not methods:
        raise InputError("No method is named. Pass one or more.", argument="method", value=method)
    explainers = {name: Explainer(subject, each) for name, each in methods.items()}
    return explain_reply(explainers, asked, reply, **settings)
