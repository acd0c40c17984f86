"""A prompt with a reply whose model is behind a server, which is asked about the prompt without some of its parts."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

import numpy as np
import torch
from torch import Tensor

from nbsal.model.served.forms import Likely
from nbsal.model.served.queries import Query
from nbsal.model.served.server import Score, Server
from nbsal.model.target import DIVERGENCE
from nbsal.model.text.tokens import Row, Span
from nbsal.support.arrays import Flags, Floats
from nbsal.support.errors import ModelError
from nbsal.support.progress import Meter

ROOM = 16  # tokens that a reply may be longer when it is written again


@dataclass(frozen=True, eq=False)
class ServedText:
    """A prompt with a reply, of which a server gives the numbers of the reply's tokens, [number, token].

    `query` is what the server is asked for a subset of tokens.
    """

    server: Server
    row: Row
    start: int  # the position of the reply's first token
    query: Callable[[Flags], Query]
    compares: bool = False

    @property
    def source(self) -> Hashable:
        return self.row.ids, self.start, self.query, self.compares, type(self)

    @property
    def may_leave_out(self) -> bool:
        return False

    def whole(self) -> Sequence[Score]:
        """What the server says with nothing hidden."""
        (scores,) = self.server.scores([self.query(np.ones(len(self.row), dtype=bool))], Meter(None))
        return scores

    def ask(self, subsets: Sequence[Flags], whole: Sequence[Score] | None, meter: Meter) -> list[Tensor]:
        """The numbers of the reply for each subset, [number, token]; `whole` is what divergences are from."""
        answers = self.server.scores([self.query(subset) for subset in subsets], meter)
        return [self._numbers(scores, whole) for scores in answers]

    def _numbers(self, scores: Sequence[Score], whole: Sequence[Score] | None) -> Tensor:
        rows = [[score.logprob for score in scores], [np.nan] * len(scores)]  # a server shows no logits
        if whole is not None:
            rows.append([-divergence(score, other) for score, other in zip(scores, whole, strict=True)])
        reply_ids = self.row.ids[self.start :]
        rows.append([_best(self.server, score, token) for score, token in zip(scores, reply_ids, strict=True)])
        return torch.tensor(rows, dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class RewrittenText(ServedText):
    """A prompt to which a server writes the reply again: 1 for each token whose word is written again, else 0.

    The server writes greedily. Words of both replies are matched in their order; a word that only moved to another
    place in it is not found again.
    """

    words: Sequence[tuple[str, Sequence[int]]] = field(kw_only=True)  # of the reply, with their tokens
    split: Callable[[str], list[Span]] = field(kw_only=True)  # a text into words

    def ask(self, subsets: Sequence[Flags], whole: Sequence[Score] | None, meter: Meter) -> list[Tensor]:
        queries = [self.query(subset) for subset in subsets]
        prompts = [Query(each.ids, (), each.messages) for each in queries]
        count = len(self.row.ids) - self.start
        return [self._agreement(text) for text in self.server.write(prompts, rewriting(count), meter)]

    def _agreement(self, text: str) -> Tensor:
        again = [text[slice(*span)] for span in self.split(text)]
        matcher = SequenceMatcher(None, [word for word, _ in self.words], again, autojunk=False)
        same = {block.a + i for block in matcher.get_matching_blocks() for i in range(block.size)}
        values = torch.ones(1, len(self.row.ids) - self.start, dtype=torch.float64)
        for number, (_, tokens) in enumerate(self.words):
            values[0, list(tokens)] = float(number in same)
        return values


def rewriting(tokens: int) -> dict[str, int]:
    """How a reply of so many tokens is written again: greedily, and with room for as many words in other tokens."""
    return {"max_tokens": 2 * tokens + ROOM, "temperature": 0}


def divergence(first: Score, second: Score) -> float:
    """The Jensen-Shannon divergence of the tokens that both name, all others as one: at most that of all tokens."""
    tables = [{(each.id, each.text): each.logprob for each in score.top} for score in (first, second)]
    shared = tables[0].keys() & tables[1].keys()
    if not shared and not (tables[0] and tables[1]):
        message = f"number={DIVERGENCE!r} needs the likeliest tokens at each place, which this server does not give."
        raise ModelError(message, part="top_logprobs")
    rows = np.exp([[table[name] for name in sorted(shared, key=str)] for table in tables]).reshape(2, -1)
    rest = np.clip(1 - rows.sum(1, keepdims=True), 0, None)
    both = np.concatenate((rows, rest), 1)
    entropies = [_entropy(each) for each in (both.mean(0), *both)]
    return max(0.0, float(entropies[0] - (entropies[1] + entropies[2]) / 2))


def other_tokens(server: Server, score: Score, token: int) -> list[tuple[int, Likely]]:
    """The likeliest tokens other than one of the reply, with their ids."""
    word, others = str(server.tokenizer.decode([token])).strip(), []
    for likely in score.top:
        index = likely.id if _is_known(server, likely.id) else _token_id(server, likely.text)
        begins = server.by_words and bool(likely.text.strip()) and word.startswith(likely.text.strip())
        if index is not None and index != token and not begins:
            others.append((index, likely))
    return others


def _entropy(probabilities: Floats) -> float:
    positive = probabilities[probabilities > 0]
    return float(-(positive * np.log(positive)).sum())


def _best(server: Server, score: Score, token: int) -> int:
    """The likeliest token in place of one of the reply; that one, if the server names no other that is known."""
    others = other_tokens(server, score, token)
    return others[0][0] if others and (score.rank != 1 and others[0][1].logprob > score.logprob) else token


def _is_known(server: Server, index: int | None) -> bool:
    """Whether an id of the server is one of our tokenizer's; words have numbers of their own."""
    return index is not None and not server.by_words and 0 <= index < len(server.tokenizer)


def _token_id(server: Server, text: str) -> int | None:
    """The token with a text, if that is one."""
    ids = server.tokenizer(text, add_special_tokens=False)["input_ids"] if text else []
    return int(ids[0]) if len(ids) == 1 else None
