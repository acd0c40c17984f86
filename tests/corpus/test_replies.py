"""Runs over tables of replies: what is stored, resumed and refused."""

import json
import threading

import numpy as np
import pandas
import pytest

import nbsal
from nbsal import cli, corpus
from nbsal.errors import Cancelled, InputError, UnknownName
from tests.answers import writers
from tests.cases import cases
from tests.corpus.kills import files
from tests.raising import refuses

PROMPT = "The film is a joy. The plot is a bore. Ann wrote the book."
CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who wrote the book?"}]
ROWS = [
    {"asked": PROMPT, "notes": None, "said": " Ann wrote it."},
    {"asked": CHAT, "notes": ["Ann wrote the book.", {"title": "x", "text": "Ben read it."}], "said": None},
    {"asked": "", "notes": None, "said": " Ann."},
    {"asked": PROMPT, "notes": ["Prices fell."], "said": [20, 30, 40]},
    {"asked": CHAT, "notes": None, "said": " A joy."},
    {"asked": PROMPT, "notes": None, "said": None},
]
COLUMNS = {"documents": "notes", "reply": "said"}
SETTINGS = {"shard_rows": 2, "progress": False, "max_new_tokens": 5, "do_sample": True, "seed": 3}
METHODS = ["gae", "contextcite"]


@pytest.fixture(scope="module")
def explainers():
    subject = writers.load()
    return {name: nbsal.Explainer(subject, name) for name in METHODS}


def run(explainers, rows, out, **settings):
    return corpus.explain_replies(explainers, rows, out, **COLUMNS | SETTINGS | settings)


@pytest.fixture(scope="module")
def whole(explainers, tmp_path_factory):
    """The folder of an uninterrupted run."""
    out = tmp_path_factory.mktemp("whole")
    run(explainers, ROWS, out)
    return out


def test_stored_replies_are_those_of_single_calls(explainers, whole):
    replies = corpus.open_replies(whole)
    assert (len(replies), replies.rows, replies.failed, replies.methods) == (5, 6, 1, METHODS)
    assert replies.complete and replies.verify() == [] and "1 failed" in repr(replies)
    frame, statistics = replies.to_frame(), replies.statistics()
    for i, row in enumerate(ROWS):
        if i == 2:
            continue
        for name in METHODS:
            answer = explainers[name].reply(
                row["asked"], row["said"], documents=row["notes"] or (), seed=3 + i, progress=False,
                max_new_tokens=5, do_sample=True,
            )  # fmt: skip
            assert frame["reply"][i] == answer.text and tuple(frame["token_ids"][i]) == answer.ids
            stored = replies.scores(i, name)
            assert np.allclose(stored, answer.unit_scores(), atol=1e-5)
            assert list(stored.index) == list(answer.reading.reply_tokens)
            best = replies.sources(name, k=2)
            truth = answer.sources(2, "reply")[["unit", "text", "share", "score"]]
            assert best[best["text_id"] == i][truth.columns].reset_index(drop=True).round(5).equals(truth.round(5))
        tokens = statistics[statistics["text_id"] == i]
        assert np.allclose(tokens["logprob"], answer.statistics.logprob, atol=1e-5)
        assert tokens["rank"].tolist() == answer.statistics.rank.tolist()
        assert tokens["drawn"].notna().all() == (row["said"] is None)
    assert frame["seed"].tolist()[1] == 4 and frame["origin"].tolist()[1] == "generated"
    assert json.loads(frame["asked"][1]) == CHAT and frame["asked"][0] == PROMPT
    failures = replies.failures()
    assert failures["text_id"].tolist() == [2] and failures["error"][0].strip()
    assert replies.dataset.count_rows() == len(ROWS)


def test_the_manifest_records_how_replies_were_written(whole):
    plan = corpus.open_replies(whole).plan.replies
    assert plan["seed"] == 3 and plan["generate"]["max_new_tokens"] == 5 and plan["unit"] == "sentence"
    assert plan["columns"] == {"asked": "asked"} | COLUMNS


