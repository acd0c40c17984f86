"""The catalogue: every method by name, with what it reads from a trace and where it was published."""

from typing import TYPE_CHECKING, Any

from nbsal.errors import InputError, UnknownName
from nbsal.methods import alti, attention, decoding, gradient, paths, perturbation, relevance
from nbsal.methods.base import REGISTER, Method
from nbsal.methods.reference import allennlp, published, thermostat

if TYPE_CHECKING:
    import pandas

# Importing a family enters its methods.
FAMILIES = (gradient, paths, decoding, attention, alti, relevance, perturbation, published, allennlp, thermostat)


def names() -> list[str]:
    """Every name that `Explainer(subject, name)` takes, published variants last.

    >>> "decoded-gradcam" in names()
    True
    """
    return sorted(REGISTER, key=lambda name: "@" in name)


def create(name: str, **options: Any) -> Method:
    """The method of that name with those settings.

    >>> create("decoded-gradcam", layer=4).layer
    4
    """
    if name not in REGISTER:
        raise UnknownName("method", name, names())
    try:
        return REGISTER[name](**options)
    except TypeError as error:
        raise InputError(f"{name} does not take these settings: {error}.") from None


def table() -> "pandas.DataFrame":
    """One row a method: its family, what it reads, its paper, what it costs and promises, its settings' defaults.

    >>> table().loc["gradcam", "paper"]
    'Selvaraju et al. 2017'
    """
    import pandas

    made = {name: create(name) for name in names()}
    rows = [
        (name, m.family, ", ".join(sorted(m.needs)), m.paper, m.cost, m.promise, str(m.parameters()))
        for name, m in made.items()
    ]
    columns = ["method", "family", "needs", "paper", "cost", "promise", "settings"]
    return pandas.DataFrame(rows, columns=columns).set_index("method")
