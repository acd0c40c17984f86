"""How servers give the log-probabilities of a prompt's tokens: what each is sent, and where the numbers stand.

- vLLM: `prompt_logprobs` of completions and of chat completions (docs.vllm.ai, protocol of the OpenAI server).
- llama-cpp-python and older vLLM: `echo` with `logprobs`, as the legacy completions of OpenAI.
- Text Generation Inference: `decoder_input_details` of `/generate`, if started with --enable-prefill-logprobs.
- llama.cpp's own server: a `grammar` of token ids makes it write the reply, and its log-probabilities are those before
  the grammar. With a grammar of characters, it would choose other tokens for the same text.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from nbsal.support.errors import ServerError

LEAST = -9999.0  # a log-probability of nothing, as JSON can hold it; vLLM writes the same
ROUNDING = 1e-3  # by which a log-probability may be above 0
BROKEN = (LookupError, TypeError, ValueError, AttributeError, OverflowError)  # what reading an unexpected reply raises
LARGEST = 2**31  # more than any rank or id of a token
ROOM = 2**21  # bytes of a reply beside its tokens, such as those of a template
ENTRY = 128  # bytes of a token in a reply, with its numbers, at most
COMPLETIONS, CHAT, GENERATE, TOKENIZE = "/completions", "/chat/completions", "/generate", "/tokenize"
MODELS = "/models"
AT_ROOT = (GENERATE, TOKENIZE)  # not below /v1


class Likely(NamedTuple):
    """One of the likeliest tokens at a place."""

    text: str
    id: int | None
    logprob: float


class Token(NamedTuple):
    """A token as a server returns it; the first one of a text has no log-probability."""

    text: str
    id: int | None
    logprob: float | None
    rank: int | None = None
    top: tuple[Likely, ...] = ()


@dataclass(frozen=True)
class Question:
    """A prompt with a reply to be scored, or without one to be answered: token ids, a text, or messages of a chat."""

    prompt: tuple[int, ...] | str | tuple[Mapping[str, Any], ...]
    reply: tuple[int, ...] | str = ""

    @property
    def joined(self) -> Any:
        """Both as one text or one list of tokens."""
        return self.prompt + self.reply  # type: ignore[operator]

    @property
    def dialogue(self) -> list[Mapping[str, Any]]:
        """The messages, with the reply as the assistant's."""
        assert not isinstance(self.prompt, str)
        return [*self.prompt, {"role": "assistant", "content": self.reply}]


