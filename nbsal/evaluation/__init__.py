"""Evaluation: how good explanations are, by games, deletion and agreement, each with its interval."""

from nbsal.evaluation.agreement import rank_agreement as rank_agreement
from nbsal.evaluation.agreement import rationale_agreement as rationale_agreement
from nbsal.evaluation.answers import answer_recall_at as answer_recall_at
from nbsal.evaluation.answers import precision_at as precision_at
from nbsal.evaluation.curves import at_layers as at_layers
from nbsal.evaluation.curves import best_layer as best_layer
from nbsal.evaluation.curves import games as games
from nbsal.evaluation.deletion import faithfulness as faithfulness
from nbsal.evaluation.memory import Memory as Memory
from nbsal.evaluation.overlaps import overlap as overlap
from nbsal.evaluation.results import Results as Results
