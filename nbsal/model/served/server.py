"""A served model as the rooms above see it: log-probabilities of replies, and replies, to prompts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from nbsal.model.served.alignment import Expected, reply_tokens
from nbsal.model.served.cache import checksum, damaged
from nbsal.model.served.calls import Call, Caller, Failure, Plan
from nbsal.model.served.endpoint import Endpoint
from nbsal.model.served.forms import (
    BROKEN,
    CHAT,
    COMPLETIONS,
    GENERATE,
    LARGEST,
    ROUNDING,
    TGI,
    Form,
    Likely,
    Question,
    Token,
    forms,
    logprob_of,
    read_tokens,
)
from nbsal.model.served.http import post
from nbsal.model.served.word_tokenizer import WordTokenizer
from nbsal.support.errors import InputError, ModelError, ServerError
from nbsal.support.progress import Meter

UNSUPPORTED = (400, 404, 405, 415, 422, 501)  # what servers say of a way of asking that they do not know
SIZE = 4  # characters of a token, about
LONGEST_TOKEN = 256  # characters; that of most tokenizers is a row of 128 spaces
FUNCTION = "a function"
HINT = (
    'Pass number="agreement" to score by whether words of the reply stay the same when the model writes it again '
    "without a source, which needs no log-probabilities"
)


class _Unsuited(ServerError):
    """A server that does not know a form, or does not do what the form says."""


class Score(NamedTuple):
    """A token of a reply, or a word: its log-probability, its rank (0 if unknown), and the likeliest tokens there."""

    logprob: float
    rank: int
    top: tuple[Likely, ...]


@dataclass(frozen=True)
class Query:
    """A prompt with a reply, as ids of the subject's tokenizer; with `messages`, those stand for the prompt."""

    ids: tuple[int, ...]
    reply_ids: tuple[int, ...]
    messages: tuple[Mapping[str, Any], ...] | None = None