def largest_reply(question: Question, top: int) -> int:
    """The most bytes of a reply about a question: tokens have two bytes or more, and `top` rivals."""
    parts = [*(question.prompt if isinstance(question.prompt, tuple) else (question.prompt,)), question.reply]
    tokens = sum(1 if isinstance(part, int) else len(str(part).encode()) // 2 for part in parts)
    return ROOM + ENTRY * (top + 2) * tokens


@dataclass(frozen=True)
class Form:
    """A way of asking: whether prompts are "ids", "text" or "chat", the path, the body, and how its reply is read.

    `read` returns the tokens of prompt and reply, and how many generated tokens may follow them. A form that `forces` a
    reply returns the tokens of the reply alone, and needs their ids.
    """

    name: str
    reads: str
    path: str
    body: Callable[[Question, int], dict[str, Any]]
    read: Callable[[Any], tuple[list[Token], int]]
    forces: bool = False

    @property
    def tokenizes(self) -> bool:
        """Whether the server is asked for the ids of a reply, since no tokenizer is at hand."""
        return self.forces and self.reads != "ids"


def logprob_of(value: Any) -> float:
    """A log-probability, if it is one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value <= ROUNDING:  # NaN is not
        raise ServerError(f"The server returned {value!r:.40} as a log-probability, which is a number of at most 0.")
    return min(max(float(value), LEAST), 0.0)


def _best(entries: Sequence[Likely]) -> tuple[Likely, ...]:
    return tuple(sorted(entries, key=lambda entry: -entry.logprob))


def _vllm_body(question: Question, top: int) -> dict[str, Any]:
    return {"prompt": question.joined, "max_tokens": 1, "temperature": 0, "prompt_logprobs": top}


def _vllm_read(reply: Any) -> tuple[list[Token], int]:
    return [_vllm_token(entry) for entry in reply["choices"][0]["prompt_logprobs"]], 0


def _chat_body(question: Question, top: int) -> dict[str, Any]:
    whole = {"add_generation_prompt": False, "continue_final_message": True}
    return {"messages": question.dialogue, **whole, "max_tokens": 1, "temperature": 0, "prompt_logprobs": top}


def _chat_read(reply: Any) -> tuple[list[Token], int]:
    return [_vllm_token(entry) for entry in reply["prompt_logprobs"]], 0


def _vllm_token(entry: Any) -> Token:
    """The token of the prompt stands first in an entry, then the likeliest ones."""
    if entry is None:
        return Token("", None, None)
    (first, stated), *_ = entry.items()
    likely = [
        Likely(str(each.get("decoded_token") or ""), int(i), logprob_of(each["logprob"])) for i, each in entry.items()
    ]
    rank = stated.get("rank")
    rank = rank if isinstance(rank, int) and 0 < rank < LARGEST else None
    return Token(likely[0].text, int(first), likely[0].logprob, rank, _best(likely))


def _echo_body(question: Question, top: int) -> dict[str, Any]:
    # At least 1: some servers take 0 for as many as fit.
    return {"prompt": question.joined, "max_tokens": 1, "temperature": 0, "echo": True, "logprobs": top}


def _echo_read(reply: Any) -> tuple[list[Token], int]:
    content = reply["choices"][0]["logprobs"]
    texts, values, likeliest = content["tokens"], content["token_logprobs"], content.get("top_logprobs")
    likeliest = likeliest or [None] * len(texts)
    tokens = [
        Token(str(text), None, None if value is None else logprob_of(value), None, _echo_likely(likely or {}))
        for text, value, likely in zip(texts, values, likeliest, strict=True)
    ]
    return tokens, 1


def _echo_likely(likely: Mapping[str, Any]) -> tuple[Likely, ...]:
    return _best([Likely(str(text), None, logprob_of(value)) for text, value in likely.items()])


def _tgi_body(question: Question, top: int) -> dict[str, Any]:
    parameters = {"max_new_tokens": 1, "do_sample": False, "details": True, "decoder_input_details": True}
    return {"inputs": question.joined, "parameters": parameters}


def _tgi_read(reply: Any) -> tuple[list[Token], int]:
    content = reply[0] if isinstance(reply, list) else reply
    prefill = content["details"]["prefill"]
    return [
        Token(str(each["text"]), int(each["id"]), None if (value := each.get("logprob")) is None else logprob_of(value))
        for each in prefill
    ], 0


def _grammar_body(question: Question, top: int) -> dict[str, Any]:
    return {"prompt": question.prompt, **_forced(question.reply), "logprobs": top}


def _grammar_chat_body(question: Question, top: int) -> dict[str, Any]:
    return {"messages": question.prompt, **_forced(question.reply), "logprobs": True, "top_logprobs": top}


def _forced(ids: Sequence[Any]) -> dict[str, Any]:
    grammar = " ".join(f"<[{index}]>" for index in ids)
    return {"grammar": f"root ::= {grammar}", "max_tokens": len(ids), "temperature": 0, "cache_prompt": True}


def _grammar_read(reply: Any) -> tuple[list[Token], int]:
    entries = reply["choices"][0]["logprobs"]["content"]
    return [
        Token(str(each["token"]), int(each["id"]), logprob_of(each["logprob"]), None, _grammar_likely(each))
        for each in entries
    ], 0


def _grammar_likely(entry: Any) -> tuple[Likely, ...]:
    return _best([Likely(str(t["token"]), int(t["id"]), logprob_of(t["logprob"])) for t in entry["top_logprobs"]])


VLLM = Form("prompt_logprobs", "text", COMPLETIONS, _vllm_body, _vllm_read)
ECHO = Form("echo", "text", COMPLETIONS, _echo_body, _echo_read)
TGI = Form("decoder_input_details", "text", GENERATE, _tgi_body, _tgi_read)
VLLM_CHAT = Form("prompt_logprobs of a chat", "chat", CHAT, _chat_body, _chat_read)
GRAMMAR = Form("grammar", "text", COMPLETIONS, _grammar_body, _grammar_read, forces=True)
GRAMMAR_CHAT = Form("grammar of a chat", "chat", CHAT, _grammar_chat_body, _grammar_read, forces=True)


def forms(reads: str) -> list[Form]:
    """The ways to try, best first: token ids leave nothing to the server's tokenizer."""
    if reads == "chat":
        return [VLLM_CHAT, GRAMMAR_CHAT]
    if reads == "text":
        return [VLLM, ECHO, TGI, GRAMMAR]
    vllm, echo, grammar = (replace(form, reads="ids") for form in (VLLM, ECHO, GRAMMAR))
    return [vllm, VLLM, echo, ECHO, TGI, grammar]  # LiteLLM passes on texts alone to some servers


def read_tokens(form: Form, reply: Any) -> tuple[list[Token], int]:
    """The tokens in a reply, which must have the expected form."""
    try:
        tokens, generated = form.read(reply)
    except BROKEN:
        tokens = []
    if not tokens:
        raise ServerError(f"The server's reply has no {form.name}.")
    return tokens, generated
