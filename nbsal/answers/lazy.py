"""What runs a model on a reply, for files that show saved answers as well: imported when it is first used."""

from typing import TYPE_CHECKING

from nbsal.support.lazy import LazyClass, LazyModule

if TYPE_CHECKING:
    from nbsal.answers.prompt import prompts as prompts
    from nbsal.answers.scoring import statistics as statistics
    from nbsal.answers.scoring.hiding import Hiding as Hiding
else:
    Hiding = LazyClass("nbsal.answers.scoring.hiding", "Hiding")
    prompts = LazyModule("nbsal.answers.prompt.prompts")
    statistics = LazyModule("nbsal.answers.scoring.statistics")
