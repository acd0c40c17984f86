"""tests/matrix.md shows what really happens, and every refusal in it has a reason that can be observed."""

import copy
from functools import cache, partial

import pytest
import torch
from torch.overrides import TorchFunctionMode

import nbsal
from nbsal import trace
from nbsal.errors import ModelError
from nbsal.methods import alti, catalogue
from nbsal.methods.base import REGISTER
from nbsal.model import architecture, attention_maps
from nbsal.model.attention_maps import AttentionRecorder
from tests import matrix, zoo
from tests.cases import cases

PAGE = matrix.read(matrix.PATH.read_text(encoding="utf-8"))


def cannot_add_masks(subject, method, kind):
    """The published rules pass the attention mask to the model as a summand, which fails."""
    if not getattr(method, "rules", None) or not method.rules.mask or subject.causal:
        return False
    inputs = subject.inputs(subject.encode("A joy."))
    size = inputs["input_ids"].shape[1]
    try:
        subject.logits(inputs | {"attention_mask": torch.zeros(1, 1, size, size, dtype=subject.dtype)})
    except (RuntimeError, ValueError):
        return True
    return False


def has_other_blocks(subject, method, kind):
    """The model's blocks lack the modules that ALTI reads, under all names it knows."""
    modules = {name for name, _ in subject.blocks[0].named_modules()}
    known = [(parts.value, parts.out, parts.norm, parts.second) for parts in alti.PARTS.values()]
    return method.name == "alti" and not any(modules.issuperset(paths) for paths in known)


def sees_nothing(subject, method, kind):
    """The method scores nothing for any target, since the first position sees only itself."""
    if not subject.causal or method.family != "attention" or method.name == "alti":
        return False
    encoded = subject.encode(matrix.KINDS[kind].text)
    records = (
        trace.record(subject, encoded, [target], list(trace.NEEDS)[:4])
        for target, _ in matrix.KINDS[kind].targets(subject, encoded[0])
    )
    return all(not method.total(record).nan_to_num().any() for record in records)


def forward(subject):
    """Attention weights, hidden layers and the names of the functions that are called for a text."""
    names, recorder = set(), AttentionRecorder()

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            names.add(getattr(func, "__name__", ""))
            return func(*args, **(kwargs or {}))

    inputs = subject.inputs(subject.encode("A warm joy."))
    with (
        torch.no_grad(),
        attention_maps.with_mode(subject.model, recorder),
        architecture.record_layers(subject.model) as layers,
        Functions(),
    ):
        subject.model(**inputs)
    return recorder.maps, layers, names


def lacks_maps(subject):
    """A forward pass with plain attention computes no map of positions by positions for each head of every block."""
    size = len(subject.encode("A warm joy.")[0])
    return [tuple(weights.shape) for weights in forward(subject)[0]] != [(1, subject.heads, size, size)] * subject.depth


def fails_in_float64(subject):
    model = copy.deepcopy(subject.model).double()
    try:
        model(**subject.inputs(subject.encode("A joy.")))
    except RuntimeError:
        return True
    return False


def has_other_layout(subject):
    """The hidden states do not begin with the texts, then the positions."""
    return forward(subject)[1][0].shape[:2] != (1, len(subject.encode("A warm joy.")[0]))


def calls_other_operations(subject):
    return not {"einsum", "as_strided", "scaled_dot_product_attention"}.isdisjoint(forward(subject)[2])


# Of a further architecture, what must be so where a cell has that footnote.
FACTS = {
    "attention": lambda subject: not subject.heads,
    "attention maps": lacks_maps,
    "layout": has_other_layout,
    "decoder": lambda subject: not subject.measured_pooling.last_layer_only,
    "lm_head": lambda subject: not subject.decodes,
    "experts": lambda subject: any(name.endswith(".experts") for name, _ in subject.model.named_modules()),
    "dtype": fails_in_float64,
    "operation": calls_other_operations,
    "padding token": lambda subject: subject.unbatchable,
    "attention mask": lambda subject: not subject.causal,
    "first position": lambda subject: subject.causal,
    "post-norm blocks": lambda subject: subject.model.config.model_type not in alti.PARTS,
}
REASONS = {
    "attention mask": cannot_add_masks,
    "first position": sees_nothing,
    "post-norm blocks": has_other_blocks,
}


def check_rows(page):
    """Every method has a row and every architecture a column."""
    assert list(page) == [*zoo.ARCHITECTURES, *zoo.OTHERS], matrix.OUTDATED
    assert all(list(cells) == catalogue.names() for cells in page.values()), matrix.OUTDATED


def test_every_method_has_a_row_and_every_architecture_a_column():
    check_rows(PAGE)
    assert all(cell.kinds or cell.refusals for cells in PAGE.values() for cell in cells.values())


@pytest.mark.parametrize("register", [REGISTER, zoo.ARCHITECTURES], ids=["method", "architecture"])
def test_what_is_new_fails_with_the_command_to_run(monkeypatch, register):
    monkeypatch.setitem(register, "new", next(iter(register.values())))
    with pytest.raises(AssertionError) as caught:
        check_rows(PAGE)
    assert "python -m tests.matrix --write" in str(caught.value)


@pytest.fixture(scope="module")
def load_zoo(checkpoints):
    return cache(partial(zoo.load, checkpoints))


