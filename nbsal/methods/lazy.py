"""Classes and modules that load torch, for files that show results as well: each is imported when it is first used.

Until then no object is an instance of these classes. Annotations and `isinstance` go on as with the classes themselves.
"""

from typing import TYPE_CHECKING

from nbsal.support.lazy import LazyClass, LazyModule

if TYPE_CHECKING:
    from nbsal.ablation.decision import DecisionText as DecisionText
    from nbsal.ablation.engine import Ablation as Ablation
    from nbsal.ablation.experiment import Experiment as Experiment
    from nbsal.methods import catalogue as catalogue
    from nbsal.methods import crossing as crossing
    from nbsal.methods import default as default
    from nbsal.methods.base import LayerMethod as LayerMethod
    from nbsal.methods.base import Method as Method
    from nbsal.methods.decoding import Decoded as Decoded
    from nbsal.methods.perturbation import Perturbation as Perturbation
    from nbsal.methods.propagation import MaskLRP as MaskLRP
    from nbsal.model import identity as identity
    from nbsal.model import targets as targets
    from nbsal.model.served.served_model import Served as Served
    from nbsal.model.subject import Subject as Subject
    from nbsal.model.text import tokenize as tokenize
    from nbsal.passes import reply_trace as reply_trace
    from nbsal.passes import trace as trace
else:
    LayerMethod = LazyClass("nbsal.methods.base", "LayerMethod")
    Method = LazyClass("nbsal.methods.base", "Method")
    Decoded = LazyClass("nbsal.methods.decoding", "Decoded")
    Perturbation = LazyClass("nbsal.methods.perturbation", "Perturbation")
    MaskLRP = LazyClass("nbsal.methods.propagation", "MaskLRP")
    Ablation = LazyClass("nbsal.ablation.engine", "Ablation")
    DecisionText = LazyClass("nbsal.ablation.decision", "DecisionText")
    Experiment = LazyClass("nbsal.ablation.experiment", "Experiment")
    Served = LazyClass("nbsal.model.served.served_model", "Served")
    Subject = LazyClass("nbsal.model.subject", "Subject")
    catalogue = LazyModule("nbsal.methods.catalogue")
    crossing = LazyModule("nbsal.methods.crossing")
    default = LazyModule("nbsal.methods.default")
    identity = LazyModule("nbsal.model.identity")
    targets = LazyModule("nbsal.model.targets")
    tokenize = LazyModule("nbsal.model.text.tokenize")
    reply_trace = LazyModule("nbsal.passes.reply_trace")
    trace = LazyModule("nbsal.passes.trace")
