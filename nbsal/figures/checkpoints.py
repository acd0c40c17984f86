"""Checkpoints and data sets of the Mask-LRP experiments: Tables 5 and 6 of the paper.

`--model` of `python -m nbsal.figures` accepts the checkpoints without the name of their table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas

from nbsal.figures.tables import style_frame
from nbsal.support.lazy import Styler
from nbsal.support.validation import checked


@dataclass(frozen=True)
class Checkpoint:
    """A fine-tuned model on the hub; `table` is the name of its data set in `nbsal.evaluation.data`.

    >>> CHECKPOINTS[0].repository
    'textattack/bert-base-uncased-SST-2'
    """

    table: str
    model: str
    repository: str


@dataclass(frozen=True)
class Dataset:
    """The task of a data set and the sizes that the paper states; `validation` is None where there is no such split.

    >>> DATASETS["sst2"].validation
    872
    """

    task: str
    train: int
    validation: int | None
    test: int


# Sizes as printed in the paper's Table 5.
DATASETS = {
    "sst2": Dataset("classification", 6920, 872, 1821),
    "imdb": Dataset("classification", 25000, None, 25000),
    "yelp_polarity": Dataset("classification", 560000, None, 38000),
    "qqp": Dataset("question pairs", 363846, 40430, 390965),
    "mnli": Dataset("inference", 392702, 20000, 20000),
    "squad": Dataset("question answering", 87599, 10570, 9533),
    "squad_v2": Dataset("question answering", 130319, 11873, 8862),
}
BERT, GPT, ROBERTA = "BERT base", "GPT-2", "RoBERTa"
CHECKPOINTS = (
    Checkpoint("sst2", BERT, "textattack/bert-base-uncased-SST-2"),
    Checkpoint("imdb", BERT, "textattack/bert-base-uncased-imdb"),
    Checkpoint("yelp_polarity", BERT, "abriceyhc/bert-base-uncased-yelp_polarity"),
    Checkpoint("qqp", BERT, "modeltc/bert-base-uncased-qqp"),
    Checkpoint("mnli", BERT, "textattack/bert-base-uncased-MNLI"),
    Checkpoint("squad", BERT, "csarron/bert-base-uncased-squad-v1"),
    Checkpoint("squad", GPT, "anas-awadalla/gpt2-span-head-finetuned-squad"),
    Checkpoint("squad", ROBERTA, "thatdramebaazguy/roberta-base-squad"),
    Checkpoint("squad_v2", BERT, "ericRosello/bert-base-uncased-finetuned-squad-frozen-v2"),
    Checkpoint("squad_v2", GPT, "anas-awadalla/gpt2-span-head-finetuned-squad"),
    Checkpoint("squad_v2", ROBERTA, "21iridescent/roberta-base-finetuned-squad2-lwt"),
)


@checked
def checkpoint_table(used: Mapping[str, Sequence[str]] | None = None) -> "Styler":
    """Table 6: the checkpoints of every data set; `used` maps a data set to the models that were used here.

    A model that is none of the paper's checkpoints has a row of its own.

    >>> checkpoint_table({"sst2": ["demo/reviews"]}).data.query("model == 'here'").iloc[0].tolist()
    ['sst2', 'here', '', 'demo/reviews']
    """
    models = used or {}
    rows = []
    for table in DATASETS:
        checkpoints = [c for c in CHECKPOINTS if c.table == table]
        used_here = list(models.get(table, ()))
        rows += [(table, c.model, c.repository, c.repository if c.repository in used_here else "") for c in checkpoints]
        published = {c.repository for c in checkpoints}
        rows += [(table, "here", "", model) for model in used_here if model not in published]
    frame = pandas.DataFrame(rows, columns=["data set", "model", "repository", "used here"])
    return style_frame(frame, "Models of the Mask-LRP experiments on the hub").hide(axis="index")


@checked
def dataset_table(available: Mapping[str, int] | None = None) -> "Styler":
    """Table 5: the data sets with the sizes in the paper; `available` maps a data set to its evaluation rows here.

    >>> dataset_table({"sst2": 872}).data.loc["sst2", "available"]
    '872'
    """
    counts = available or {}
    frame = pandas.DataFrame(
        {
            name: {
                "task": dataset.task,
                "train": f"{dataset.train:,}",
                "validation": "-" if dataset.validation is None else f"{dataset.validation:,}",
                "test": f"{dataset.test:,}",
                "available": f"{counts[name]:,}" if name in counts else "none",
            }
            for name, dataset in DATASETS.items()
        }
    ).T
    return style_frame(frame, "Sizes as printed in the paper; available: rows of the evaluation split found here")