def test_a_cancelled_run_resumes_with_the_same_files(explainers, whole, tmp_path):
    cancel = threading.Event()
    with pytest.raises(Cancelled) as caught:
        run(explainers, ROWS, tmp_path, progress=lambda done, total: done > 2 and cancel.set(), cancel=cancel)
    partial = caught.value.partial
    assert isinstance(partial, corpus.Replies) and len(partial.shards) == 1 and not partial.complete
    times = {shard.name: (tmp_path / shard.name).stat().st_mtime_ns for shard in partial.shards}
    run(explainers, ROWS, tmp_path)
    assert files(tmp_path) == files(whole)
    assert times == {name: (tmp_path / name).stat().st_mtime_ns for name in times}


def test_damaged_shards_are_restored(explainers, whole, tmp_path):
    run(explainers, ROWS, tmp_path)
    shard = tmp_path / "part-000001.parquet"
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    with refuses("location"):
        corpus.open_replies(tmp_path).sources()
    run(explainers, ROWS, tmp_path)
    assert files(tmp_path) == files(whole)


@cases(
    "changed, argument",
    [
        ({"seed": 4}, "replies"),
        ({"max_new_tokens": 6}, "replies"),
        ({"unit": "word"}, "replies"),
        ({"number": "logit"}, "replies"),
        ({"template": writers.TEMPLATES["phi"]}, "replies"),
        ({"documents": None}, "replies"),
        ({"shard_rows": 3}, "shard_rows"),
        ({"resume": False}, "out"),
    ],
)
def test_other_settings_are_refused(explainers, whole, changed, argument):
    before = files(whole)
    with refuses(argument):
        run(explainers, ROWS, whole, **changed)
    assert files(whole) == before


def test_other_rows_and_methods_are_refused(explainers, whole):
    with refuses("source"):
        run(explainers, ROWS[1:], whole)
    with refuses("methods"):
        run({"gae": explainers["gae"]}, ROWS, whole)
    with refuses("location"):
        corpus.open(whole)


def test_texts_and_replies_are_different_corpora(explainers, tmp_path):
    corpus.explain(explainers["gae"], ["A joy."], tmp_path, progress=False)
    with refuses("location"):
        corpus.open_replies(tmp_path)
    with pytest.raises(InputError):
        run(explainers["gae"], ROWS, tmp_path, shard_rows=1000)


@pytest.mark.parametrize("extension", ["parquet", "jsonl", "frame", "csv"])
def test_sources_of_every_form(explainers, tmp_path, extension):
    rows, source = ROWS, tmp_path / f"rows.{extension}"
    if extension == "jsonl":
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        rows = [{**row, "asked": CHAT, "said": " Ann."} for row in ROWS]
        rows = [{**row, "notes": ["Ben read it."] if row["notes"] else None} for row in rows]
        if extension == "csv":
            rows = [{**row, "asked": PROMPT, "notes": None} for row in rows]
        frame = pandas.DataFrame(rows)
        if extension == "csv":
            frame.to_csv(source, index=False)
        elif extension == "parquet":
            frame.to_parquet(source)
        else:
            source = frame
    stored = run(explainers["gae"], source, tmp_path / "out")
    direct = run(explainers["gae"], rows, tmp_path / "direct")
    columns = ["asked", "reply", "error"]
    assert stored.to_frame(columns).equals(direct.to_frame(columns)) and len(stored) > 3
    assert np.allclose(stored.sources()["score"], direct.sources()["score"])


def test_prompts_and_chats_alone_are_rows(explainers, tmp_path):
    settings = {"progress": False, "max_new_tokens": 3}
    replies = corpus.explain_replies(explainers["gae"], [PROMPT, CHAT, 3, None], tmp_path, **settings)
    assert replies.failed == 2 and len(replies.statistics()) == 6
    assert corpus.explain_replies(explainers["gae"], [PROMPT, CHAT, 3, None], tmp_path, **settings).complete


