"""The catalogue of methods: names, settings, papers, costs and the properties of their scores."""

from typing import TYPE_CHECKING, Any

from nbsal import trace
from nbsal.errors import InputError, UnknownName
from nbsal.methods import alti, attention, decoding, gradient, paths, perturbation, relevance
from nbsal.methods.base import REGISTER, Method, describe
from nbsal.methods.reference import allennlp, published, thermostat

if TYPE_CHECKING:
    import pandas

# Importing a family registers its methods.
FAMILIES = (gradient, paths, decoding, attention, alti, relevance, perturbation, published, allennlp, thermostat)


def names() -> list[str]:
    """List every name that `Explainer(subject, name)` takes, reference variants last.

    >>> "decoded-gradcam" in names()
    True
    """
    return sorted(REGISTER, key=lambda name: "@" in name)


def create(name: str, **options: Any) -> Method:
    """Create the method of that name with those settings.

    >>> create("decoded-gradcam", layer=4).layer
    4
    """
    if name not in REGISTER:
        raise UnknownName("method", name, names())
    settings = REGISTER[name]().parameters() if options else {}
    for option, value in options.items():
        if option not in settings:
            choice = f"Its settings: {', '.join(settings)}." if settings else "It has no settings."
            raise InputError(f"{name} has no setting {option!r}. {choice}", argument=option, value=value)
    return REGISTER[name](**options)


def table() -> "pandas.DataFrame":
    """Tabulate the methods: family, needs, paper, cost, promise and the defaults of their settings.

    >>> table().loc["gradcam", "paper"]
    'Selvaraju et al. 2017'
    """
    import pandas

    methods = {name: create(name) for name in names()}
    rows = [
        (name, m.family, ", ".join(sorted(m.needs)), m.paper, str(m.cost), describe(m.promise), str(m.parameters()))
        for name, m in methods.items()
    ]
    columns = ["method", "family", "needs", "paper", "cost", "promise", "settings"]
    return pandas.DataFrame(rows, columns=columns).set_index("method")


def glossary() -> dict[str, str]:
    """What the words of the table mean: the deciding position, and what a method reads.

    >>> glossary()["hidden"]
    'hidden layers'
    """
    position = {"deciding position": "where the model reads its output ([CLS], or the last token)"}
    return position | trace.NEEDS | {"output": "the model's output alone"}


def markdown() -> str:
    """Write the table of methods as Markdown.

    >>> print(markdown()[:58])
    | method | family | paper | cost | properties | settings |
    """
    rows = [
        (f"`{name}`", row["family"], row["paper"], row["cost"], row["promise"], f"`{row['settings']}`")
        for name, row in table().iterrows()
    ]
    header = ("method", "family", "paper", "cost", "properties", "settings")
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows])
