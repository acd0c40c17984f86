"""Texts that are run without some of their tokens, in one call each."""

from nbsal.ablation.decision import DecisionText
from nbsal.ablation.engine import Ablation
from nbsal.explain.scoring.reply_experiment import hide_units


def logits_of(subject, rows, tables, way="remove", ablation=None):
    """The logits of each row for each of its subsets of tokens."""
    texts = [DecisionText(subject, row, way=way) for row in rows]
    return (ablation or Ablation(subject)).values(texts, tables)


def hide(subject, reading, units, way="remove"):
    """The experiment that hides units of a reply's prompt."""
    return hide_units(Ablation(subject), reading, units, way)
