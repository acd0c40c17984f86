"""Runs over tables of replies: what is stored, resumed and refused."""

import json
import threading
from contextlib import suppress

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from transformers import GenerationMixin

import nbsal
from nbsal import cli, corpus
from nbsal.corpus import shards
from nbsal.passes import reply_memory
from nbsal.support.errors import Cancelled, InputError, OverBudget, ServerError, UnknownName
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
            options = {"documents": row["notes"] or (), "seed": 3 + i, "max_new_tokens": 5, "do_sample": True}
            answer = explainers[name].reply(row["asked"], row["said"], progress=False, **options)
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
    assert replies.failures()["text_id"].tolist() == [2] and replies.dataset.count_rows() == len(ROWS)


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
    with refuses("source"):
        run(explainers, ROWS[1:], whole)
    with refuses("methods"):
        run({"gae": explainers["gae"]}, ROWS, whole)
    assert files(whole) == before


def test_rows_that_ask_are_answered_as_by_single_calls(explainers, tmp_path):
    rows = [
        CHAT,
        {"messages": CHAT, "documents": ["Ann wrote the book.", "Ben read it."]},
        {"asked": PROMPT, "reply": " Ann wrote it.", "note": 3},
        {"asked": PROMPT, "messages": CHAT},
        PROMPT,
    ]
    settings = {"max_new_tokens": 4, "unit": "word", "progress": False}
    stored = corpus.explain(explainers["gae"], iter(rows), tmp_path, shard_rows=2, **settings)
    assert (stored.rows, stored.failures()["text_id"].tolist()) == (5, [3])
    frame = stored.to_frame()
    for i, row in enumerate(rows):
        asked = row if isinstance(row, str | list) else row.get("asked", row.get("messages"))
        parts = {name: row[name] for name in ("documents", "reply") if isinstance(row, dict) and name in row}
        if i != 3:
            answer = nbsal.answer(explainers["gae"].subject, asked, method="gae", check=False, **parts, **settings)
            assert tuple(frame["token_ids"][i]) == answer.ids and frame["prompt"][i] == answer.reading.prompt.text
            assert np.allclose(stored.scores(i), answer.unit_scores(), atol=1e-5)
            text = frame["asked"][i]
            assert (text if isinstance(asked, str) else json.loads(text)) == asked


def asked_source(kind, folder, columns):
    """Two prompts as that kind of source, with these names of their columns."""
    frame = pandas.DataFrame({name: [PROMPT, "Who?"] for name in columns})
    path = folder / f"rows.{kind}"
    if kind == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif kind in ("csv", "parquet"):
        frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    else:
        in_memory = {"pandas": frame, "arrow": pyarrow.Table.from_pandas(frame), "polars": polars.from_pandas(frame)}
        return (in_memory | {"dicts": frame.to_dict("records")})[kind]
    return path


@cases("kind", ["jsonl", "csv", "parquet", "pandas", "arrow", "polars", "dicts"])
def test_what_a_source_holds_is_decided_by_its_columns_and_the_model(explainers, explain, tmp_path, kind):
    gae = explainers["gae"]
    settings = {"max_new_tokens": 2, "progress": False}
    source = asked_source(kind, tmp_path, ["messages", "n"])
    stored = corpus.explain(gae, source, tmp_path / "asked", **settings)
    assert isinstance(stored, corpus.Replies) and (len(stored), stored.plan.shard_rows) == (2, 100)
    for columns, arguments in ((["messages", "text"], {}), (["asked", "notes"], {"text": "notes"})):
        source, out = asked_source(kind, tmp_path, columns), tmp_path / columns[1]
        texts = corpus.explain(gae, source, out, progress=False, **arguments)
        assert isinstance(texts, corpus.Corpus) and (len(texts), texts.plan.shard_rows) == (2, 1000)
    source = asked_source(kind, tmp_path, ["asked", "text", "reply"])
    named = corpus.explain(gae, source, tmp_path / "named", reply="reply", **settings)
    assert named.to_frame(["asked", "reply"]).to_numpy().tolist() == [[PROMPT, PROMPT], ["Who?", "Who?"]]
    if kind != "jsonl":  # whose rows are read one by one
        with refuses("text", UnknownName):
            corpus.explain(explain, asked_source(kind, tmp_path, ["messages"]), tmp_path / "other", progress=False)


