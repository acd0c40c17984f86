"""A reply that a server wrote: what it is asked for, and where it stands."""

from collections.abc import Mapping
from typing import Any

from nbsal.model.served.forms import BROKEN, COMPLETIONS, GENERATE


def tgi_parameters(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of completions as Text Generation Inference names them."""
    limits = {"max_new_tokens": settings["max_tokens"], "do_sample": bool(settings.get("temperature"))}
    names = {"temperature": "temperature", "top_p": "top_p", "seed": "seed", "stop": "stop"}
    return limits | {new: settings[old] for old, new in names.items() if settings.get(old)}


def written_text(path: str, reply: Any) -> Any:
    """The text that a server wrote; None where there is none."""
    try:
        if path == GENERATE:
            return (reply[0] if isinstance(reply, list) else reply)["generated_text"]
        choice = reply["choices"][0]
        return choice["text"] if path == COMPLETIONS else choice["message"]["content"]
    except BROKEN:
        return None
