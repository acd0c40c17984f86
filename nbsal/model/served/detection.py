"""Whether a server knows a way of asking: what it is tried with, and what its reply must show."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from nbsal.model.served.alignment import Expected, reply_tokens
from nbsal.model.served.calls import Failure
from nbsal.model.served.forms import ROUNDING, Form, Token
from nbsal.support.errors import ServerError

UNSUPPORTED = (400, 404, 405, 415, 422, 501)  # what servers say of a way of asking that they do not know
STAND_IN = " not"  # in the place of a reply that is not written yet; no prompt makes it certain
T = TypeVar("T")


class Unsuited(ServerError):
    """A server that does not know a form, or does not do what the form says."""


def suited(send: Callable[[], T]) -> T:
    """What a request returns, or Unsuited; Failure where another form would fail as well."""
    try:
        return send()
    except Failure as error:
        if error.status not in UNSUPPORTED or error.absent:
            raise
        refusal = Unsuited(str(error), status=error.status)
    except ServerError as error:
        refusal = Unsuited(str(error), status=error.status)
    raise refusal


def check_trial(form: Form, tokens: Sequence[Token], generated: int, expected: Expected) -> None:
    """That numbers belong to the tokens beside them, and are those of the model."""
    reply_tokens(tokens[: len(tokens) - generated], 0, expected)
    last = tokens[-1]
    if generated and not (last.top and last.logprob is not None and last.logprob >= last.top[0].logprob - ROUNDING):
        raise ServerError("its log-probabilities are those of other tokens than it says.")
    if form.forces and not any(token.logprob for token in tokens):
        raise ServerError("its log-probabilities are those under the grammar, where only one token is possible.")
