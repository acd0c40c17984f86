"""The method that explains a model where none is named."""

from weakref import WeakSet

from torch import nn

from nbsal.methods import catalogue, crossing
from nbsal.model import limits, sides
from nbsal.model.subject import Subject
from nbsal.support.errors import ModelError
from nbsal.support.warning import warn

# In order of preference; the last of each runs on every model. Without an LM head, gradxact finds the planted word of
# all planted models in one pass, and gradcam does not (.docs/benchmarks/planted.md).
FOR_DECISIONS = ("decoded-gradcam", "gradxact", "occlusion")
FOR_REPLIES = ("gae", "gradxact", "occlusion")
_WARNED: WeakSet[nn.Module] = WeakSet()  # models about whose missing LM head a warning was given


def default_method(subject: Subject, replies: bool = False) -> str:
    """The name of the method that explains a model, or its replies, where none is named: the best that can run.

    >>> import nbsal
    >>> default_method(nbsal.load("demo/reviews")), default_method(nbsal.load("demo/notes"), replies=True)
    ('decoded-gradcam', 'gae')
    """
    names = FOR_REPLIES if replies or subject.task == sides.REPLY else FOR_DECISIONS
    name = next((name for name in names if _runs(subject, name)), names[-1])
    could_decode = names is FOR_DECISIONS and name == names[1] and not subject.decodes
    if could_decode and subject.model not in _WARNED:
        _WARNED.add(subject.model)
        warn(
            f"{subject.name} has no LM head, so {name} explains it. For {names[0]}, which also reads what a hidden "
            "layer says, pass nbsal.load(..., lm=...) the pretrained checkpoint that the model was fine-tuned from."
        )
    return name


def _runs(subject: Subject, name: str) -> bool:
    """Whether a method can explain a model."""
    method = catalogue.create(name)
    try:
        limits.check_method(subject, name, method.family, method.needs)
        crossing.resolve(method, subject)
    except ModelError:  # LanguageHeadError among them
        return False
    return True