class Server:
    """The endpoint with the tokenizer of its model, or one of words."""

    # No attributes to look into: what was asked before does not change the model.
    __slots__ = ("_forms", "caller", "endpoint", "tokenizer")

    def __init__(self, endpoint: Endpoint, tokenizer: Any = None) -> None:
        self.endpoint = endpoint
        self.tokenizer = WordTokenizer() if tokenizer is None else tokenizer
        self.caller = Caller(endpoint)
        self._forms: dict[str, Form] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        # With its tokenizer, which may be one of words and number them.
        return Server, (self.endpoint, self.tokenizer)

    @property
    def by_words(self) -> bool:
        """Whether words stand for tokens, since no tokenizer is at hand."""
        return isinstance(self.tokenizer, WordTokenizer)

    @property
    def is_function(self) -> bool:
        """Whether a function is in the place of the server."""
        return callable(self.endpoint.url)

    @property
    def provenance(self) -> dict[str, Any]:
        """Where the model is, and how it is asked."""
        names = [form.name for form in self._forms.values()]
        interface = FUNCTION if self.is_function else ", ".join(names) or "replies alone"
        units = {"tokens": "words, since no tokenizer was passed"} if self.by_words else {}
        return {"dtype": "the server's", "server": self.endpoint.address, "interface": interface} | units

    @property
    def description(self) -> str:
        """For messages."""
        return f"{self.endpoint.model} at {self.endpoint.address}"

    def scores(self, queries: Sequence[Query], meter: Meter) -> list[list[Score]]:
        """The score of each token of the reply to each prompt; ModelError where a server gives none."""
        if not queries:
            return []
        if self.is_function:
            keys = [self._function_key(each) for each in queries]
            results = self.caller.results_of(self._call_function, keys, queries, meter)
        else:
            form = self.form(queries[0], meter)
            results = self.caller.results([self._call(form, each) for each in queries], meter)
        scores = [_scores_in(row, each) for row, each in zip(results, queries, strict=True)]
        if None in scores:
            raise damaged(self.endpoint.cache)
        return [each for each in scores if each is not None]

    def plan(self, queries: Sequence[Query], writes: int = 0, longest: int = 0) -> Plan:
        """What scoring would send, and `writes` replies; one that is still to be written has up to `longest` tokens."""
        unique = {self._size_key(each): each for each in queries}
        form, detecting = None, 0
        if self.is_function:
            keys = [self._function_key(each) for each in unique.values()]
        elif form := self._detected_form(self._reads(queries[0])):
            keys = [self._call(form, each).key for each in unique.values()]
        else:
            keys, detecting = list(unique), 1
        sizes = [self._size(each) for each in unique.values()]
        mean, missing = sum(sizes) / len(sizes), len(unique) - len(self.caller.answered(keys))
        return Plan(missing + writes + detecting, round((missing + writes + detecting) * (mean + longest)))

    def plan_writing(self, queries: Sequence[Query], settings: Mapping[str, Any] | None, longest: int) -> Plan:
        """What writing the reply to each prompt again would send; without settings, it is still to be written once."""
        prompts = list({self._size_key(each): replace(each, reply_ids=()) for each in queries}.values())
        keys = [] if settings is None else [self._writing(prompt, settings).key for prompt in prompts]
        count = len(prompts) + 1 if settings is None else len(prompts) - len(self.caller.answered(keys))
        size = sum(map(self._size, queries)) / len(queries) + longest
        return Plan(count, round(count * size))

    def write(self, prompts: Sequence[Query], settings: Mapping[str, Any], meter: Meter) -> list[str]:
        """The reply of the model to each prompt; `settings` are those of completions."""
        if self.is_function:
            message = f"{self.endpoint.address} scores replies and writes none. Pass reply=..."
            raise InputError(message, argument="reply", value=None)
        texts = self.caller.results([self._writing(p, settings) for p in prompts], meter)
        if not all(isinstance(text, str) for text in texts):
            raise damaged(self.endpoint.cache)
        return texts

    def written(self, prompt: Query, settings: Mapping[str, Any]) -> str | None:
        """The reply to a prompt that was written before."""
        if self.is_function:
            return None
        self._detected_form(self._reads(prompt))
        call = self._writing(prompt, settings)
        return self.caller.answered([call.key]).get(call.key)

    def form(self, example: Query, meter: Meter) -> Form:
        """How the server is asked for log-probabilities, detected once by asking about a prompt."""
        reads, reasons = self._reads(example), []
        if detected := self._detected_form(reads):
            return detected
        for form in forms(reads):
            if not (reason := self._try(form, example, meter)):
                self._forms[reads] = form
                return form
            reasons.append(f"{form.name}: {reason}")
        needs = " Messages need the model's tokenizer (tokenizer=...), unless the server is vLLM."
        chat = needs if reads == "chat" else ""
        problem = f"{self.description} gives no log-probabilities of a reply ({'; '.join(dict.fromkeys(reasons))})."
        raise ModelError(f"{problem}{chat} {HINT}.", part="logprobs")

    def _detected_form(self, reads: str) -> Form | None:
        """The form that was detected before, in this process or in the cache."""
        if reads not in self._forms:
            keys = {self._detection_key(form): form for form in forms(reads)}
            answered = self.caller.answered(list(keys))
            detected = next((form for key, form in keys.items() if answered.get(key)), None)
            if detected is None:
                return None
            self._forms[reads] = detected
        return self._forms[reads]

    def _reads(self, query: Query) -> str:
        return "chat" if query.messages is not None else "text" if self.by_words else "ids"

    def _detection_key(self, form: Form) -> str:
        return checksum([self.endpoint.address, self.endpoint.model, form.name, form.reads])

    def _try(self, form: Form, example: Query, meter: Meter) -> str:
        """Why a form cannot be used; blank if it can, which is kept: a run that goes on does not ask again."""
        # The end of the prompt in the place of the reply: what follows it is not the end of a text.
        ids = example.ids
        cut = Query(ids[:-1], ids[-1:]) if example.messages is None and len(ids) > 1 else example

        def send() -> bool:
            try:
                tokens, generated, expected = self._ask(form, cut)
                self._check_generated(tokens, generated, expected)
                return True
            except Failure as error:
                if error.status not in UNSUPPORTED:
                    raise
                problem = str(error)
            except ServerError as error:
                problem = str(error)
            raise _Unsuited(problem)

        try:
            self.caller.results([Call(self._detection_key(form), send)], meter.part(0, 1))
        except ServerError as error:
            if not isinstance(error, _Unsuited) and error.status != 500:
                raise
            return str(error)
        return ""

    def _check_generated(self, tokens: Sequence[Token], generated: int, expected: Expected) -> None:
        """That numbers belong to the tokens beside them: of those, a generated one is the likeliest."""
        reply_tokens(tokens[: len(tokens) - generated], 0, expected)
        last = tokens[-1]
        if generated and not (last.top and last.logprob is not None and last.logprob >= last.top[0].logprob - ROUNDING):
            raise ServerError("its log-probabilities are those of other tokens than it says.")

    def _ask(self, form: Form, query: Query) -> tuple[list[Token], int, Expected]:
        """The server's tokens of prompt and reply, how many may follow, and what they must be."""
        question, expected = self._question(form, query)
        reply = post(self.endpoint, self._path(form.path), self._body(form, question))
        return *read_tokens(form, reply), expected

    def _call(self, form: Form, query: Query) -> Call:
        question, expected = self._question(form, query)

        def send() -> list[Any]:
            tokens, generated, _ = self._ask(form, query)
            return [_plain(piece) for piece in reply_tokens(tokens, generated, expected)]

        body = self._body(form, question)
        return Call(checksum([self.endpoint.address, form.path, body, expected.pieces]), send)

    def _body(self, form: Form, question: Question) -> dict[str, Any]:
        return self._named(form.path, form.body(question, self.endpoint.top))

    def _named(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return body if path == GENERATE else {"model": self.endpoint.model, **body}

    def _path(self, path: str) -> str:
        base = urlsplit(str(self.endpoint.url)).path
        return (base.removesuffix("/v1") if path == GENERATE else base) + path

    def _question(self, form: Form, query: Query) -> tuple[Question, Expected]:
        """What is sent, and what must come back."""
        pieces = tuple(self._pieces(query.reply_ids))
        if query.messages is not None:
            return Question(query.messages, self._decode(query.reply_ids)), Expected(pieces, None)
        ids = query.ids + query.reply_ids
        special = tuple(self.tokenizer.all_special_tokens)
        if form.reads == "ids":
            prompt = self._decode(query.ids)
            return Question(query.ids, query.reply_ids), Expected(pieces, prompt, ids, special)
        if self.by_words:
            prompt, reply = self._decode(query.ids), self._decode(query.reply_ids)
            return Question(prompt, reply), Expected(pieces, prompt)
        return Question(self._text_of(ids)), Expected(pieces, self._decode(query.ids), ids, special)

    def _pieces(self, ids: Sequence[int]) -> list[str]:
        return [self._decode([index]) for index in ids]

    def _decode(self, ids: Sequence[int]) -> str:
        settings = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
        return str(self.tokenizer.decode(list(ids), **settings))

    def _text_of(self, ids: tuple[int, ...]) -> str:
        """A text that the server's tokenizer, which may write a first token, reads as these ids."""
        for start in (0, 1):
            text = self._decode(ids[start:])
            if tuple(self.tokenizer(text, verbose=False)["input_ids"]) == ids:
                return text
        message = (
            "This server reads texts, and no text has the tokens of this prompt and reply. Use way='text', and a reply "
            "that begins with a space or a new line."
        )
        raise ServerError(message)

    def _writing(self, query: Query, settings: Mapping[str, Any]) -> Call:
        form = self._forms.get(self._reads(query))
        if query.messages is not None:
            path, body = CHAT, {"messages": list(query.messages), **settings}
        else:
            by_ids = form is not None and form.reads == "ids"
            prompt = query.ids if by_ids else self._text_of(query.ids) if not self.by_words else self._decode(query.ids)
            path, body = COMPLETIONS, {"prompt": prompt, **settings}
            if form is not None and form.name == TGI.name:
                limits = {"max_new_tokens": settings["max_tokens"], "do_sample": bool(settings.get("temperature"))}
                path, body = GENERATE, {"inputs": prompt, "parameters": limits | _tgi_settings(settings)}
        body = self._named(path, body)
        most = settings["max_tokens"] * LONGEST_TOKEN
        return Call(checksum([self.endpoint.address, path, body]), lambda: self._read_text(path, body, most))

    def _read_text(self, path: str, body: Any, most: int) -> str:
        reply = post(self.endpoint, self._path(path), body)
        try:
            if path == GENERATE:
                text = (reply[0] if isinstance(reply, list) else reply)["generated_text"]
            else:
                text = reply["choices"][0]["text"] if path == COMPLETIONS else reply["choices"][0]["message"]["content"]
        except BROKEN:
            text = None
        if not isinstance(text, str):
            raise ServerError(f"The server {self.endpoint.address} returned no text.")
        if len(text) > most:
            message = f"returned {len(text):,} characters, more than the tokens that it was asked for can have."
            raise ServerError(f"The server {self.endpoint.address} {message}")
        return text

    def _size(self, query: Query) -> int:
        """About how many tokens a prompt has with its reply."""
        if not self.by_words:
            return len(query.ids) + len(query.reply_ids)
        texts = [str(m["content"]) for m in query.messages] if query.messages else [self._decode(query.ids)]
        return -(-sum(map(len, [*texts, self._decode(query.reply_ids)])) // SIZE)

    def _size_key(self, query: Query) -> str:
        return checksum([query.ids, query.reply_ids, query.messages])

    def _function_key(self, query: Query) -> str:
        return checksum([FUNCTION, self.endpoint.model, self._prompt_of(query), self._pieces(query.reply_ids)])

    def _prompt_of(self, query: Query) -> Any:
        """A prompt as a function gets it: a text, or messages where there is no tokenizer to render them."""
        return self._decode(query.ids) if query.messages is None else [dict(message) for message in query.messages]

    def _call_function(self, queries: Sequence[Query]) -> list[Any]:
        """What the function returns for some prompts and replies."""
        assert callable(self.endpoint.url), "servers are sent requests"
        pairs = [(self._prompt_of(each), self._decode(each.reply_ids)) for each in queries]
        returned = self.endpoint.url(pairs)
        results = []
        try:
            for each, row in zip(queries, _as_list(returned), strict=True):
                results.append(self._function_scores(each, _as_list(row)))
        except BROKEN as error:
            message = (
                f"The function must return, for {len(pairs)} pairs of a prompt and a reply, the log-probabilities of "
                f"the tokens of each reply; it returned {returned!r:.80}."
            )
            raise InputError(message, argument="url", value=returned) from error
        return results

    def _function_scores(self, query: Query, row: Sequence[Any]) -> list[Any]:
        pieces = tuple(self._pieces(query.reply_ids))
        if row and not isinstance(row[0], tuple | list):
            if len(row) != len(pieces):
                raise ValueError("other tokens")
            return [[logprob_of(float(value)), 0, []] for value in row]
        tokens = [Token(str(text), None, logprob_of(float(value))) for text, value in row]
        return [_plain(piece) for piece in reply_tokens(tokens, 0, Expected(pieces, None))]


def _as_list(values: Any) -> list[Any]:
    return list(values.tolist() if hasattr(values, "tolist") else values)


def _plain(tokens: Sequence[Token]) -> list[Any]:
    """A token of the reply, or the tokens of a word, as JSON."""
    ranks = [_rank(token) for token in tokens]
    top = [list(likely) for likely in tokens[0].top] if tokens else []
    return [sum(token.logprob or 0.0 for token in tokens), max(ranks, default=0) if all(ranks) else 0, top]


def _scores_in(row: Any, query: Query) -> list[Score] | None:
    """The scores of a reply as `_plain` wrote them; None if a cache holds something else."""
    try:
        scores = [
            Score(
                logprob_of(value), rank, tuple(Likely(text, index, logprob_of(likely)) for text, index, likely in top)
            )
            for value, rank, top in row
        ]
        fits = len(scores) == len(query.reply_ids) and all(0 <= score.rank < LARGEST for score in scores)
        return scores if fits else None
    except (*BROKEN, ServerError):
        return None


def _rank(token: Token) -> int:
    """The rank of a token, from those before it where the server does not say; 0 if it gives none."""
    if token.rank is not None or not token.top or token.logprob is None:
        return token.rank or 0
    return 1 + sum(likely.logprob > token.logprob + ROUNDING * 1e-3 for likely in token.top)


def _tgi_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    names = {"temperature": "temperature", "top_p": "top_p", "seed": "seed", "stop": "stop"}
    return {new: settings[old] for old, new in names.items() if settings.get(old)}
