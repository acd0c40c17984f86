"""The matrix of README: what happens is what it shows, and every refusal in it has a reason that can be seen."""

import pytest
import torch

import nbsal
from nbsal import trace
from nbsal.errors import ModelError
from nbsal.methods import alti, catalogue
from nbsal.methods.base import REGISTER
from tests import matrix, zoo

SHOWN = matrix.read(matrix.shown())


def cannot_add_masks(subject, method):
    """Rules that count the mask as a summand give it to the model as one, which fails."""
    if not getattr(method, "rules", None) or not method.rules.mask or subject.causal:
        return False
    inputs = subject.inputs(subject.encode("A joy."))
    size = inputs["input_ids"].shape[1]
    try:
        subject.logits(inputs | {"attention_mask": torch.zeros(1, 1, size, size, dtype=subject.dtype)})
    except (RuntimeError, ValueError):
        return True
    return False


def has_other_blocks(subject, method):
    """Its blocks have not the parts that ALTI reads, under any of the names it knows."""
    has = {name for name, _ in subject.blocks[0].named_modules()}
    known = [(parts.value, parts.out, parts.norm, parts.second) for parts in alti.PARTS.values()]
    return method.name == "alti" and not any(has.issuperset(paths) for paths in known)


def sees_nothing(subject, method, kind):
    """Asked all the same, for any target, it scores nothing, since nothing is before the first position."""
    if not subject.causal or method.family != "attention" or method.name == "alti":
        return False
    encoded = subject.encode(matrix.KINDS[kind].text)
    reads = (
        trace.record(subject, encoded, [target], trace.NEEDS[:4])
        for target, _ in matrix.KINDS[kind].targets(subject, encoded[0])
    )
    return all(not method.total(read).nan_to_num().any() for read in reads)


REASONS = {
    "count the attention mask as a summand": lambda subject, method, kind: cannot_add_masks(subject, method),
    "post-norm encoders it knows": lambda subject, method, kind: has_other_blocks(subject, method),
    "what the first position attends to beside itself": sees_nothing,
}


def reason(said):
    """What must hold of a subject, a method and a kind of text where that is said."""
    (holds,) = [holds for part, holds in REASONS.items() if part in said]
    return holds


@pytest.mark.parametrize("architecture", zoo.ARCHITECTURES)
def test_what_happens_is_what_is_shown(load, architecture):
    assert matrix.column(architecture, load) == SHOWN[architecture]


@pytest.mark.filterwarnings("ignore:attention-gradcam finds no evidence")
@pytest.mark.parametrize("architecture", zoo.ARCHITECTURES)
def test_what_is_refused_has_its_reason_and_what_is_explained_has_none(load, architecture):
    said = {said for cells in SHOWN.values() for cell in cells.values() for said in cell.refusals}
    for kind in matrix.kinds(architecture):
        subject = load(architecture, matrix.KINDS[kind].head)
        for name, cell in SHOWN[architecture].items():
            held = {one for one in said if reason(one)(subject, matrix.method(name), kind)}
            assert (kind in cell.kinds) == (not held), (name, kind, held)
            assert kind in cell.kinds or held.issuperset(cell.refusals), (name, kind, held)


def test_the_table_is_written_by_the_program():
    assert matrix.table(SHOWN) == matrix.shown()


def test_every_method_stands_on_every_architecture():
    assert list(SHOWN) == list(zoo.ARCHITECTURES)
    for cells in SHOWN.values():
        assert list(cells) == catalogue.names() and all(cell.kinds or cell.refusals for cell in cells.values())


@pytest.mark.parametrize(
    "answer",
    [
        lambda found: torch.zeros_like(found),
        lambda found: found * torch.nan,
        lambda found: found[:, 1:],
    ],
)
def test_what_is_neither_explained_nor_refused_is_a_hole(load, monkeypatch, answer):
    own = REGISTER["rollout"].scores
    monkeypatch.setattr(REGISTER["rollout"], "scores", lambda self, read: answer(own(self, read)))
    with pytest.raises(matrix.Hole, match="rollout"):
        matrix.check(load("bert"), "rollout", "sequence")


def test_another_target_than_the_one_asked_for_is_a_hole(load, monkeypatch):
    explain = nbsal.Explainer.__call__
    monkeypatch.setattr(nbsal.Explainer, "__call__", lambda self, text, target: explain(self, text, "LABEL_2"))
    with pytest.raises(matrix.Hole, match="LABEL_0"):
        matrix.check(load("bert"), "rollout", "sequence")


def test_any_other_error_is_no_refusal(load, monkeypatch):
    monkeypatch.setattr(REGISTER["rollout"], "scores", lambda self, read: read.attention["none"])
    with pytest.raises(KeyError):
        matrix.check(load("bert"), "rollout", "sequence")


def test_refusals_name_the_method_or_the_model(load):
    with pytest.raises(ModelError, match=r"raw-attention@published reads .* nothing in causal .*with raw-attention"):
        nbsal.Explainer(load("gpt2"), "raw-attention@published")
    with pytest.raises(
        ModelError, match=r"published rules .* DebertaV2ForSequenceClassification does not add .* plain name"
    ):
        nbsal.Explainer(load("deberta-v2"), "lrp@published")("A joy.")


def test_an_error_inside_the_blocks_is_not_blamed_on_the_mask(load, monkeypatch):
    subject = load("bert")

    def breaking(module, args, output):
        raise ValueError("something else")

    handle = subject.blocks[1].register_forward_hook(breaking)
    with pytest.raises(ValueError, match="something else"):
        nbsal.Explainer(subject, "lrp@published")("A joy.")
    handle.remove()
