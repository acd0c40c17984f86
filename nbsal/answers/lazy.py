"""What runs a model on a reply, for files that show saved answers as well: imported when it is first used."""

from typing import TYPE_CHECKING

from nbsal.support.lazy import LazyClass, LazyModule

if TYPE_CHECKING:
    from nbsal.ablation.engine import Ablation as Ablation
    from nbsal.answers.prompt import prompts as prompts
    from nbsal.answers.scoring import reply_experiment as reply_experiment
    from nbsal.answers.scoring import statistics as statistics
    from nbsal.answers.scoring.reply_experiment import ReplyExperiment as ReplyExperiment
else:
    Ablation = LazyClass("nbsal.ablation.engine", "Ablation")
    ReplyExperiment = LazyClass("nbsal.answers.scoring.reply_experiment", "ReplyExperiment")
    prompts = LazyModule("nbsal.answers.prompt.prompts")
    reply_experiment = LazyModule("nbsal.answers.scoring.reply_experiment")
    statistics = LazyModule("nbsal.answers.scoring.statistics")
