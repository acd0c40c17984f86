"""What runs a model on a reply, for files that show saved answers as well: imported when it is first used."""

from typing import TYPE_CHECKING

from nbsal.support.lazy import LazyClass, LazyModule

if TYPE_CHECKING:
    from nbsal.answers import prompts as prompts
    from nbsal.answers import statistics as statistics
    from nbsal.answers.hiding import Hiding as Hiding
else:
    Hiding = LazyClass("nbsal.answers.hiding", "Hiding")
    prompts = LazyModule("nbsal.answers.prompts")
    statistics = LazyModule("nbsal.answers.statistics")