def test_plain_texts_are_prompts_only_if_they_are_named(explainers, tmp_path):
    texts = corpus.explain(explainers["gae"], [PROMPT, "Who?"], tmp_path / "texts", progress=False)
    settings = {"max_new_tokens": 2, "progress": False}
    replies = corpus.explain(explainers["gae"], [PROMPT, "Who?"], tmp_path / "replies", asked="asked", **settings)
    for stored, kind in ((texts, corpus.Corpus), (replies, corpus.Replies)):
        opened = corpus.open(stored.location)
        assert type(stored) is type(opened) is kind and len(opened) == 2
        assert opened.to_frame().equals(stored.to_frame())
    same = corpus.explain_replies(explainers["gae"], [PROMPT, "Who?"], tmp_path / "replies", **settings)
    assert same.shards == replies.shards


@cases(
    "source, arguments, argument",
    [
        ([PROMPT], {"asked": "asked", "target": 3}, "target"),
        ([CHAT], {"target": 3}, "target"),
        ([PROMPT], {"documents": "notes", "text": "prompt"}, "text"),
        ([PROMPT], {"reply": "reply", "dtype": "float32"}, "dtype"),
        ([PROMPT], {"unit": "word"}, "unit"),
        ([PROMPT], {"max_new_tokens": 3}, "max_new_tokens"),
        ([CHAT], {"tagret": 3}, "generate"),
        ([CHAT], {"do_sample": True}, "seed"),
        ([CHAT], {"shard_rows": 0}, "shard_rows"),
        (pandas.DataFrame({"asked": [PROMPT], "messages": [PROMPT]}), {}, "asked"),
    ],
)
def test_arguments_of_the_other_kind_are_refused(explainers, tmp_path, source, arguments, argument):
    with refuses(argument):
        corpus.explain(explainers["gae"], source, tmp_path, progress=False, **arguments)
    assert not [*tmp_path.iterdir()]


def test_texts_and_replies_are_different_corpora(explainers, tmp_path):
    corpus.explain(explainers["gae"], ["A joy."], tmp_path, progress=False)
    with refuses("location"):
        corpus.open_replies(tmp_path)
    with pytest.raises(InputError):
        run(explainers["gae"], ROWS, tmp_path, shard_rows=1000)


@cases("extension", ["parquet", "jsonl", "csv"])
def test_sources_of_every_form(explainers, tmp_path, extension):
    rows, source = ROWS[:4], tmp_path / f"rows.{extension}"
    if extension == "jsonl":
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        chat, notes = (CHAT, ["Ben read it."]) if extension == "parquet" else (PROMPT, None)
        rows = [{"asked": chat, "notes": row["notes"] and notes, "said": " Ann."} for row in rows]
        frame = pandas.DataFrame(rows)
        frame.to_parquet(source) if extension == "parquet" else frame.to_csv(source, index=False)
    stored = run(explainers["gae"], source, tmp_path / "out")
    direct = run(explainers["gae"], rows, tmp_path / "direct")
    columns = ["asked", "reply", "error"]
    assert stored.to_frame(columns).equals(direct.to_frame(columns)) and len(stored) > 2
    assert np.allclose(stored.sources()["score"], direct.sources()["score"])


def test_arguments_are_checked(explainers, tmp_path):
    explain = explainers["gae"]
    with refuses("seed"):
        corpus.explain_replies(explain, ROWS, tmp_path, do_sample=True, progress=False)
    with refuses("generate", UnknownName):
        run(explain, ROWS, tmp_path, tempertaure=1)
    stored = run(explain, ROWS, tmp_path)
    for row in (9, 2):
        with refuses("i"):
            stored.scores(row)
    with refuses("method", UnknownName):
        stored.sources("lrp")
    with refuses("text", UnknownName):
        run(explain, pandas.DataFrame({"asked": [PROMPT]}), tmp_path / "other")
    with refuses("client"):
        run(explain, ROWS, tmp_path / "third", client=3)
    prompts = run(explain, [PROMPT, CHAT, 3, None], tmp_path / "prompts", documents=None, reply=None)
    assert prompts.failed == 2 and len(prompts.statistics()) == 10


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
    source.write_text(json.dumps({"messages": CHAT, "reply": " A joy."}))  # a row that asks, without names of columns
    arguments = ["corpus", str(source), f"{out}-chat", *arguments[3:5], "--method", "gae", "--unit", "word"]
    assert cli.main(arguments) == 0 and "1 row" in capsys.readouterr().out
    assert corpus.open(f"{out}-chat").plan.replies["unit"] == "word"


