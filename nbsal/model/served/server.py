"""A served model as the rooms above see it: log-probabilities of replies, and replies, to prompts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from nbsal.model.served.alignment import Expected, reply_tokens
from nbsal.model.served.cache import checksum, damaged
from nbsal.model.served.calls import Call, Caller, CallEstimate
from nbsal.model.served.detection import STAND_IN, Unsuited, check_trial, suited
from nbsal.model.served.endpoint import Endpoint
from nbsal.model.served.forced import check_forceable, tokenizing
from nbsal.model.served.forms import (
    AT_ROOT,
    BROKEN,
    CHAT,
    COMPLETIONS,
    GENERATE,
    LARGEST,
    MODELS,
    ROOM,
    TGI,
    TOKENIZE,
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
from nbsal.model.served.http import ask
from nbsal.model.served.queries import Needs, Query, decode, pieces_of
from nbsal.model.served.word_tokenizer import WordTokenizer
from nbsal.model.served.written import tgi_parameters, written_text
from nbsal.support.errors import InputError, ModelError, ServerError
from nbsal.support.progress import Meter

SIZE = 4  # characters of a token, about
LONGEST_TOKEN = 256  # characters; that of most tokenizers is a row of 128 spaces
HINT = (
    'Pass number="agreement" to score by whether words of the reply stay the same when the model writes it again '
    "without a source, which needs no log-probabilities"
)


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

    def models(self, meter: Meter) -> list[str]:
        """The names of the models that the server lists."""

        def read(reply: Any) -> list[str]:
            try:
                return [str(entry["id"]) for entry in reply["data"]]
            except BROKEN:
                raise ServerError(f"The server {self.endpoint.address} lists no models at {MODELS}.") from None

        send = partial(ask, self.endpoint, self._url(MODELS), None, ROOM, read)
        (names,) = self.caller.results([Call(checksum([self.endpoint.address, MODELS]), send)], meter)
        return list(names)

    def scores(self, queries: Sequence[Query], meter: Meter) -> list[list[Score]]:
        """The score of each token of the reply to each prompt; ModelError where a server gives none."""
        if not queries:
            return []
        if self.is_function:
            function = self._function
            results = self.caller.results_of(function.scores, function.keys(queries), queries, meter)
        else:
            form = self.form(queries[0], meter)
            self._tokenize(form, queries, meter)
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
            if self._may_tokenize(need):
                name = f"the tokens of {need.unwritten}" if need.unwritten else self._tokenizing(need.queries[0]).key
                sizes[name] = need.longest
        answered = self.caller.answered(list(sizes))
        missing = [size for key, size in sizes.items() if key not in answered]
        detecting = (
            0 if self.is_function else max((self._detecting(need) for need in needs if not need.agreement), default=0)
        )
        tokens = sum(missing) + detecting * max(sizes.values(), default=0)
        return CallEstimate(len(missing) + detecting, tokens)

    def _detecting(self, need: Needs) -> int:
        """How many requests trying the forms may take."""
        reads = self._reads(need.queries[0])
        return 0 if self._detected_form(reads) else sum(1 + form.tokenizes for form in forms(reads))

    def _may_tokenize(self, need: Needs) -> bool:
        """Whether the server may have to be asked for the tokens of a reply."""
        if need.agreement or self.is_function:
            return False
        form = self._detected_form(reads := self._reads(need.queries[0]))
        return any(form.tokenizes for form in ([form] if form else forms(reads)))

    def _tokenizing(self, query: Query) -> Call:
        return tokenizing(self.endpoint, self._url(TOKENIZE), self._decode(query.reply_ids))

    def _server_ids(self, query: Query) -> tuple[int, ...] | None:
        """The server's ids of a reply, if it was asked for them before."""
        key = self._tokenizing(query).key
        ids = self.caller.answered([key]).get(key)
        return None if ids is None else tuple(ids)

    def _tokenize(self, form: Form, queries: Sequence[Query], meter: Meter) -> None:
        """Ask the server for the tokens of each reply, where it needs them to be made to write it."""
        if form.tokenizes:
            self.caller.results([self._tokenizing(each) for each in queries], meter.part(0, 1))

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
        if detected := self._detected_form(reads := self._reads(example)):
            return detected
        refusals = dict[Form, ServerError]()
        for form in forms(reads):
            if all(other.path != form.path or error.status != 404 for other, error in refusals.items()):
                if not (refusal := self._try(form, example, meter)):
                    self._forms[reads] = form
                    return form
                refusals[form] = refusal
        if all(error.status == 404 for error in refusals.values()):
            raise ServerError(f"The server {self.endpoint.address} {next(iter(refusals.values()))}.", status=404)
        reasons = dict.fromkeys(f"{form.name}: {error}" for form, error in refusals.items())
        needs = " Messages need the model's tokenizer (tokenizer=...), unless the server is vLLM or llama.cpp."
        chat = needs if reads == "chat" else ""
        problem = f"{self.description} gives no log-probabilities of a reply ({'; '.join(reasons)})."
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

    def _try(self, form: Form, example: Query, meter: Meter) -> ServerError | None:
        """Why a form cannot be used; None if it can, which is kept: a run that goes on does not ask again."""
        trial = self._trial(form, example)

        def send() -> bool:
            check_trial(form, *self._ask(form, trial))
            return True

        try:
            self._tokenize(form, [trial], meter)
            self.caller.results([Call(self._detection_key(form), partial(suited, send))], meter.part(0, 1))
        except ServerError as error:
            if not isinstance(error, Unsuited) and error.status != 500:
                raise
            return error
        return None

    def _trial(self, form: Form, example: Query) -> Query:
        """What a form is tried with, where no reply is known or should be forced."""
        ids = example.ids
        if example.messages is not None and example.reply_ids:
            return example
        if form.forces or example.messages is not None:
            return replace(example, reply_ids=tuple(self.tokenizer(STAND_IN, add_special_tokens=False)["input_ids"]))
        # The end of the prompt: what follows it is not the end of a text.
        return Query(ids[:-1], ids[-1:]) if len(ids) > 1 else example

    def _ask(self, form: Form, query: Query) -> tuple[list[Token], int, Expected]:
        """The server's tokens of prompt and reply, how many may follow, and what they must be."""
        question, expected = self._question(form, query)
        body = self._body(form, question)
        most = largest_reply(question, self.endpoint.top)
        tokens, generated = ask(self.endpoint, self._url(form.path), body, most, partial(read_tokens, form))
        return tokens, generated, expected

    def _call(self, form: Form, query: Query) -> Call:
        question, expected = self._question(form, query)

        def send() -> list[Any]:
            tokens, generated, _ = self._ask(form, query)
            return [plain(piece) for piece in reply_tokens(tokens, generated, expected)]

        body = self._body(form, question)
        return Call(checksum([self.endpoint.address, form.path, body, expected.pieces]), send, query.ids)

    def _body(self, form: Form, question: Question) -> dict[str, Any]:
        return self._named(form.path, form.body(question, self.endpoint.top))

    def _named(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return body if path in AT_ROOT else {"model": self.endpoint.model, **body}

    def _url(self, path: str) -> str:
        base = urlsplit(str(self.endpoint.url)).path
        return (base.removesuffix("/v1") if path in AT_ROOT else base) + path

    def _question(self, form: Form, query: Query) -> tuple[Question, Expected]:
        """What is sent, and what must come back."""
        pieces = tuple(pieces_of(self.tokenizer, query.reply_ids))
        special = tuple(self.tokenizer.all_special_tokens)
        if form.tokenizes:
            prompt = self._decode(query.ids) if query.messages is None else query.messages
            return Question(prompt, self._server_ids(query) or ()), Expected(pieces, None)
        if form.forces:
            check_forceable(pieces, self._decode(query.reply_ids), special)
            return Question(query.ids, query.reply_ids), Expected(pieces, None, query.reply_ids, special)
        if query.messages is not None:
            return Question(query.messages, self._decode(query.reply_ids)), Expected(pieces, None)
        ids = query.ids + query.reply_ids
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
                path, body = GENERATE, {"inputs": prompt, "parameters": tgi_parameters(settings)}
        body = self._named(path, body)
        most = settings["max_tokens"] * LONGEST_TOKEN
        key = checksum([self.endpoint.address, path, body])
        return Call(key, lambda: self._read_text(path, body, most), query.ids)

    def _read_text(self, path: str, body: Any, most: int) -> str:
        text = ask(self.endpoint, self._url(path), body, ROOM + most, partial(written_text, path))
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
        messages = [f"{each['content']}{each.get('tool_calls', '')}" for each in query.messages or ()]
        texts = messages or [self._decode(query.ids)]
        return -(-sum(map(len, [*texts, self._decode(query.reply_ids)])) // SIZE)


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