SEVERAL = [name for name in zoo.ARCHITECTURES if name != "bert"]  # with several kinds of text, as BERT has


@pytest.mark.some(8)
@pytest.mark.parametrize(
    "architecture", ["bert", *(pytest.param(name, marks=pytest.mark.full) for name in SEVERAL), *zoo.OTHERS]
)
def test_cells_show_what_happens(load_zoo, architecture):
    assert architecture in PAGE, matrix.OUTDATED
    assert matrix.column(architecture, load_zoo) == PAGE.get(architecture), matrix.OUTDATED


@pytest.mark.some(4)
@pytest.mark.parametrize("architecture", SEVERAL)
def test_cells_show_what_happens_with_one_kind_of_text(load_zoo, architecture):
    """By day each method of an architecture explains one kind of text, in turn."""
    kinds, begin = matrix.kinds(architecture), SEVERAL.index(architecture)
    for number, (name, cell) in enumerate(PAGE[architecture].items(), begin):
        kind = kinds[number % len(kinds)]
        try:
            matrix.check(load_zoo(architecture, matrix.KINDS[kind].head), name, kind)
        except ModelError as error:
            assert kind not in cell.kinds and matrix.reason(error) in cell.refusals, matrix.OUTDATED
        else:
            assert kind in cell.kinds, matrix.OUTDATED


@pytest.mark.some(4)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("architecture", zoo.ARCHITECTURES)
def test_refusals_have_their_reason_and_explanations_have_none(load_zoo, architecture):
    for kind in matrix.kinds(architecture):
        subject = load_zoo(architecture, matrix.KINDS[kind].head)
        for name, cell in PAGE[architecture].items():
            reasons = {part for part, applies in REASONS.items() if applies(subject, matrix.method(name), kind)}
            assert (kind in cell.kinds) == (not reasons), (name, kind, reasons)
            assert kind in cell.kinds or reasons.issuperset(cell.refusals), (name, kind, reasons)


@cases("architecture", zoo.OTHERS)
def test_refusals_of_further_architectures_are_facts(load_zoo, architecture):
    (kind,) = matrix.kinds(architecture)
    subject = load_zoo(architecture, matrix.KINDS[kind].head)
    refusals = {part for cell in PAGE[architecture].values() for part in cell.refusals}
    assert {part for part in refusals if not FACTS[part](subject)} == set()


def test_the_page_is_written_by_the_program():
    assert matrix.table(PAGE) == matrix.PATH.read_text(encoding="utf-8"), matrix.OUTDATED
    assert {part for cells in PAGE.values() for cell in cells.values() for part in cell.refusals} == set(FACTS)
    assert set(FACTS) == set(matrix.FOOTNOTES) > set(REASONS)


def test_cells_survive_the_page():
    cells = [matrix.Cell(("span",), ("first position",)), matrix.Cell((), ("attention mask", "post-norm blocks"))]
    changed = dict(zip(catalogue.names(), cells, strict=False))
    page = {"gpt2": PAGE["gpt2"] | changed, "bert": PAGE["bert"], "mamba": PAGE["mamba"]}
    assert matrix.read(matrix.table(page)) == page


@cases(
    "change",
    [
        lambda scores: torch.zeros_like(scores),
        lambda scores: scores * torch.nan,
        lambda scores: scores[:, 1:],
    ],
)
def test_a_cell_that_is_neither_explained_nor_refused_is_a_hole(load, monkeypatch, change):
    scores = REGISTER["rollout"].scores
    monkeypatch.setattr(REGISTER["rollout"], "scores", lambda self, record: change(scores(self, record)))
    with pytest.raises(matrix.Hole):
        matrix.check(load("bert"), "rollout", "sequence")


def test_another_target_is_a_hole(load, monkeypatch):
    explain = nbsal.Explainer.__call__
    monkeypatch.setattr(nbsal.Explainer, "__call__", lambda self, text, target: explain(self, text, "LABEL_2"))
    with pytest.raises(matrix.Hole):
        matrix.check(load("bert"), "rollout", "sequence")


@pytest.mark.parametrize("error", [KeyError("none"), ModelError("Unknown part.", part="none")])
def test_any_other_error_is_no_refusal(load, monkeypatch, error):
    def fail(self, record):
        raise error

    monkeypatch.setattr(REGISTER["rollout"], "scores", fail)
    with pytest.raises(type(error)):
        matrix.column("bert", load)


def test_refusals_name_the_part_and_the_alternative(load):
    with pytest.raises(ModelError) as caught:
        nbsal.Explainer(load("gpt2"), "raw-attention@published")
    assert caught.value.part == "first position" and "raw-attention instead" in str(caught.value)
    with pytest.raises(ModelError) as caught:
        nbsal.Explainer(load("deberta-v2"), "lrp@published")("A joy.")
    assert caught.value.part == "attention mask" and "DebertaV2ForSequenceClassification" in str(caught.value)


def test_an_error_inside_the_blocks_is_not_blamed_on_the_mask(load):
    subject = load("bert")

    def fail(module, args, output):
        raise ValueError("an error of the model")

    handle = subject.blocks[1].register_forward_hook(fail)
    with pytest.raises(ValueError, match="an error of the model"):
        nbsal.Explainer(subject, "lrp@published")("A joy.")
    handle.remove()