def test_the_command_chooses_by_the_size_of_rows_and_resumes_with_its_choice(capsys, tmp_path, monkeypatch):
    writers.load().model.save_pretrained(tmp_path / "writer")
    writers.load().tokenizer.save_pretrained(tmp_path / "writer")
    source, methods = tmp_path / "rows.jsonl", []
    for name, reply in (("short", "A joy."), ("long", "A joy. " * 30)):
        rows = [{"messages": CHAT, "reply": each} for each in ("A joy.", reply)]
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
        arguments = ["corpus", str(source), str(tmp_path / name), "--model", str(tmp_path / "writer")]
        assert cli.main(arguments) == 0
        methods += corpus.open_replies(tmp_path / name).methods
    assert methods == ["attn-lrp", "occlusion"]
    monkeypatch.setattr(reply_memory, "passes", lambda reply: 0)
    assert cli.main(arguments) == 0 and corpus.open_replies(tmp_path / name).methods == ["occlusion"]


def test_replies_of_a_shard_are_written_together_and_resumed_alike(tmp_path, monkeypatch):
    sizes, generate = [], GenerationMixin.generate

    def counted(self, ids, **options):
        sizes.append(len(ids))
        return generate(self, ids, **options)

    monkeypatch.setattr(GenerationMixin, "generate", counted)
    explain = {"gradxact": nbsal.Explainer(writers.load(), "gradxact")}
    prompts = [PROMPT, "A joy.", "Who wrote the book?", 3, "The plot is a bore.", "Ben read it."]
    settings = {"shard_rows": 4, "progress": False, "max_new_tokens": 5}
    replies = corpus.explain_replies(explain, prompts, tmp_path / "whole", **settings)
    assert sizes == [3, 2] and (len(replies), replies.failed) == (5, 1)
    for text, stored in zip(prompts, replies.to_frame()["token_ids"], strict=True):
        if text != 3:
            single = explain["gradxact"].reply(text, max_new_tokens=5, progress=False)
            assert tuple(stored) == single.ids
    cancel, parts = threading.Event(), tmp_path / "parts"
    stopping = settings | {"progress": lambda done, _: done == 5 and cancel.set(), "cancel": cancel}
    with pytest.raises(Cancelled) as caught:
        corpus.explain_replies(explain, prompts, parts, **stopping)
    partial = caught.value.partial
    assert isinstance(partial, corpus.Replies) and len(corpus.open_replies(parts)) == 3 and not partial.complete
    sizes.clear()
    corpus.explain_replies(explain, prompts, parts, **settings)
    assert sizes == [2] and files(parts) == files(tmp_path / "whole")
    shard = parts / "part-000001.parquet"
    shard.write_bytes(shard.read_bytes()[::-1])
    with refuses("location"):
        corpus.open_replies(parts).sources()


@cases(
    "error",
    [Cancelled("stopped"), ServerError("down", status=500), OverBudget(3, 1, 9), ValueError("one")],
)
def test_an_error_about_all_rows_ends_the_run(explainers, tmp_path, monkeypatch, error):
    def explain_or_fail(explainers, row, *others):
        if row["asked"] == "Who?":
            raise error
        return explain_row(explainers, row, *others)

    explain_row, prompts = shards.explain_row, [PROMPT, "Who?", "What?"]
    settings = {"shard_rows": 1, "max_new_tokens": 2, "progress": False}
    with monkeypatch.context() as patch, suppress(Cancelled, ServerError, OverBudget):
        patch.setattr(shards, "explain_row", explain_or_fail)
        corpus.explain_replies(explainers["gae"], prompts, tmp_path, **settings)
    partial, of_one_row = corpus.open(tmp_path), type(error) is ValueError
    assert (partial.rows, partial.failed, partial.complete) == ((3, 1, True) if of_one_row else (1, 0, False))


@cases("column, read", [("units", "scores"), ("gae", "sources"), ("starts", "statistics")])
def test_a_shard_with_other_content_is_refused(whole, column, read):
    replies = corpus.open_replies(whole)
    intact = replies._read_columns

    def forged(shard, columns):
        table = intact(shard, list(columns))
        return table.set_column(table.column_names.index(column), column, pyarrow.array(["x"] * len(table)))

    replies._read_columns = forged
    with refuses("path"):
        getattr(replies, read)(*([0] if read == "scores" else []))
