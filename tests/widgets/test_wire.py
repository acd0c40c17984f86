"""What crosses to the page comes out again as it was, and costs what it may."""

import json

import numpy as np

import nbsal
from nbsal.widgets import wire
from tests.cases import cases
from tests.widgets import unwire

WORDS = "The film, though slow, was in the end a warm and oddly funny thing that nobody of us wanted to miss. "
MIXED = "A dull bor\U0001f600e,  naïve film."
TEXTS = ["A joy.", "naïve  \U0001f600\U0001f469\U0001f3fd of 日本語!", ("A man sleeps.", "\tNobody \U0001f600 sleeps.")]


@cases(
    "name, text", [*(("demo", text) for text in TEXTS), *((name, MIXED) for name in ("roberta", "deberta-v2", "gpt2"))]
)
def test_tokens_come_back_with_their_places(reviews, load, name, text):
    head = "causal" if name == "gpt2" else "sequence"
    row = (reviews if name == "demo" else load(name, head, decoding=False)).encode(text)[0]
    back = unwire.tokens(wire.tokens(row))
    content = set(row.content)
    assert [token["special"] for token in back] == [i not in content for i in range(len(row))]
    for i in content:
        assert back[i]["text"] == row.parts[row.segments[i]][slice(*row.offsets[i])]
        assert back[i]["part"] == row.segments[i]


def test_scores_come_back_in_single_precision():
    rows = [np.array([0.3, -2.0, 1e-3]), np.zeros(3), np.array([1e-30, np.inf, np.nan])]
    back = np.frombuffer(wire.scores(rows), "<f4").reshape(3, 3)
    expected = np.nan_to_num(np.array(rows), posinf=wire.LARGEST).astype(np.float32)
    assert np.array_equal(back, expected)


def test_a_first_row_costs_nineteen_bytes_a_token_and_further_ones_four(reviews):
    explain = nbsal.Explainer(reviews, "gradcam", long="window")
    text = WORDS * 45
    found = explain(text)
    size = len(found.scores)
    view = nbsal.widgets.Highlight(explain, text=text).wait()
    wired = {name: getattr(view, name) for name in ("_tokens", "_result")}
    arrays = [wired["_tokens"].pop(name) for name in ("starts", "ends", "flags")]
    assert sum(map(len, arrays)) == 10 * size
    first = len(json.dumps(wired, ensure_ascii=False).encode()) + 10 * size + len(view._scores)
    print(f"{size} tokens: {first / size:.2f} bytes each")
    assert size > 1000 and first <= 19 * size
    assert len(view._scores) == 4 * size
    layers = nbsal.Explainer(reviews, "gradcam").every_layer("A joy.")
    assert len(wire.scores(layers.scores)) == 4 * layers.scores.size