def test_arguments_are_checked(explainers, tmp_path):
    explain = explainers["gae"]
    with refuses("seed"):
        corpus.explain_replies(explain, ROWS, tmp_path, do_sample=True, progress=False)
    with refuses("generate", UnknownName):
        run(explain, ROWS, tmp_path, tempertaure=1)
    with refuses("i"):
        corpus.open_replies(run(explain, ROWS, tmp_path).location).scores(9)
    with refuses("i"):
        corpus.open_replies(tmp_path).scores(2)
    with refuses("method", UnknownName):
        corpus.open_replies(tmp_path).sources("lrp")
    with refuses("text", UnknownName):
        run(explain, pandas.DataFrame({"asked": [PROMPT]}), tmp_path / "other")
    with refuses("client"):
        run(explain, ROWS, tmp_path / "third", client=3)


def test_a_model_that_writes_nothing_fails_in_every_row(reviews, tmp_path):
    stored = corpus.explain_replies(nbsal.Explainer(reviews, "gradcam"), [PROMPT], tmp_path, progress=False)
    assert stored.failed == 1 and "nbsal.Explainer" in stored.failures()["error"][0]


def test_the_command_explains_replies(capsys, tmp_path):
    subject = writers.load()
    subject.model.save_pretrained(tmp_path / "writer")
    subject.tokenizer.save_pretrained(tmp_path / "writer")
    source, out = tmp_path / "rows.jsonl", str(tmp_path / "out")
    source.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    arguments = ["corpus", str(source), out, "--model", str(tmp_path / "writer"), "--asked", "asked"]
    arguments += ["--documents", "notes", "--reply", "said", "--unit", "word", "--max-new-tokens", "4"]
    for _ in range(2):
        assert cli.main([*arguments, "--method", "gae", "--method", "rollout", "--shard-rows", "2"]) == 0
        output = capsys.readouterr().out
        assert "6 rows" in output and "1 could not be explained" in output and "text 2: " in output
    replies = corpus.open_replies(out)
    assert replies.methods == ["gae", "rollout"] and replies.plan.replies["unit"] == "word"
    assert cli.main([*arguments, "--seed", "4"]) == 2 and "Traceback" not in capsys.readouterr().err


def test_replies_of_a_shard_are_written_together_and_resumed_alike(tmp_path, monkeypatch):
    from transformers import GenerationMixin

    sizes, generate = [], GenerationMixin.generate
    monkeypatch.setattr(
        GenerationMixin,
        "generate",
        lambda self, ids, **options: sizes.append(len(ids)) or generate(self, ids, **options),
    )
    explain = {"gradxact": nbsal.Explainer(writers.load(), "gradxact")}
    prompts = [PROMPT, "A joy.", "Who wrote the book?", 3, "The plot is a bore.", "Ben read it."]
    settings = {"shard_rows": 4, "progress": False, "max_new_tokens": 5}
    replies = corpus.explain_replies(explain, prompts, tmp_path / "whole", **settings)
    assert sizes == [3, 2] and (len(replies), replies.failed) == (5, 1)
    for text, stored in zip(prompts, replies.to_frame()["token_ids"], strict=True):
        if text != 3:
            single = explain["gradxact"].reply(text, max_new_tokens=5, progress=False)
            assert tuple(stored) == single.ids
    cancel = threading.Event()
    with pytest.raises(Cancelled):
        corpus.explain_replies(
            explain, prompts, tmp_path / "parts", **settings | {"progress": lambda done, _: done == 5 and cancel.set()},
            cancel=cancel,
        )  # fmt: skip
    assert len(corpus.open_replies(tmp_path / "parts")) == 3
    sizes.clear()
    corpus.explain_replies(explain, prompts, tmp_path / "parts", **settings)
    assert sizes == [2] and files(tmp_path / "parts") == files(tmp_path / "whole")
