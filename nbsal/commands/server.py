"""What `nbsal doctor --endpoint` prints: what a server can do, and what a question costs."""

import argparse
from dataclasses import replace

import nbsal
from nbsal.model.served.queries import Query
from nbsal.model.served.server import Server
from nbsal.render import html
from nbsal.support.errors import InputError, ModelError
from nbsal.support.progress import Meter

ANY = "any"  # a name for a server that is asked for names
MOST = 8  # models that are listed
DOCUMENTS = ["Mara lives in Oslo now.", "Boris lives in Rouen.", "The keys to the attic are with Mara."]
MESSAGES = ({"role": "user", "content": "Where does Mara live?"},)
REPLY = "Mara lives in Oslo."
NONE = "no log-probabilities; use number='agreement', which compares replies word by word"


def check(options: argparse.Namespace) -> int:
    """Ask the server, and print what it says; return 1 if it gives no log-probabilities, else 0."""
    tokenizer = {} if options.tokenizer is None else {"tokenizer": options.tokenizer}
    endpoint = nbsal.Endpoint(options.endpoint, options.model or ANY, **tokenizer)
    names = Server(endpoint).models(Meter(None))
    _print("server", f"{endpoint.address}, {'with a key' if endpoint.key else 'without a key'}")
    _print("models", ", ".join(names[:MOST]) + (f" and {len(names) - MOST} more" if len(names) > MOST else ""))
    if not options.model and not names:
        message = "The server lists no model. Pass --model, the name under which it knows one."
        raise InputError(message, argument="--model", value=None)
    subject = nbsal.load(replace(endpoint, model=options.model or names[0]))
    server = subject.model.server
    _print("model", server.endpoint.model)
    forms = {"prompts": _form(server, _query(server)), "messages": _form(server, _query(server, MESSAGES))}
    rendered = "by the server" if server.by_words else "here, by the template of the tokenizer"
    for name, form in forms.items():
        _print(name, (form or NONE) + (f"; rendered {rendered}" if name == "messages" else ""))
    number = None if forms["messages"] else "agreement"
    explainer = nbsal.Explainer(subject, "occlusion")
    plan = explainer.plan_reply(list(MESSAGES), REPLY, documents=DOCUMENTS, unit="document", number=number)
    _print("a question", f"{plan}, with a reply and three short documents, by occlusion")
    return 0 if all(forms.values()) else 1


def _form(server: Server, query: Query) -> str | None:
    """How the server gives log-probabilities of a reply; None if it does not."""
    try:
        return server.form(query, Meter(None)).name
    except ModelError:
        return None


def _query(server: Server, messages: tuple[dict[str, str], ...] | None = None) -> Query:
    """A question as a prompt, or as messages where the server renders them."""
    ids = server.tokenizer(f"{MESSAGES[0]['content']} Answer:")["input_ids"]
    return Query(tuple(ids), (), messages if server.by_words else None)


def _print(name: str, text: str) -> None:
    print(f"  {name:14} {html.visible(text)}")
