"""The method that explains a model where none is named."""

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from torch import nn

from nbsal.methods import catalogue, crossing
from nbsal.methods.base import Method
from nbsal.methods.facts import stated
from nbsal.methods.propagation import InputXGradient
from nbsal.model import encoder_decoder, refusals
from nbsal.model.loading.stand_in import StandIn
from nbsal.model.running import memory
from nbsal.model.subject import Subject
from nbsal.model.targets import is_regression
from nbsal.passes import reply_memory
from nbsal.support.errors import ModelError, OutOfMemory


def _by_place(use: str) -> tuple[str, ...]:
    """The methods whose classes say that they are a default of that use, the first choice first."""
    places = {name: facts.default_for[use] for name, facts in stated().items() if use in facts.default_for}
    return tuple(sorted(places, key=lambda name: places[name]))


# In order of preference; the last of each but FOR_LAYERS runs on every model. `python -m tests.bench defaults` compares
# the first ones on models whose reasons are planted.
FOR_DECISIONS = _by_place("decisions")
# Of regression: biases make much of a value, and AttnLRP gives what they make to no word.
FOR_VALUES = _by_place("values")
FOR_LAYERS = _by_place("layers")
FOR_REPLIES = _by_place("replies")
FOR_DOCUMENTS = _by_place("documents")  # what a reply's sentence is made of: a few forward passes, whatever its length
FOR_ROUTES = _by_place("routes")  # of scores through the reply: what a model reads, and then what that reads
LEAN = (*FOR_REPLIES[:-1], *FOR_ROUTES, *FOR_REPLIES[-1:])  # what is named where another method does not fit
FOR_LIVE_PAGES = _by_place("live pages")  # instead of a method that such a page cannot run

_FOLLOWED: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()  # whether rules of relevance follow a model


def default_method(subject: Subject, names: Sequence[str] = FOR_DECISIONS) -> str:
    """The first of some methods that can explain a model; by default of those for its decisions, or for its values.

    >>> import nbsal
    >>> default_method(nbsal.load("demo/reviews")), default_method(nbsal.load("demo/notes"), FOR_REPLIES)
    ('attn-lrp', 'attn-lrp')
    """
    if names is FOR_DECISIONS and subject.task == encoder_decoder.REPLY:
        names = FOR_REPLIES
    if names is FOR_DECISIONS and is_regression(subject):
        names = FOR_VALUES
    return next((name for name in names if _runs(subject, name)), names[-1])


@dataclass(frozen=True)
class ReplySize:
    """The size of a reply to be explained."""

    tokens: int  # of the prompt and the reply
    reply: int
    sentences: int = 0  # of the prompt
    written: bool = True  # False: the reply may have fewer tokens than that


def default_for_reply(
    subject: Subject, has_documents: bool, unit: object, hops: object, size: ReplySize | None = None
) -> str:
    """The method that explains a reply where none is named: documents are hidden, each as a whole.

    Without documents, it is the first one that follows each token of the reply back, if that fits into memory and
    takes no longer than hiding the sentences; else these are hidden. A reply that the model has still to write counts
    as short, and without a `size` any reply fits.

    >>> import nbsal
    >>> notes = nbsal.load("demo/notes")
    >>> default_for_reply(notes, has_documents=True, unit=None, hops=0)
    'occlusion'
    >>> [default_for_reply(notes, False, None, 0, ReplySize(300, reply, sentences=10)) for reply in (20, 200)]
    ['attn-lrp', 'occlusion']
    """
    whole = has_documents and hops == 0 and (unit is None or unit in ("document", "message"))
    if whole:
        return default_method(subject, FOR_DOCUMENTS)
    if size is None:
        return default_method(subject, FOR_REPLIES)
    *following, hiding = FOR_REPLIES
    if size.written and hops == 0 and reply_memory.passes(size.reply) > reply_memory.passes_of_hiding(size.sentences):
        return hiding
    fitting = [name for name in following if fits(subject, catalogue.create(name), size)]
    return default_method(subject, [*fitting, hiding] if hops == 0 else fitting or following)


def fits(subject: Subject, method: Method, size: ReplySize) -> bool:
    """Whether a method's scores of a reply fit into memory."""
    return memory.lacking(subject.device, _needed(subject, method, size)) is None


def check_reply_fits(subject: Subject, methods: Sequence[Method], size: ReplySize) -> None:
    """Raise OutOfMemory if the scores of a reply by one of some methods do not fit; it names methods that do."""
    if isinstance(subject.model, StandIn):
        return
    for method in methods:
        required = _needed(subject, method, size)
        if (free := memory.lacking(subject.device, required)) is not None:
            names = [name for name in LEAN if fits(subject, catalogue.create(name), size) and _runs(subject, name)]
            way_out = f"Use method={names[0]!r}, which fits" if names else "Explain a shorter prompt"
            error = OutOfMemory(
                f"{method.name} of {size.reply:,} tokens of a reply needs about {required / memory.GB:.1f} GB with "
                f"{size.tokens:,} tokens in all, but {free / memory.GB:.1f} GB are available. {way_out}, or load the "
                "model on a device with more memory."
            )
            error.fitting = tuple(names)
            raise error


def _needed(subject: Subject, method: Method, size: ReplySize) -> int:
    sizes = reply_memory.sizes_of(method.subject_for(subject))
    return reply_memory.needed(method, sizes, size.tokens, size.reply)


def default_for_routes(subject: Subject) -> str | None:
    """The method by which scores are followed through a reply where none is named; None if none reads the model.

    >>> import nbsal
    >>> default_for_routes(nbsal.load("demo/notes"))
    'ifr'
    """
    return next((name for name in FOR_ROUTES if _runs(subject, name)), None)


def _runs(subject: Subject, name: str) -> bool:
    method = catalogue.create(name)
    try:
        refusals.check_method(subject, name, method.family, method.needs)
        crossing.resolve(method, subject)
        return not isinstance(method, InputXGradient) or _is_followed(subject, method)
    except ModelError:  # LanguageHeadError among them
        return False


def _is_followed(subject: Subject, method: InputXGradient) -> bool:
    """Whether a method knows all operations of a model, which only a pass through the model shows."""
    if subject.task == encoder_decoder.REPLY:  # of known architectures only
        return True
    if subject.model not in _FOLLOWED:
        try:
            _FOLLOWED[subject.model] = refusals.passes_gradients(subject.merged.with_gradients(method.gradients))
        except ModelError:
            _FOLLOWED[subject.model] = False
    return _FOLLOWED[subject.model]
