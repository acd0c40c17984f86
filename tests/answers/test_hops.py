"""Scores followed through the reply: as sums of products of its rows, in everything that shows an answer."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import nbsal
from nbsal.cli import main
from nbsal.explain.prompt.reading import Unit
from nbsal.explain.scoring.hops import scaled
from nbsal.explain.sentences.hop_words import find_route
from nbsal.explain.sentences.reply_sentences import carriers_text
from nbsal.methods import default
from nbsal.model.target import Target
from nbsal.render import sheet_terminal
from nbsal.render.headline import percent
from nbsal.widgets import Answers
from tests.ablation.runs import hide
from tests.answers import writers
from tests.raising import refuses

ROW = next(row for row in nbsal.samples.texts("notes") if len(row["source"]) == 2)
ASKED = [{"role": "user", "content": ROW["question"]}]


def explained(method, **settings):
    documents = {"documents": ROW["documents"], "unit": "document", "progress": False} | settings
    return nbsal.answer(nbsal.load("demo/notes"), ASKED, method=method, **documents)


def last_word(answer):
    """The token that holds the value that the question asks for."""
    return [i for i in answer.reading.content if any(map(str.isalnum, answer.reading.reply_tokens[i]))][-1]


def expected(answer, own, hops):
    """The scores of a row in shares, and what is left in the reply, by powers of the rows of the reply."""
    start = answer.reading.start
    rows = scaled(answer.scores)
    prompt, reply = rows[:, :start], rows[:, start:]
    flow, total = own[start:], own[:start].copy()
    for _ in range(hops):
        total += flow @ prompt
        flow = flow @ reply
    return total, flow


@pytest.mark.parametrize("method", ["gae", "gradxact", "ifr"])
def test_hops_are_products_of_the_rows(method):
    answer = explained(method, check=False)
    start, token = answer.reading.start, last_word(answer)
    for span in (token, slice(token - 2, token + 1)):
        direct = answer.of(span)
        own = np.zeros(len(answer.reading.row))
        own[: len(direct.scores)] = direct.scores
        own /= np.abs(own).sum()
        for hops in (1, 2, len(answer.ids)):
            total, flow = expected(answer, own, hops)
            followed = answer.of(span, hops=hops)
            assert np.abs(followed.scores).sum() <= 1 + 1e-9
            if method == "ifr":  # hops read the model
                continue
            np.testing.assert_allclose(followed.scores[:start], total, atol=1e-12)
            np.testing.assert_allclose(followed.scores[start:], flow[: len(followed.scores) - start], atol=1e-12)
            shares = followed.provenance["shares"]
            assert sum(shares["arrived"]) + shares["left in the reply"] + shares["cancelled"] == pytest.approx(1)
            assert method == "gradxact" or abs(shares["cancelled"]) < 1e-12
        exact = own[:start] + own[start:] @ np.linalg.solve(
            np.eye(len(answer.ids)) - scaled(answer.scores)[:, start:], scaled(answer.scores)[:, :start]
        )
        np.testing.assert_allclose(answer.of(span, hops="all").scores[:start], exact, atol=1e-8)
    assert answer.of(token, hops=0).scores.tolist() == answer.of(token).scores.tolist()
    np.testing.assert_allclose(explained("gae").matrix(hops=2).sum(axis=1), 1)


@pytest.mark.parametrize("method", ["gae", "gradxact", "ifr"])
def test_hops_end_where_nothing_is_left(method):
    answer = explained(method, check=False)
    many, enough = answer.through(10**9), answer.through(60)
    np.testing.assert_allclose(many.rows, enough.rows, atol=1e-8)
    assert many.followed.hops == 10**9 and len(many.followed.arrived) <= 60


def test_an_answer_through_the_reply_shows_it_everywhere(tmp_path):
    answer = explained("ifr")
    through = answer.through("all")
    token, start = last_word(answer), answer.reading.start
    np.testing.assert_allclose(
        scaled(through.rows[token][None])[0, :start], answer.of(token, hops="all").scores[:start]
    )
    pd.testing.assert_frame_equal(through.matrix("sentence"), answer.matrix("sentence", hops="all"))
    pd.testing.assert_frame_equal(through.sources(rows="word"), answer.sources(rows="word", hops="all"))
    assert not through.sources().share.equals(answer.sources().share)
    pd.testing.assert_frame_equal(answer.matrix(hops=0), through.through(0).matrix())
    finding = through.facts.part([token])
    copy = sheet_terminal.render(through.picture_of([token]).sheet())
    assert all(f"{word.text} {percent(word.share, 0)}" in copy for word in finding.through.words)
    assert carriers_text(finding) and not carriers_text(answer.facts.part([token]))
    through.save(tmp_path / "answer.json")
    loaded = nbsal.Answer.load(tmp_path / "answer.json")
    assert loaded.hops == "all" and loaded.to_html() == through.to_html()
    assert explained("ifr", hops="all").rows.tolist() == through.rows.tolist()


def test_a_corpus_and_the_command_line_follow_the_reply(tmp_path, capsys):
    explain = nbsal.Explainer(nbsal.load("demo/notes"), "gae")
    rows = [{"asked": ASKED, "documents": ROW["documents"]}]
    settings = {"documents": "documents", "unit": "document", "progress": False}
    replies = nbsal.corpus.explain_replies(explain, rows, tmp_path / "all", hops="all", **settings)
    answer = explained("gae", hops="all")
    assert replies.sources(k=2).share.tolist() == pytest.approx(answer.sources(2, "reply").share.tolist())
    with refuses("hops"):
        nbsal.corpus.explain_replies(explain, rows, tmp_path / "wrong", hops=-1, **settings)
    notes = tmp_path / "notes.txt"
    notes.write_text("\n".join(ROW["documents"]))
    printed = []
    for hops in ("0", "all"):
        assert main(["answer", ROW["question"], "--documents", str(notes), "--method", "gae", "--hops", hops]) == 0
        printed.append(capsys.readouterr().out)
    assert f"{answer.sources(1, 'reply').share[0]:6.1%}" in printed[1] and printed[0] != printed[1]


def test_carriers_are_the_words_that_received_the_scores():
    answer = explained("gae", check=False)
    token, start = last_word(answer), answer.reading.start
    through = answer.through("all")
    found = find_route(answer.reading, answer.scores, through.followed, [token])
    row = scaled(answer.scores[token][None])[0]
    assert found.share == pytest.approx(row[start:].sum())
    for word in found.hops[0]:
        assert word.share == pytest.approx(row[[start + i for i in word.tokens]].sum())


@pytest.mark.parametrize("hops", [-1, 1.5, True, "some", None])
def test_what_is_no_number_of_hops_is_refused(hops):
    with refuses("hops"):
        explained("gae", check=False, hops=hops) if hops is not None else explained("gae").through(hops)


def test_methods_without_scores_of_the_reply_are_refused():
    answer = explained("occlusion", check=False)
    assert not answer.can_follow
    with refuses("hops"):
        answer.of(0, hops=1)
    with refuses("hops"):  # before anything is run
        explained("occlusion", check=False, hops=1, progress=lambda *_: pytest.fail("it was run"))


@pytest.mark.parametrize("method", ["occlusion", "gae"])
def test_the_view_follows_scores_by_what_the_model_reads(method, monkeypatch):
    """Other methods name words that matter as little as "The", and those that hide name none."""
    answer = explained(method)
    view = Answers(answer, hops="all").wait()
    routes = explained("ifr", hops="all")
    assert view.method == method and view.result.method == "ifr" and view._facts["follows"]
    assert view.result.rows.tolist() == routes.rows.tolist()
    assert view.picture().sentence == routes.picture().sentence
    assert any("routes" in note and "not" in note for note in view._result["notes"])
    view.hops = 0
    assert view.wait().result.method == method
    assert Answers(explained("gae", hops="all")).wait().result.method == "gae", "an answer is shown as it is"
    monkeypatch.setattr(default, "FOR_ROUTES", ())
    view = Answers(answer, hops="all").wait()
    assert view.result.method == method and view._facts["follows"] == (method != "occlusion")


def test_what_came_through_a_word_is_checked_by_hiding_it(tmp_path):
    answer = explained("ifr", hops="all")
    reading, token = answer.reading, last_word(answer)
    through = answer.facts.part([token]).through
    word = through.words[0]
    places = [reading.start + i for unit in reading.reply_units("word") for i in unit.tokens if unit.text == word.text]
    assert word.text == "Gerda" and len(places) == 2, "both of them are hidden"
    hidden = hide(answer.running.explainer.subject, reading, [Unit("", "", -1, (0, 0), tuple(places))])
    assert through.without == pytest.approx(float(hidden.numbers([[False]])[0, token]), abs=1e-6)
    assert (
        answer.evidence.logprob[token] - through.without
        > 5
        > 0.5
        > answer.evidence.logprob[token] - min(through.others)
    )
    assert through.needs == f"document {1 + ROW['source'][0]}"
    said = answer.statement().text()
    assert f"“{word.text}” depends on {through.needs}" in said and "not checked" not in said
    answer.save(tmp_path / "answer.json")
    assert nbsal.Answer.load(tmp_path / "answer.json").statement().text() == said
    assert "(not checked)" in replace(answer, followed=replace(answer.followed, without=None)).statement().text()
    no_words = replace(answer.followed, without=np.tile(answer.evidence.logprob, (len(answer.followed.without), 1)))
    assert "does not confirm" in replace(answer, followed=no_words).statement().text()
    assert explained("ifr", check=False).through("all").check(progress=False).statement().text() == said


LINEAR = ("gradxact", "integrated", "attn-lrp", "gim", "gae", "random")


@pytest.mark.some(8)
@pytest.mark.parametrize("method", LINEAR)
@pytest.mark.parametrize("name", ["llama", "qwen3", "mistral", "gemma2", "gpt2", "t5"])
def test_replies_of_any_model_are_followed(name, method):
    _, answer = writers.answer(writers.load(name), method, check=False)
    start, token = answer.reading.start, len(answer.ids) - 1
    own = scaled(answer.scores)[token]
    for hops in (1, 2, len(answer.ids)):
        total, flow = expected(answer, own, hops)
        followed = answer.of(token, hops=hops)
        np.testing.assert_allclose(followed.scores[:start], total, atol=1e-9)
        shares = followed.provenance["shares"]
        assert shares["left in the reply"] <= np.abs(flow).sum() + 1e-9
        assert sum(shares["arrived"]) + shares["left in the reply"] + shares["cancelled"] == pytest.approx(1)


@pytest.mark.parametrize("method", ["ifr", "ifr@flashtrace"])
@pytest.mark.parametrize("span", [slice(-3, -1), -2])
def test_ifr_reads_the_reply_as_one_weighted_span_at_each_hop(span, method):
    """As Pan et al. do, who add up sums; ours are shares. tests/methods/test_ifr.py compares with their program."""
    answer = explained(method, check=False)
    tokens, start = answer.tokens_of(span), answer.reading.start
    last = start + max(tokens)

    def read(weights):
        terms = tuple(((position, 0), weight) for position, weight in weights.items() if weight)
        encoded = nbsal.Encoded([answer.reading.row], 0)
        (saliency,) = answer.running.explainer.explain_encoded(encoded, [Target("span", terms)])
        return saliency.scores.astype(float)

    scores = read({start + token - 1: 1.0 for token in tokens})
    size = scores.sum() if method == "ifr" else 1
    result, ratio, sums = scores[:start] / size, 1.0, [scores[:start].sum() / scores.sum()]
    for hops in (1, 2, 3):
        carried = scores[start:last]
        ratio *= carried.sum() / scores.sum()
        scores = read({start + i: float(weight) for i, weight in enumerate(carried)})
        result = result + ratio * scores[:start] / (scores.sum() if method == "ifr" else 1)
        sums.append(ratio * scores[:start].sum() / scores.sum())
        followed = answer.of(span, hops=hops)
        np.testing.assert_allclose(followed.scores[:start], result, rtol=1e-4, atol=1e-6)
        shares = followed.provenance["shares"]
        np.testing.assert_allclose(shares["arrived"], sums, rtol=1e-4)
        assert sum(sums) + shares["left in the reply"] + shares["cancelled"] == pytest.approx(1)
        assert bool(np.isclose(np.abs(followed.scores).sum(), 1)) is (method == "ifr")
    assert answer.of(span, hops="all").provenance["shares"]["left in the reply"] <= 1e-9
    through = answer.through(2)
    row, part = through.rows[tokens[-1], :start], answer.of(tokens[-1], hops=2).scores[:start]
    size = answer.scores[tokens[-1]].sum() if method == "ifr" else 1
    np.testing.assert_allclose(row, part * size, rtol=1e-4, atol=1e-6)


def test_the_view_follows_the_reply():
    view = Answers(explained("gradxact"), hops=1).wait()
    token = last_word(view.result)
    view.selection = [token]
    view.wait()
    assert view.result.hops == 1 and view._chosen["through"]["lead"]
    words = [word for hop in view._chosen["through"]["hops"] for _, word, _ in hop]
    assert all(word in view.result.text for word in words)
    view.rival, view.at = "not", token
    assert view.wait()._chosen["rival"] and view._chosen["through"] == {}, "nothing says what carried a contrast"
    view.rival = view.at = None
    view.hops = 0
    assert view.wait().result.hops == 0 and view._chosen["through"] == {}
    assert Answers(view.result.through(2)).wait().hops == 2
    with refuses("hops"):
        view.hops = "some"
