"""Citations of many replies: verdicts in a stored run, their shares between groups, and the command."""

import json
from threading import Event

import pandas
import pytest

import nbsal
from nbsal import cli
from nbsal.support.errors import Cancelled, InputError, UnknownName
from tests.raising import refuses
from tests.real.citations import notes_cases

COUNT = 8
CASES = [case for case, _ in zip(notes_cases(5), range(COUNT), strict=False)]


def row(case):
    return {"question": case.question, "documents": list(case.documents), "reply": case.reply, "system": case.kind}


def asked(case):
    return {**row(case), "asked": [{"role": "user", "content": case.question}]}


@pytest.fixture(scope="module")
def explain():
    return nbsal.Explainer(nbsal.load("demo/notes"), "occlusion")


@pytest.fixture(scope="module")
def replies(explain, tmp_path_factory):
    rows = [asked(case) for case in CASES]
    rows.append({"asked": rows[0]["asked"], "reply": " Mara lives in Oslo [1]."})
    out = tmp_path_factory.mktemp("corpus") / "out"
    nbsal.corpus.explain(explain, rows, out, citations=True, progress=False)
    return nbsal.corpus.open(out)


def test_a_run_stores_the_verdicts_of_single_answers(explain, replies):
    frame = replies.citations()
    assert frame["verdict"].tolist() == [case.verdict for case in CASES], "none for a row without documents"
    assert replies.failed == 0
    single = explain.reply(
        [{"role": "user", "content": CASES[1].question}], CASES[1].reply, documents=CASES[1].documents, progress=False
    )
    (own,) = single.citations().to_dict("records")
    stored = frame.iloc[1]
    assert tuple(stored["cites"]) == own["cites"] and stored["used_instead"] == own["used_instead"]
    assert stored["drop"] == pytest.approx(own["drop"], abs=1e-5)
    assert frame["documents"].tolist() == [len(case.documents) for case in CASES]


def test_shares_of_groups_add_up_and_have_intervals(replies):
    shares = replies.verdicts([case.kind for case in CASES] + [""])
    assert shares.groupby("group")["share"].sum().to_numpy() == pytest.approx(1)
    twice = shares[(shares["group"] == "elsewhere, said twice") & (shares["verdict"] == "elsewhere")].iloc[0]
    assert twice["share"] == 1 and twice["low"] < 1 == twice["high"] and twice["replies"] == 2
    assert replies.verdicts("position")["group"].nunique() == replies.citations()["position"].nunique()
    assert replies.verdicts("words")["group"].nunique() == 2
    assert replies.verdicts()["citations"].iloc[0] == COUNT


def test_groups_must_fit_the_rows(replies):
    with refuses("by", UnknownName):
        replies.verdicts("size")
    with refuses("by", InputError):
        replies.verdicts(["one"])


def test_runs_without_citations_have_none(explain, tmp_path):
    stored = nbsal.corpus.explain(explain, [asked(CASES[0])], tmp_path / "out", progress=False)
    assert stored.citations().empty and stored.verdicts().empty


def test_a_cancelled_run_is_resumed(explain, tmp_path):
    rows, stop = [asked(case) for case in CASES[:3]], Event()
    settings = {"citations": True, "shard_rows": 1}
    with pytest.raises(Cancelled):
        progress = lambda done, _: stop.set() if done == 1 else None  # noqa: E731
        nbsal.corpus.explain(explain, rows, tmp_path / "out", progress=progress, cancel=stop, **settings)
    assert len(nbsal.corpus.open(tmp_path / "out").citations()) == 1
    whole = nbsal.corpus.explain(explain, rows, tmp_path / "out", progress=False, **settings)
    assert whole.citations()["verdict"].tolist() == [case.verdict for case in CASES[:3]]


def test_the_command_reads_a_log_and_prints_shares(tmp_path, capsys):
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(json.dumps(row(case)) for case in CASES[:4]), encoding="utf-8")
    assert cli.main(["citations", str(log), "--group", "system"]) == 0
    printed = capsys.readouterr().out
    assert "supported" in printed and "elsewhere, said twice" in printed
    assert len(nbsal.corpus.open(f"{log}.citations").citations()) == 4
    assert cli.main(["citations", str(log), "--group", "nothing"]) == 2
    assert cli.main(["citations", str(tmp_path / "log.txt")]) == 2


def test_the_command_says_what_could_not_be_explained(tmp_path, capsys):
    log = tmp_path / "log.parquet"
    rows = [{name: row(CASES[0])[name] for name in ("question", "documents", "reply")} for _ in range(2)]
    rows[1]["reply"] = ""
    pandas.DataFrame(rows).to_parquet(log)
    assert cli.main(["citations", str(log)]) == 0
    assert "1 could not be explained; first: row 1" in capsys.readouterr().out
    pandas.DataFrame(rows[1:]).to_parquet(log)
    assert cli.main(["citations", str(log), "--out", str(tmp_path / "other")]) == 1
