"""The arguments of `nbsal.answer`, checked once, and the settings of `model.generate` among them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Self

from nbsal.answers.hops import check_hops
from nbsal.model.target import NUMBERS
from nbsal.support.errors import InputError, UnknownName
from nbsal.support.progress import Progress
from nbsal.support.validation import checked, positive_number, seed_number

DEFAULTS = {"do_sample": False, "max_new_tokens": 128}
SEVERAL = ("num_return_sequences", "num_beam_groups")  # settings that would give more than one reply
OURS = ("max_length", "return_dict_in_generate", "output_scores")  # settings that nbsal itself decides


@checked
@dataclass(frozen=True)
class ReplySettings:
    """Arguments of `nbsal.answer`: all but the model, the method, what is asked and the reply."""

    documents: Any = ()
    unit: Any = "sentence"
    number: str | None = None
    template: str | None = None
    tools: Any = None
    seed: int | None = None
    batch_size: int | None = None
    hops: Any = 0
    check: bool = True
    progress: Progress = True
    cancel: Event | None = None
    on_token: Callable[[str], None] | None = None
    generate: Mapping[str, Any] = field(default_factory=dict)  # of `model.generate`, with the defaults

    def __post_init__(self) -> None:
        if self.seed is not None:
            seed_number(self.seed)
        if self.batch_size is not None:
            positive_number(self.batch_size, "batch_size")
        if self.number is not None and self.number not in NUMBERS:
            raise UnknownName("number", self.number, NUMBERS)
        check_hops(self.hops)

    @classmethod
    def of(cls, arguments: Mapping[str, Any], names: Collection[str] = ()) -> Self:
        """From arguments, of which those with other names than these (by default, all) are settings of `generate`."""
        own = {name: value for name, value in arguments.items() if name in (names or NAMES)}
        return cls(**own, generate=check_generate({k: v for k, v in arguments.items() if k not in own}))


NAMES = tuple(name for name in ReplySettings.__dataclass_fields__ if name != "generate")
OF_ALL_ROWS = ("unit", "number", "template", "tools", "seed", "batch_size", "hops")  # the same for every row of a table


def check_generate(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of `model.generate` with the defaults; unknown ones are refused."""
    from transformers import GenerationConfig

    valid = sorted(name for name in vars(GenerationConfig()) if not name.startswith("_"))
    for name, value in settings.items():
        if name not in valid:
            problem = f"{name}={value!r:.40} is neither an argument of nbsal.answer nor a setting of model.generate."
            choice = "The settings are those of transformers.GenerationConfig."
            arguments = ["asked", "reply", "method", *NAMES]
            raise UnknownName("generate", name, [*arguments, *valid], problem, choice)
        if name in SEVERAL and value not in (None, 1):
            message = f"{name}={value} gives several replies. Explain them one at a time."
            raise InputError(message, argument=name, value=value)
        if name in OURS:
            message = f"nbsal sets {name} itself. Leave it out; max_new_tokens is the length of a reply."
            raise InputError(message, argument=name, value=value)
    checked_settings = DEFAULTS | dict(settings)
    return checked_settings | {"max_new_tokens": positive_number(checked_settings["max_new_tokens"], "max_new_tokens")}
