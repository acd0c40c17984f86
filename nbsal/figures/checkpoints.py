"""Checkpoints and data sets of Mask-LRP's experiments: its Tables 5 and 6, and what `--model` knows by name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas

from nbsal.figures.tables import framed

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler


@dataclass(frozen=True)
class Checkpoint:
    """A fine-tuned model on the hub; `table` is its data set as `nbsal.data` names it.

    >>> CHECKPOINTS[0].repository
    'textattack/bert-base-uncased-SST-2'
    """

    table: str
    model: str
    repository: str


@dataclass(frozen=True)
class Dataset:
    """A data set's task and the sizes the paper gives; None where it has no such part.

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


def checkpoint_table(used: Mapping[str, str] | None = None) -> "Styler":
    """Table 6: the checkpoints of every data set; `used` says by data set which model was taken here.

    >>> checkpoint_table({"sst2": "demo/reviews"}).data["used here"].iloc[0]
    'demo/reviews'
    """
    rows = [(one.table, one.model, one.repository, (used or {}).get(one.table, "")) for one in CHECKPOINTS]
    frame = pandas.DataFrame(rows, columns=["data set", "model", "repository", "used here"])
    return framed(frame.set_index(["data set", "model"]), "Models of Mask-LRP's experiments on the hub")


def dataset_table(here: Mapping[str, int] | None = None) -> "Styler":
    """Table 5: the data sets as the paper counts them, and `here` how many rows of the evaluated part are at hand.

    >>> dataset_table({"sst2": 872}).data.loc["sst2", "here"]
    '872'
    """
    counted = here or {}
    frame = pandas.DataFrame(
        {
            name: {
                "task": one.task,
                "train": f"{one.train:,}",
                "validation": "-" if one.validation is None else f"{one.validation:,}",
                "test": f"{one.test:,}",
                "here": f"{counted[name]:,}" if name in counted else "none",
            }
            for name, one in DATASETS.items()
        }
    ).T
    return framed(frame, "Sizes as the paper prints them; here: rows of the evaluated part at hand")
