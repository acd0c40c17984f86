"""What a page may change and request: checks of the messages that arrive from it.

A page may set the traits that are tagged `page=True`, and call the methods named `handle_NAME`. Its messages may come
from a notebook that others wrote, so that everything else is ignored or answered with an error.
"""

import inspect
import traceback
from collections.abc import Callable
from typing import Any, TypeGuard

import traitlets
from anywidget import AnyWidget

from nbsal.support.errors import InputError, NbsalError

MAX_CHARACTERS = 250_000  # of a message; a longer text can be set from Python
MAX_ENTRIES = 100_000  # of lists and dicts in a message
MAX_DEPTH = 8
MAX_NUMBER = 2**53  # the largest whole number that a page represents exactly
MAX_ERROR = 1000  # characters
MAX_ID = 100  # characters


class CheckedWidget(AnyWidget):
    """A widget whose page can set only traits tagged `page=True`; `error` says which of its values were refused."""

    error = traitlets.Unicode("").tag(sync=True)

    def set_state(self, sync_data: Any) -> None:
        """Set those traits that the page may change, if the new values are valid."""
        accepted: dict[str, Any] = {}
        refused: dict[str, str] = {}
        for name, trait in self.traits(sync=True, page=True).items() if isinstance(sync_data, dict) else ():
            if name in sync_data:
                try:
                    _check_change(self, trait, sync_data[name])
                    accepted[name] = sync_data[name]
                except traitlets.TraitError:
                    refused[name] = f"{name}={sync_data[name]!r:.60} is not a value of {type(self).__name__}."
                except Exception as error:  # validators meet any value
                    refused[name] = error_text(error)
        reasons = list(refused.values())
        try:
            super().set_state(accepted)
        except Exception as error:  # of an observer; comm handlers would swallow it
            reasons.append(error_text(error))
        if reasons:
            self.error = " ".join(reasons)
        if refused:
            self.send_state(set(refused))  # the page shows the values that hold


def find_request(view: AnyWidget, content: dict[str, Any]) -> Callable[[], Any]:
    """The call that answers a request {"ask": name, **arguments} of a page; InputError if there is none."""
    check_size(content, "message")
    arguments = {key: value for key, value in content.items() if key not in ("ask", "id")}
    method = f"handle_{content.get('ask')}"
    handler = None if hasattr(AnyWidget, method) else getattr(view, method, None)  # ipywidgets has such methods too
    if handler is None:
        raise InputError(f"Unknown request {content.get('ask')!r:.60}.", argument="ask", value=content.get("ask"))
    try:
        inspect.signature(handler).bind(**arguments)
    except TypeError as error:
        message = f"The request {content['ask']!r} does not have these arguments: {error}."
        raise InputError(message, argument="ask", value=arguments) from error
    return lambda: handler(**arguments)


def is_message_id(value: Any) -> TypeGuard[str]:
    """Whether a page may call a message that, so that it can be sent back."""
    return isinstance(value, str) and value.isascii() and len(value) <= MAX_ID


def check_size(value: Any, name: str) -> None:
    """Refuse a value that is no JSON, too large, or holds a number or character that could not be sent back."""
    characters = entries = 0
    rest = [(value, 0)]
    while rest:
        item, depth = rest.pop()
        if isinstance(item, str):
            characters += len(item)
        elif isinstance(item, list | tuple | dict):
            entries += len(item)
        elif isinstance(item, int | float):
            if abs(item) > MAX_NUMBER or item != item:
                message = f"{name} holds a number that is NaN or larger than {MAX_NUMBER:,}."
                raise InputError(message, argument=name, value=item)
        elif item is not None:
            raise InputError(f"{name} holds bytes or an object.", argument=name, value=item)
        if characters > MAX_CHARACTERS or entries > MAX_ENTRIES or depth > MAX_DEPTH:
            limits = f"{MAX_CHARACTERS:,} characters and {MAX_ENTRIES:,} entries"
            message = f"{name} is larger than the {limits} that a page may send. Set it from Python."
            raise InputError(message, argument=name, value=None)
        if isinstance(item, str) and any("\ud800" <= character <= "\udfff" for character in item):
            raise InputError(f"{name} contains a lone surrogate, which is not a character.", argument=name, value=item)
        if isinstance(item, dict):
            rest += [(part, depth + 1) for pair in item.items() for part in pair]
        elif isinstance(item, list | tuple):
            rest += [(part, depth + 1) for part in item]


def error_text(error: BaseException) -> str:
    """An error as text for the page; an unexpected error is also printed with its traceback."""
    if isinstance(error, NbsalError):
        return f"{error!s:.{MAX_ERROR}}"
    traceback.print_exception(error)
    return f"{type(error).__name__}: {error!s:.{MAX_ERROR}}"


def _check_change(view: AnyWidget, trait: Any, value: Any) -> None:
    """Raise an error unless the trait can have the value that a page sent."""
    check_size(value, trait.name)
    if isinstance(value, bool) and isinstance(trait, traitlets.Int | traitlets.Float):
        raise traitlets.TraitError("True and False are numbers in Python only.")
    from_json = trait.metadata.get("from_json")
    # The checks that assignment makes, without the assignment: inside set_state it would come before the last of them.
    trait._validate(view, value if from_json is None else from_json(value, view))
