"""What every explanation is: scores over the tokens of a text, how they were computed, and what hiding parts does."""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from nbsal.methods import labels
from nbsal.methods.facts import label_of
from nbsal.model.loading.result_file import load_result, save_result
from nbsal.render.exports import Exportable
from nbsal.support.errors import InputError, NbsalError
from nbsal.support.validation import checked

if TYPE_CHECKING:
    import pandas

    from nbsal.explain.sentences.statement import Statement

NOTABLE_GAP = 0.05  # share of the explained change from which a completeness gap is marked


@checked
class Explained(Exportable):
    """The scores of a decision at one layer or at all, or of the tokens of a reply, with their provenance."""

    noun: ClassVar[str]  # in files, and in messages about them
    unsaved: ClassVar[tuple[str, ...]] = ()  # fields that no file holds
    method: str
    provenance: dict[str, Any]

    @property
    def label(self) -> str:
        """The name of the method as people read it."""
        return label_of(self.method, self.provenance)

    @property
    def about_target(self) -> bool:
        """Whether the scores depend on the target; assumed of methods of which nothing is known."""
        return "not_about_target" not in self._promise

    @property
    def _promise(self) -> Collection[str]:
        """What is known of the method's scores: by provenance, or, of earlier files, by the method's name."""
        if isinstance(promise := self.provenance.get("promise"), list):
            return promise
        if (own := labels.own_promise(self.method)) is not None:
            return own
        try:
            from nbsal.methods import catalogue

            method: Any = catalogue.create(self.method)
        except NbsalError:  # torch is missing, the name is unknown, or the method of another package needs settings
            return ()
        return getattr(method, "promise", ())

    def statement(self) -> "Statement":
        """What is said about the result, and how it was checked."""
        raise NotImplementedError

    def effects(self) -> "pandas.DataFrame":
        """What hiding parts of the text does, as `check` measured it: a row for each set that was hidden.

        The columns are what was `hidden` (nothing in the first row), the `kind` of set, the `value` of the target
        without it, its `change`, and the `outcome`: what the model then decides or writes.
        """
        raise NotImplementedError

    def notes(self) -> list[str]:
        """What a reader must know to judge the scores."""
        raise NotImplementedError

    def save(self, path: str | Path) -> None:
        """Save in a file of its own format; `load` restores every number exactly, without any model."""
        save_result(path, type(self), self.noun, self, type(self)._check_fields, self.unsaved)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load what `save` wrote."""
        return load_result(path, cls, cls.noun, cls._load_json, cls._check_fields)

    @classmethod
    def _load_json(cls, path: str | Path) -> Self:
        """Load what 0.2.0 wrote during its development."""
        raise NotImplementedError

    def _check_fields(self) -> None:
        """Raise ValueError or another error of damage if the fields do not fit each other."""
        raise NotImplementedError

    def _page_title(self) -> str:
        return self.statement().text()

    def _repr_html_(self) -> str:
        return self.render_html()


def unchecked() -> InputError:
    """The error for the effects of what was not hidden yet."""
    message = "Nothing was hidden yet. Explain with check=True, or pass the result to Explainer.check."
    return InputError(message, argument="check", value=False)


def gap_advice(provenance: dict[str, Any]) -> str:
    """What closes the gap of scores, for the end of a note."""
    takes_more = provenance.get("method") == "integrated" and provenance.get("parameters", {}).get("tolerance") is None
    return f"; Integrated(tolerance={NOTABLE_GAP}) takes as many points as it needs" if takes_more else ""
