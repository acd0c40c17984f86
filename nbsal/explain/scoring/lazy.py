"""What runs a model on a reply, for files that show saved answers as well: imported when it is first used."""

from typing import TYPE_CHECKING

from nbsal.support.lazy import LazyClass, LazyModule

if TYPE_CHECKING:
    from nbsal.ablation import experiment as experiment
    from nbsal.ablation.engine import Ablation as Ablation
    from nbsal.explain.prompt import prompts as prompts
    from nbsal.explain.scoring import reply_experiment as reply_experiment
    from nbsal.explain.scoring import served as served
    from nbsal.explain.scoring import statistics as statistics
    from nbsal.explain.scoring.reply_experiment import ReplyExperiment as ReplyExperiment
else:
    experiment = LazyModule("nbsal.ablation.experiment")
    Ablation = LazyClass("nbsal.ablation.engine", "Ablation")
    ReplyExperiment = LazyClass("nbsal.explain.scoring.reply_experiment", "ReplyExperiment")
    prompts = LazyModule("nbsal.explain.prompt.prompts")
    reply_experiment = LazyModule("nbsal.explain.scoring.reply_experiment")
    served = LazyModule("nbsal.explain.scoring.served")
    statistics = LazyModule("nbsal.explain.scoring.statistics")
