"""The arguments of `nbsal.answer`, checked once, and the settings of `model.generate` among them."""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from threading import Event
from typing import Any, Literal, Self

from nbsal.explain.prompt.chat import parse_template
from nbsal.explain.prompt.sources import LAYOUTS, PLAIN
from nbsal.explain.scoring.hops import check_hops
from nbsal.explain.sentences.outcomes import WAYS
from nbsal.model.target import NUMBERS
from nbsal.support.errors import InputError, UnknownName
from nbsal.support.lazy import transformers
from nbsal.support.progress import Progress
from nbsal.support.validation import checked, positive_number, seed_number

DEFAULTS = {"do_sample": False, "max_new_tokens": 128}
ASKED = ("asked", "messages")  # names of what is asked, in a row of a table
SEVERAL = ("num_return_sequences", "num_beam_groups")  # settings that would give more than one reply
FILLED = frozenset({  # names in chat templates that are no settings
    *("messages", "tools", "documents", "add_generation_prompt"),
    *("raise_exception", "strftime_now", "namespace", "range", "dict"),
})  # fmt: skip
OURS = ("max_length", "return_dict_in_generate", "output_scores")  # settings that nbsal itself decides


@checked
@dataclass(frozen=True)
class ReplySettings:
    """Arguments of `nbsal.answer`: all but the model, the method, what is asked and the reply."""

    documents: Any = ()
    layout: str = PLAIN
    unit: Any = None
    number: str | None = None
    template: str | None = None
    tools: Any = None
    seed: int | None = None
    batch_size: int | None = None
    hops: Any = 0
    citations: bool = False
    check: bool | Literal["ways"] = True
    progress: Progress = True
    cancel: Event | None = None
    on_token: Callable[[str], None] | None = None
    generate: Mapping[str, Any] = field(default_factory=dict)  # of `model.generate`, with the defaults
    template_settings: Mapping[str, Any] = field(default_factory=dict)  # of the chat template

    def __post_init__(self) -> None:
        if self.seed is not None:
            seed_number(self.seed)
        if self.batch_size is not None:
            positive_number(self.batch_size, "batch_size")
        if self.number is not None and self.number not in NUMBERS:
            raise UnknownName("number", self.number, NUMBERS)
        if self.layout not in LAYOUTS:
            raise UnknownName("layout", self.layout, LAYOUTS)
        if self.check not in (True, False, WAYS):
            message = f"check={self.check!r:.60} must be True, False or {WAYS!r}."
            raise InputError(message, argument="check", value=self.check)
        check_hops(self.hops)

    @classmethod
    def from_settings(cls, tokenizer: Any, writing: Mapping[str, Any], **own: Any) -> Self:
        """From settings of what writes the reply, and these of our own."""
        generate, templates = split_settings(writing, tokenizer, own.get("template"))
        return cls(**own, generate=generate, template_settings=templates)

    @classmethod
    def parse(cls, tokenizer: Any, arguments: Mapping[str, Any], names: Collection[str] = ()) -> Self:
        """From arguments; those with other names than these (by default, all) are settings of what writes the reply."""
        own = {name: value for name, value in arguments.items() if name in (names or NAMES)}
        return cls.from_settings(tokenizer, {name: arguments[name] for name in arguments if name not in own}, **own)


NOT_OURS = (
    "generate",
    "template_settings",
    "citations",
)  # no arguments of `nbsal.answer`; the last is for tables
NAMES = tuple(name for name in ReplySettings.__dataclass_fields__ if name not in NOT_OURS)
# The same for every row of a table.
OF_ALL_ROWS = ("layout", "unit", "number", "template", "tools", "seed", "batch_size", "hops", "citations")


def split_settings(
    settings: Mapping[str, Any], tokenizer: Any, template: str | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of `model.generate` with the defaults, and those of the chat template; unknown ones are refused."""
    valid, generate, templates = _generation_settings(), dict(DEFAULTS), dict[str, Any]()
    variables = template_variables(tokenizer, template) - valid if settings.keys() - valid else set[str]()
    for name, value in settings.items():
        if name not in valid | variables:
            problem = (
                f"{name}={value!r:.40} is neither an argument of nbsal.answer nor a setting of model.generate or of "
                "the chat template."
            )
            choice = f"The settings are those of transformers.GenerationConfig{', '.join(['', *sorted(variables)])}."
            choice = _of_methods(name, value) or choice
            arguments = ["asked", "reply", "method", *NAMES]
            raise UnknownName("generate", name, [*arguments, *sorted(valid | variables)], problem, choice)
        if name in SEVERAL and value not in (None, 1):
            message = f"{name}={value} gives several replies. Explain them one at a time."
            raise InputError(message, argument=name, value=value)
        if name in OURS:
            message = f"nbsal sets {name} itself. Leave it out; max_new_tokens is the length of a reply."
            raise InputError(message, argument=name, value=value)
        (templates if name in variables else generate)[name] = value
    generate["max_new_tokens"] = positive_number(generate["max_new_tokens"], "max_new_tokens")
    return generate, templates


@cache
def _generation_settings() -> frozenset[str]:
    """The settings of `model.generate`."""
    return frozenset(name for name in vars(transformers.GenerationConfig()) if not name.startswith("_"))


def _of_methods(name: str, value: Any) -> str:
    """Where to pass what is a setting of methods that hide, or ""."""
    from nbsal.methods.perturbation import Occlusion

    if name not in Occlusion().parameters():
        return ""
    return f"It is a setting of methods that hide: pass method=nbsal.Occlusion({name}={value!r:.40})."


def template_variables(tokenizer: Any, template: str | None) -> set[str]:
    """The settings that a chat template reads, such as `enable_thinking`."""
    from jinja2 import TemplateSyntaxError, meta

    with suppress(AttributeError, ValueError, TemplateSyntaxError):  # no tokenizer, no template, one that is damaged
        names = meta.find_undeclared_variables(parse_template(tokenizer.get_chat_template(template)))
        return {name for name in names - FILLED if not name.endswith("_token")}
    return set()


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those settings that a file can hold as they are."""
    return {k: v for k, v in settings.items() if v is None or isinstance(v, str | int | float | bool)}
