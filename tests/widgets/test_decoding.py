"""Both ends of the wire: what Python packs the page reads as it was, and damaged bytes end in tokens or an error."""

import base64
import json
import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from nbsal.model.text.tokens import Row
from nbsal.widgets import wire
from tests.widgets import unwire

FRONTEND = Path(__file__).parents[2] / "nbsal" / "frontend"
ESBUILD = FRONTEND / "node_modules" / ".bin" / "esbuild"
ARRAYS = ("starts", "ends", "flags")
PAGE = f"""
import {{ rowsOf, tokensOf }} from {json.dumps(str(FRONTEND / "src" / "decode.ts"))};
const bytes = (text) => {{
  const whole = Buffer.from("x" + Buffer.from(text, "base64").toString("latin1"), "latin1");
  return new DataView(whole.buffer, whole.byteOffset + 1, whole.length - 1); // as a page gets it: not aligned
}};
let asked = "";
for await (const part of process.stdin) asked += part;
const answers = JSON.parse(asked).map(({{ wired, scores }}) => {{
  try {{
    const rows = rowsOf(bytes(scores), wired.count).map((row) => [...row]);
    const [starts, ends, flags] = [wired.starts, wired.ends, wired.flags].map(bytes);
    return {{ tokens: tokensOf({{ ...wired, starts, ends, flags }}), rows }};
  }} catch (error) {{
    return {{ error: `${{error.name}}: ${{error.message}}` }};
  }}
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
    script = subprocess.run(bundle, input=PAGE, capture_output=True, text=True, check=True, timeout=60).stdout
    node = ["node", "--input-type=module", "-e", script]
    run = subprocess.run(node, input=json.dumps(plain), capture_output=True, text=True, timeout=60)
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


def some(count, seed):
    """Packed rows, each with scores for a few layers."""
    chance = random.Random(seed)
    for _ in range(count):
        row = some_row(chance)
        scores = [np.array([chance.gauss(0, 10 ** chance.uniform(-6, 6)) for _ in row.ids]) for _ in range(3)]
        yield row, scores, (wire.tokens(row), wire.scores(scores))


def test_the_page_reads_what_python_packs():
    rows, scores, asked = zip(*some(300, seed=0), strict=True)
    for row, given, (wired, _), answer in zip(rows, scores, asked, page(asked), strict=True):
        ours = unwire.tokens(wired)
        assert [{name: token[name] for name in ours[0]} for token in answer["tokens"]] == ours
        content = set(row.content)
        for i, token in enumerate(answer["tokens"]):
            assert token["special"] == (i not in content)
            if i in content:
                assert token["text"] == row.parts[row.segments[i]][slice(*row.offsets[i])]
        assert np.array_equal(np.float32(given), np.float32(answer["rows"]))


def damaged(packed, chance):
    """Some of its bytes changed, lost or put in."""
    data = bytearray(packed)
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(data) + 1)
        what = chance.choice(["flip", "cut", "put", "high"])
        if what == "flip" and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif what == "cut":
            del data[at : at + chance.randrange(1, 5)]
        elif what == "put":
            data[at:at] = chance.randbytes(chance.randrange(1, 5))
        else:
            data[at:at] = b"\xff" * chance.randrange(1, 400)
    return bytes(data)


def test_damaged_bytes_end_in_tokens_or_an_error():
    """A page says that it cannot be drawn, and why; it neither hangs nor draws what is no token."""
    chance, asked = random.Random(1), []
    for _, _, (wired, scores) in some(600, seed=1):
        count = chance.choice([wired["count"], wired["count"], 10**6])
        name = chance.choice(ARRAYS)
        broken = wired | {name: damaged(wired[name], chance), "count": count}
        asked.append((broken, damaged(scores, chance)))
    answers = page(asked)
    errors = [answer["error"] for answer in answers if "error" in answer]
    assert 100 < len(errors) < len(asked)
    assert {error.split(":")[0] for error in errors} <= {"RangeError", "TypeError"}
    for (wired, _), answer in zip(asked, answers, strict=True):
        if "error" not in answer:
            assert len(answer["tokens"]) == wired["count"]
            assert all(isinstance(token["text"], str) for token in answer["tokens"])
