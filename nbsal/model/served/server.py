"""A served model as the rooms above see it: log-probabilities of replies, and replies, to prompts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from nbsal.model.served.alignment import Expected, reply_tokens
from nbsal.model.served.cache import checksum, damaged
from nbsal.model.served.calls import Call, Caller, CallEstimate, Failure
from nbsal.model.served.endpoint import Endpoint
from nbsal.model.served.forms import (
    BROKEN,
    CHAT,
    COMPLETIONS,
    GENERATE,
    LARGEST,
    ROOM,
    ROUNDING,
    TGI,
    Form,
    Likely,
    Question,
    Token,
    forms,
    largest_reply,
    logprob_of,
    read_tokens,
)
from nbsal.model.served.function_scores import FUNCTION, FunctionScores, plain
from nbsal.model.served.http import post
from nbsal.model.served.queries import Needs, Query, decode, pieces_of
from nbsal.model.served.word_tokenizer import WordTokenizer
from nbsal.support.errors import InputError, ModelError, ServerError
from nbsal.support.progress import Meter

UNSUPPORTED = (400, 404, 405, 415, 422, 501)  # what servers say of a way of asking that they do not know
SIZE = 4  # characters of a token, about
LONGEST_TOKEN = 256  # characters; that of most tokenizers is a row of 128 spaces
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
    def _function(self) -> FunctionScores:
        return FunctionScores(self.endpoint, self.tokenizer)

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
            function = self._function
            results = self.caller.results_of(function.scores, function.keys(queries), queries, meter)
        else:
            form = self.form(queries[0], meter)
            results = self.caller.results([self._call(form, each) for each in queries], meter)
        scores = [_scores_in(row, each) for row, each in zip(results, queries, strict=True)]
        if None in scores:
            raise damaged(self.endpoint.cache.path)
        return [each for each in scores if each is not None]

    def plan(self, needs: Sequence[Needs]) -> CallEstimate:
        """The most that would be sent for some replies, unless requests fail; what several need is sent once."""
        sizes: dict[str, int] = {}  # of each call, in tokens
        for need in needs:
            keys = self._keys(need)
            sizes |= {key: self._size(each) + need.longest for key, each in zip(keys, need.queries, strict=True)}
            if need.unwritten:
                sizes[need.unwritten] = self._size(need.queries[0]) + need.longest
        answered = self.caller.answered(list(sizes))
        missing = [size for key, size in sizes.items() if key not in answered]
        detecting = (
            0 if self.is_function else max((self._detecting(need) for need in needs if not need.agreement), default=0)
        )
        tokens = sum(missing) + detecting * max(sizes.values(), default=0)
        return CallEstimate(len(missing) + detecting, tokens)

    def _detecting(self, need: Needs) -> int:
        """How many forms may have to be tried."""
        reads = self._reads(need.queries[0])
        return 0 if self._detected_form(reads) else len(forms(reads))

    def _keys(self, need: Needs) -> list[str]:
        """What tells the calls for a reply from others; of a reply that is known, their keys in the cache."""
        queries, form = need.queries, None
        if need.agreement:
            queries = [replace(each, reply_ids=()) for each in queries]
            if need.again is not None:
                return [self._writing(each, need.again).key for each in queries]
        elif not need.unwritten and self.is_function:
            return self._function.keys(queries)
        elif not need.unwritten and (form := self._detected_form(self._reads(queries[0]))):
            return [self._call(form, each).key for each in queries]
        return [checksum([each.ids, each.reply_ids, each.messages, need.unwritten]) for each in queries]

    def write(self, prompts: Sequence[Query], settings: Mapping[str, Any], meter: Meter) -> list[str]:
        """The reply of the model to each prompt; `settings` are those of completions."""
        if self.is_function:
            message = f"{self.endpoint.address} scores replies and writes none. Pass reply=..."
            raise InputError(message, argument="reply", value=None)
        texts = self.caller.results([self._writing(p, settings) for p in prompts], meter)
        if not all(isinstance(text, str) for text in texts):
            raise damaged(self.endpoint.cache.path)
        return texts

    def written(self, prompt: Query, settings: Mapping[str, Any]) -> tuple[str | None, str]:
        """The reply to a prompt that was written before, and what tells it from others."""
        if self.is_function:
            return None, "reply"
        self._detected_form(self._reads(prompt))
        key = self._writing(prompt, settings).key
        return self.caller.answered([key]).get(key), key

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
        body = self._body(form, question)
        most = largest_reply(question, self.endpoint.top)
        tokens, generated = post(self.endpoint, self._url(form.path), body, most, partial(read_tokens, form))
        return tokens, generated, expected

    def _call(self, form: Form, query: Query) -> Call:
        question, expected = self._question(form, query)

        def send() -> list[Any]:
            tokens, generated, _ = self._ask(form, query)
            return [plain(piece) for piece in reply_tokens(tokens, generated, expected)]

        body = self._body(form, question)
        return Call(checksum([self.endpoint.address, form.path, body, expected.pieces]), send)

    def _body(self, form: Form, question: Question) -> dict[str, Any]:
        return self._named(form.path, form.body(question, self.endpoint.top))

    def _named(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return body if path == GENERATE else {"model": self.endpoint.model, **body}

    def _url(self, path: str) -> str:
        base = urlsplit(str(self.endpoint.url)).path
        return (base.removesuffix("/v1") if path == GENERATE else base) + path

    def _question(self, form: Form, query: Query) -> tuple[Question, Expected]:
        """What is sent, and what must come back."""
        pieces = tuple(pieces_of(self.tokenizer, query.reply_ids))
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

    def _decode(self, ids: Sequence[int]) -> str:
        return decode(self.tokenizer, ids)

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
        text = post(self.endpoint, self._url(path), body, ROOM + most, partial(_written_text, path))
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


def _written_text(path: str, reply: Any) -> Any:
    """The text that a server wrote; None where there is none."""
    try:
        if path == GENERATE:
            return (reply[0] if isinstance(reply, list) else reply)["generated_text"]
        choice = reply["choices"][0]
        return choice["text"] if path == COMPLETIONS else choice["message"]["content"]
    except BROKEN:
        return None


def _scores_in(row: Any, query: Query) -> list[Score] | None:
    """The scores of a reply as `plain` wrote them; None if a cache holds something else."""
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


def _tgi_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    names = {"temperature": "temperature", "top_p": "top_p", "seed": "seed", "stop": "stop"}
    return {new: settings[old] for old, new in names.items() if settings.get(old)}
