"""The models and values of the golden tests, as subjects and arrays."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import transformers
from safetensors.torch import load_file

import nbsal
from nbsal.heads import HeadMask

FOLDER = Path(__file__).parent / "data" / "golden"
BERT = np.load(FOLDER / "bert_small.npz")
QA = np.load(FOLDER / "bertqa_small.npz")
CASES = [f"c{i}/{kind}" for i in range(3) for kind in ("full", "sepmask")]
MASKS = {
    "A": HeadMask.from_array(BERT["mask_A"]),
    "B": HeadMask.from_array(BERT["mask_B"]),
    "ones": HeadMask.from_array(np.ones((4, 4))),
    "zeros": HeadMask.from_array(np.zeros((4, 4))),
}


@cache
def subject(name: str) -> nbsal.Subject:
    """The golden model as a subject, in float64."""
    settings = json.loads((FOLDER / f"{name}.json").read_text())
    for key in ("transformers_version", "attn_implementation", "_attn_implementation_internal"):
        settings.pop(key, None)
    kind = "QuestionAnswering" if "qa" in name else "SequenceClassification"
    model = getattr(transformers, f"BertFor{kind}")(transformers.BertConfig(**settings)).double().eval()
    model.load_state_dict(load_file(FOLDER / f"{name}.safetensors"))
    return nbsal.load(model)


def inputs(case: str) -> dict[str, np.ndarray]:
    """The ids, mask and segments of one classification case."""
    return {name: BERT[f"{case}/{name}"] for name in ("input_ids", "attention_mask", "token_type_ids")}
