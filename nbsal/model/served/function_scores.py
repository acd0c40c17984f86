"""The log-probabilities of replies from a function in the place of a server."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nbsal.model.served.alignment import Expected, reply_tokens
from nbsal.model.served.cache import checksum
from nbsal.model.served.endpoint import Endpoint
from nbsal.model.served.forms import BROKEN, ROUNDING, Token, logprob_of
from nbsal.model.served.queries import Query, decode, pieces_of
from nbsal.support.errors import InputError

FUNCTION = "a function"


@dataclass(frozen=True)
class FunctionScores:
    """Calls the function of an endpoint, and checks what it returns."""

    endpoint: Endpoint
    tokenizer: Any

    def keys(self, queries: Sequence[Query]) -> list[str]:
        identity = self.endpoint.identity
        return [
            checksum([FUNCTION, identity, self._prompt_of(each), pieces_of(self.tokenizer, each.reply_ids)])
            for each in queries
        ]

    def _prompt_of(self, query: Query) -> Any:
        """A prompt as a function gets it: a text, or messages where there is no tokenizer to render them."""
        if query.messages is None:
            return decode(self.tokenizer, query.ids)
        return [dict(message) for message in query.messages]

    def scores(self, queries: Sequence[Query]) -> list[Any]:
        """What the function returns for some prompts and replies."""
        assert callable(self.endpoint.url), "servers are sent requests"
        pairs = [(self._prompt_of(each), decode(self.tokenizer, each.reply_ids)) for each in queries]
        returned = self.endpoint.url(pairs)
        results = []
        try:
            for each, row in zip(queries, _as_list(returned), strict=True):
                results.append(self._row(each, _as_list(row)))
        except BROKEN as error:
            message = (
                f"The function must return, for {len(pairs)} pairs of a prompt and a reply, the log-probabilities of "
                f"the tokens of each reply; it returned {returned!r:.80}."
            )
            raise InputError(message, argument="url", value=returned) from error
        return results

    def _row(self, query: Query, row: Sequence[Any]) -> list[Any]:
        pieces = tuple(pieces_of(self.tokenizer, query.reply_ids))
        if row and not isinstance(row[0], tuple | list):
            if len(row) != len(pieces):
                raise ValueError("other tokens")
            return [[logprob_of(float(value)), 0, []] for value in row]
        tokens = [Token(str(text), None, logprob_of(float(value))) for text, value in row]
        return [plain(piece) for piece in reply_tokens(tokens, 0, Expected(pieces, None))]


def _as_list(values: Any) -> list[Any]:
    return list(values.tolist() if hasattr(values, "tolist") else values)


def plain(tokens: Sequence[Token]) -> list[Any]:
    """A token of the reply, or the tokens of a word, as JSON."""
    ranks = [_rank(token) for token in tokens]
    top = [list(likely) for likely in tokens[0].top] if tokens else []
    return [sum(token.logprob or 0.0 for token in tokens), max(ranks, default=0) if all(ranks) else 0, top]


def _rank(token: Token) -> int:
    """The rank of a token, from those before it where the server does not say; 0 if it gives none."""
    if token.rank is not None or not token.top or token.logprob is None:
        return token.rank or 0
    return 1 + sum(likely.logprob > token.logprob + ROUNDING * 1e-3 for likely in token.top)
