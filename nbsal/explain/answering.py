"""Why a model replied what it replied: from a question to an answer."""

from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import Any, Literal

from nbsal.explain.answer import Answer
from nbsal.explain.explainer import Explainer
from nbsal.explain.prompt.sources import uses_tools
from nbsal.explain.reply import explain_read, explain_reply, read, size_of
from nbsal.explain.reply_settings import ReplySettings
from nbsal.explain.scoring.hops import Count
from nbsal.methods import catalogue
from nbsal.methods.base import Method
from nbsal.methods.default import default_for_reply
from nbsal.model.loading.load import as_subject
from nbsal.model.loading.stand_in import StandIn
from nbsal.support.errors import InputError
from nbsal.support.progress import Progress
from nbsal.support.validation import checked


@checked
def answer(
    subject: Any,
    asked: Any,
    reply: Any = None,
    *,
    documents: Any = (),
    layout: str = "plain",
    method: str | Method | Sequence[str | Method] | Mapping[str, str | Method] | None = None,
    unit: Any = None,
    number: str | None = None,
    template: str | None = None,
    tools: Any = None,
    seed: int | None = None,
    batch_size: int | None = None,
    hops: Count = 0,
    check: bool | Literal["ways"] = True,
    progress: Progress = True,
    cancel: Event | None = None,
    on_token: Callable[[str], None] | None = None,
    **generate: Any,
) -> Answer | dict[str, Answer]:
    """Explain the reply of a causal language model, an encoder-decoder such as T5 or an `Endpoint`, by its sources.

    Returns an `Answer`. Its `statement()` says what the reply depends on, `sources()` and `matrix()` are tables of the
    scores, `of("Oslo")` explains a part of the reply, `rather("Rouen", at=3)` why a token is not another one, `judge()`
    tests the scores, and `to_html("page.html")` writes a page. Several methods give a dict of answers.

    Of an encoder-decoder, `asked` is the source text, and layers are those of the encoder. The tokens that its decoder
    begins with, a forced language (`forced_bos_token_id`) among them, belong to the template.

    After `cancel`, the `partial` of the error is what was finished: the text that the model had written, as a str, or
    else the answer (or the dict of answers). Its first `explained` tokens have scores, the others zeros. Methods that
    hide explain all tokens together, or none.

    Args:
        subject: What `nbsal.load` returns, or what it takes.
        asked: A list of messages for the model's chat template, or a prompt that the model reads as it is; the first
            prompt that skips a model's template gives a warning. Messages may have "tool_calls", and the role "tool":
            calls and their results are sources. A template that knows none of them gets `<tool_call>` tags.
        reply: A text or token ids. By default the model writes the reply.
        documents: Texts, dicts with "title" and "text", or a dict of texts by title. They replace `{documents}` in the
            last message, else the template places them, else they stand before the question.
        layout: How documents are written: "plain", or "numbered" ("[1] ...", "[2] ..."), so that the reply can cite
            them; not for templates that place documents themselves.
        method: A name that `nbsal methods` lists, an instance, or several, which share the reply and what they run.
            With documents, or calls of tools among the messages, the default is occlusion, which hides one after the
            other. Otherwise it is attn-lrp, or gae for models with operations that attn-lrp has no rule for. It is
            occlusion for models that only methods that hide can explain, for prompts too long for the memory that the
            others need, and for replies so long that hiding the sentences is quicker. How units are hidden is a setting
            of the method: `nbsal.Occlusion(way="text")` writes the prompt anew without them.
        unit: What methods hide and what `sources()` speaks of: "token", "word", "sentence", "paragraph", "document",
            "message", or (start, end) characters of the last message. By default "document" with documents, "message"
            with calls of tools, else "sentence".
        number: What is explained of a token: its "logprob", "logit" or "logit-prob" (the logarithm of its odds). By
            default "logprob" for methods that hide ("logit-prob" for contextcite), "logit" for all others. Methods that
            hide also explain the "divergence" (Jensen-Shannon, in nats) between what the model would say there with all
            units and with some of them. It has no sign: a unit counts whether it speaks for the token, against it, or
            only about others in its place. A server that gives no log-probabilities still shows the "agreement":
            whether it writes a word again, greedily.
        template: A chat template in place of the model's own.
        tools: Tools that are passed to the chat template.
        seed: Makes drawn tokens repeatable.
        batch_size: How many texts are run together at most.
        hops: How often scores are followed through the earlier tokens of the reply, a number or "all": see
            `Answer.through`.
        check: Whether to test the scores: the same reply is scored again without each source, and without all
            documents, from which every sentence is made. Without it sentences say "not checked", and `Answer.check`
            does it later. With check="ways", each source is also left out of the text, replaced by neutral words, and
            left alone, and sentences say in how many ways they hold.
        progress: Whether to show a progress bar, or a function that is called with what is done, and of how much.
        cancel: An event that stops the call.
        on_token: Receives the text while the model writes it.
        **generate: Settings of `model.generate`, such as `max_new_tokens=128` and `do_sample=False` (the defaults), and
            what the chat template reads, such as `enable_thinking=False`.

    >>> import nbsal
    >>> notes, documents = nbsal.load("demo/notes"), ["Mara lives in Oslo now.", "Boris lives in Rouen."]
    >>> question = [{"role": "user", "content": "Where does Mara live?"}]
    >>> reply = answer(notes, question, documents=documents, unit="document", method="occlusion", progress=False)
    >>> reply.text, reply.matrix("word", "document").loc["Oslo"].idxmax()
    (' Mara lives in Oslo.', 'document 1')
    """
    subject = as_subject(subject)
    settings = ReplySettings.from_settings(
        subject.tokenizer, generate, documents=documents, layout=layout, unit=unit, number=number, template=template,
        tools=tools, seed=seed, batch_size=batch_size, hops=hops, check=check, progress=progress, cancel=cancel,
        on_token=on_token,
    )  # fmt: skip
    has_documents = bool(documents) or uses_tools(asked)
    if method is None and not isinstance(subject.model, StandIn):
        read_reply = read(subject, asked, reply, settings)
        name = default_for_reply(subject, has_documents, unit, hops, size_of(read_reply[0]))
        return explain_read({"": Explainer(subject, name)}, *read_reply, settings)[""]
    if method is None:
        method = default_for_reply(subject, has_documents, unit, hops)
    methods = {"": method} if isinstance(method, str | Method) else catalogue.name_methods(method)
    if not methods:
        raise InputError("No method is named. Pass one or more.", argument="method", value=method)
    explainers = {name: Explainer(subject, each) for name, each in methods.items()}
    answers = explain_reply(explainers, asked, reply, settings)
    return answers.get("", answers)
