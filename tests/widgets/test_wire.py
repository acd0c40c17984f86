"""What crosses to the page comes out again as it was: in a replica of its decoder, and in the page's own."""

import base64
import json
import random
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import nbsal
from nbsal.model.text.tokens import Row
from nbsal.widgets.page import wire
from tests.cases import cases
from tests.widgets import unwire

MIXED = "A dull bor\U0001f600e,  naïve film."
TEXTS = ["A joy.", "naïve  \U0001f600\U0001f469\U0001f3fd of 日本語!", ("A man sleeps.", "\tNobody \U0001f600 sleeps.")]


@cases(
    "name, text", [*(("demo", text) for text in TEXTS), *((name, MIXED) for name in ("roberta", "deberta-v2", "gpt2"))]
)
def test_tokens_come_back_with_their_places(small, load, name, text):
    head = "causal" if name == "gpt2" else "sequence"
    row = (small if name == "demo" else load(name, head, decoding=False)).encode(text)[0]
    back = unwire.tokens(wire.tokens(row))
    content = set(row.content)
    assert [token["special"] for token in back] == [i not in content for i in range(len(row))]
    for i in content:
        assert back[i]["text"] == row.parts[row.segments[i]][slice(*row.offsets[i])]
        assert back[i]["part"] == row.segments[i]


def test_the_likeliest_classes_come_first_and_the_explained_one_is_among_them():
    saliency = SimpleNamespace(probabilities=np.arange(28) / 378, target="c3")
    assert wire.listed(saliency, [f"c{i}" for i in range(28)]) == [*range(27, 15, -1), 3]


def test_scores_come_back_in_single_precision():
    rows = [np.array([0.3, -2.0, 1e-3]), np.zeros(3), np.array([1e-30, np.inf, np.nan])]
    back = np.frombuffer(wire.scores(rows), "<f4").reshape(3, 3)
    expected = np.nan_to_num(np.array(rows), posinf=wire.LARGEST).astype(np.float32)
    assert np.array_equal(back, expected)


def test_labels_have_names_for_readers():
    notes = nbsal.load("demo/notes")
    saliency = nbsal.Explainer(notes, "gradxact")("Mara lives in", target=(2, "in"))
    decision = wire.decision(saliency, notes)
    assert decision["target"] == "in after lives [2]" and decision["unit"] == "score for “in” after “lives”"
    assert decision["names"]["in after lives [2]"] == "“in” after “lives”" and decision["names"]["lives"] == "“lives”"
    assert not any("#" in name for name, _ in decision["probabilities"])
    assert saliency.caption().endswith("explained: “in” after “lives” | gradxact")
    assert replace(saliency, target="ing #17 after lives [2]").caption().endswith(": “ing” after “lives” | gradxact")


FRONTEND = Path(__file__).parents[2] / "nbsal" / "frontend"
ESBUILD = FRONTEND / "node_modules" / ".bin" / "esbuild"
ARRAYS = ("starts", "ends", "flags")
PAGE = f"""
import {{ rowsOf, tokensOf }} from {json.dumps(str(FRONTEND / "src" / "page" / "decode.ts"))};
const bytes = (text) => {{
  const whole = Buffer.from("x" + Buffer.from(text, "base64").toString("latin1"), "latin1");
  return new DataView(whole.buffer, whole.byteOffset + 1, whole.length - 1); // as a page gets it: not aligned
}};
let asked = "";
for await (const part of process.stdin) asked += part;
const answers = JSON.parse(asked).map(({{ wired, scores }}) => {{
  const rows = rowsOf(bytes(scores), wired.count).map((row) => [...row]);
  const [starts, ends, flags] = [wired.starts, wired.ends, wired.flags].map(bytes);
  return {{ tokens: tokensOf({{ ...wired, starts, ends, flags }}), rows }};
}});
console.log(JSON.stringify(answers));
"""
PIECES = ["a", "joy", " ", "\u00e9", "\U0001f600", "\U0001f469\U0001f3fd", "\u65e5\u672c", "\n", "\u200f"]


def page(asked):
    """What `decode.ts` makes of packed tokens and scores, one answer each."""
    if shutil.which("node") is None or not ESBUILD.exists():
        pytest.skip("the front end's tools are not installed (npm ci in nbsal/frontend)")
    plain = [
        {
            "wired": wired | {name: base64.b64encode(wired[name]).decode() for name in ARRAYS},
            "scores": base64.b64encode(scores).decode(),
        }
        for wired, scores in asked
    ]
    bundle = [str(ESBUILD), "--bundle", "--format=esm", "--platform=node"]
    script = subprocess.run(bundle, input=PAGE, capture_output=True, text=True, check=True, timeout=240).stdout
    node = ["node", "--input-type=module", "-e", script]
    run = subprocess.run(node, input=json.dumps(plain), capture_output=True, text=True, timeout=240)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def some_row(chance):
    """Tokens anywhere in a text or a pair, in any order, over each other, some special, some hidden."""
    parts = tuple("".join(chance.choices(PIECES, k=chance.randrange(1, 60))) for _ in range(chance.choice([1, 1, 2])))
    size = chance.randrange(1, 12)
    segments = sorted(chance.randrange(len(parts)) for _ in range(size))
    spans = [sorted(chance.choices(range(len(parts[part]) + 1), k=2)) for part in segments]
    return Row(
        text=parts[0] if len(parts) == 1 else parts,
        ids=tuple(range(size)),
        tokens=tuple(chance.choice(["a", "##b", "\u2581c", "[SEP]", "<b>"]) for _ in range(size)),
        offsets=tuple((start, end) for start, end in spans),
        segments=tuple(segments),
        special=tuple(chance.random() < 0.2 for _ in range(size)),
        types=(0,) * size,
        mask=tuple(int(chance.random() < 0.9) for _ in range(size)),
    )


def test_the_page_reads_what_python_packs():
    chance = random.Random(0)
    rows = [some_row(chance) for _ in range(300)]
    scores = [[[chance.gauss(0, 10 ** chance.uniform(-6, 6)) for _ in row.ids] for _ in range(3)] for row in rows]
    packed = [(wire.tokens(row), wire.scores(np.array(each))) for row, each in zip(rows, scores, strict=True)]
    for row, given, (wired, _), answer in zip(rows, scores, packed, page(packed), strict=True):
        ours = unwire.tokens(wired)
        assert [{name: token[name] for name in ours[0]} for token in answer["tokens"]] == ours
        content = set(row.content)
        for i, token in enumerate(answer["tokens"]):
            assert token["special"] == (i not in content)
            if i in content:
                assert token["text"] == row.parts[row.segments[i]][slice(*row.offsets[i])]
        assert np.array_equal(np.float32(given), np.float32(answer["rows"]))
