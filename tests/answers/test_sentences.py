"""What is said of a reply is what leaving out its sources does: in the view, its exports, pictures and files."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import nbsal
from nbsal.explain.prompt.sources import Source
from nbsal.explain.sentences import reply_facts
from nbsal.explain.sentences.evidence import Evidence
from nbsal.explain.sentences.function_words import is_function_word
from nbsal.explain.sentences.reply_sentences import headline, likelihood, matrix_finding, statement
from nbsal.render.headline import plain
from nbsal.samples.notes import prompt
from nbsal.widgets import Answers
from nbsal.widgets.page.html_export import state
from tests.ablation.runs import hide
from tests.answers import planted
from tests.answers.writers import cancelled
from tests.cases import cases

ASKED = [{"role": "user", "content": "Where does Mara live?"}]
CITIES = ["Mara lives in Oslo.", "Boris lives in Rouen."]
NAMED = re.compile(r"depends? (?:a little )?on (document \d|your question|the documents together)")
ALARM = "\N{BLACK UP-POINTING TRIANGLE}"
LIKELY = "(?:over |under )?[0-9.]+\u202f%"
CHANGED = re.compile(f"({LIKELY}) → ({LIKELY})")


@pytest.fixture(scope="module")
def notes():
    return nbsal.load("demo/notes")


def logs_without(subject, answer, word):
    """The log-probability of a word with everything and without each source, by literal masking."""
    units, tokens = answer.reading.units("document"), answer.tokens_of(word)
    rows = np.vstack([np.ones(len(units), dtype=bool), ~np.eye(len(units), dtype=bool)])
    values = hide(subject, answer.reading, units).numbers(rows)[:, tokens].sum(1)
    names = reply_facts.source_names(answer.reading.prompt.sources)
    return values[0], {names[unit.source].sentence: value for unit, value in zip(units, values[1:], strict=True)}


def statements(view, folder):
    """Everything that the view, its exported page, its static page, its answer and the saved answer say."""
    answer = view.result
    answer.save(folder / "answer.json")
    loaded = nbsal.Answer.load(folder / "answer.json")
    saved = Answers(loaded).wait()
    exported = json.loads(json.dumps(state(view), default=lambda data: ""))
    said = [view.picture().sentence, saved.picture().sentence, answer.picture().sentence]
    said += [repr(answer), repr(loaded), re.sub("<[^>]*>", "", view.to_html()), re.sub("<[^>]*>", "", answer.to_html())]
    for facts, chosen in ((exported["_facts"], exported["_chosen"]), (saved._facts, saved._chosen)):
        part = next(part for part in facts["parts"] if part["tokens"] == chosen["tokens"])
        said += ["".join(text for _, text in each["headline"]) for each in (part, chosen)]
    assert exported["_facts"]["parts"] == json.loads(json.dumps(saved._facts["parts"]))
    assert {exported["_facts"]["finding"], saved._facts["finding"]} == {answer.picture().matrix.finding}
    saved.close()
    return said


def check_statements(subject, view, word, source, folder):
    before, without = logs_without(subject, view.result, word)
    assert min(without, key=without.get) == source
    units, scores = view.result.reading.units("document"), view.result.scores[view.result.tokens_of(word)].sum(0)
    best = int(np.argmax([scores[list(unit.tokens)].sum() for unit in units]))
    agreement = (
        "The scores agree."
        if view._sources[units[best].source]["name"] == source
        else "\N{BLACK UP-POINTING TRIANGLE} "
    )
    for said in statements(view, folder):
        (name,), ((first, second),) = set(NAMED.findall(said.split("phrase")[0])), set(CHANGED.findall(said)[:1])
        assert f"“{word}” depends" in said and name == source, said
        assert agreement in said and ("The scores agree" in agreement) == ("The scores of" not in said), said
        assert (first, second) == (likelihood(np.exp(before)), likelihood(np.exp(without[source]))), said
    change = f"{likelihood(np.exp(before))} → {likelihood(np.exp(without[source]))}"
    number = [card["name"] for card in view._sources].index(source)
    cards = dict(zip(view._facts["measured"], view._chosen["changes"], strict=True))
    assert cards[number][0] == change and f"{without[source]:.2f}".replace("-", "−") in cards[number][1]
    assert change in view.to_html()
    said = plain(view._sources[number]["headline"])
    most, after = re.findall(rf"“(\w+)” falls most: .* → ({LIKELY})\.", said)[0]
    assert after == likelihood(np.exp(logs_without(subject, view.result, most)[1][source])), said


@pytest.mark.parametrize("method", ["gradxact", "gae", "random"])
def test_all_statements_agree_with_what_was_measured(notes, method, tmp_path):
    view = Answers(notes, ASKED, documents=CITIES, method=method).wait()
    assert view.selection == view.result.tokens_of("Oslo"), "the view opens on the word that needs a document"
    check_statements(notes, view, "Oslo", "document 1", tmp_path)
    view.close()


def test_a_rival_has_a_sentence_bars_and_a_matrix_of_its_own(notes, tmp_path):
    view = Answers(notes, ASKED, documents=CITIES, method="gradxact").wait()
    (at,) = view.selection
    offered = view._facts["rivals"]
    assert list(offered) == [at] and 1 <= len(offered[at]) <= 4, "the other words are not from the documents"
    view.rival, view.at = "Rouen", at
    view.wait()
    other = nbsal.answer(notes, ASKED, " Mara lives in Rouen", documents=CITIES, method="random", progress=False)
    odds = view.result.evidence.logprob[at] - other.evidence.logprob[-1]
    left = view.result.evidence.by_source[1][at] - other.evidence.by_source[1][-1]
    sentence, (own, after) = view.picture().sentence, 1 / (1 + np.exp([-odds, -left]))
    assert sentence.startswith("“Oslo” rather than “Rouen” depends on document 1")
    assert CHANGED.findall(sentence) == [(likelihood(own), likelihood(after))]
    assert plain(view._chosen["headline"]) == sentence
    assert view._chosen["changes"][1][0].startswith(f"{likelihood(own)} → {likelihood(after)}")
    assert view._facts["names"] == ["Oslo \N{MINUS SIGN} Rouen"] and "document 1" in view._facts["finding"]
    truth = reply_facts.fractions(view.result.reading, np.pad(view.result.rather("Rouen", at).scores, (0, 3)))
    assert view._facts["matrix"][0] == pytest.approx(truth, abs=1e-4)
    view.close()


PROMPT = "Notes:\n- Mara lives in Oslo now.\nQuestion: Where does Mara live?\nAnswer:"


@pytest.mark.parametrize("method", ["gradxact", "occlusion"])
def test_words_of_a_prompt_without_documents_are_named_where_words_are_the_units(notes, method, tmp_path):
    answer = nbsal.answer(notes, PROMPT, method=method, unit="word", progress=False)
    assert answer.evidence.level == "word" == answer.check(progress=False).evidence.level
    words = answer.reading.units("word")
    tokens = answer.tokens_of("Oslo")
    rows = np.vstack([np.ones(len(words), dtype=bool), ~np.eye(len(words), dtype=bool)])
    without = hide(notes, answer.reading, words).numbers(rows)[1:, tokens].sum(1)
    best = int(np.argmin(without))
    facts = answer.facts.part(tokens)
    assert facts.decisive.name.quote == words[best].text == "Oslo" and facts.decisive.without == without[best]
    assert {each.name.quote for each in facts.candidates} == {word.text for word in words if word.text.isalnum()}
    answer.save(tmp_path / "answer.json")
    view = Answers(answer).wait()
    said = [answer.statement().text(), repr(nbsal.Answer.load(tmp_path / "answer.json")), view.picture().sentence]
    unchecked = nbsal.answer(notes, PROMPT, method=method, unit="word", check=False, progress=False)
    view = Answers(unchecked).wait()
    assert view.result.evidence.level == "word"
    said += [unchecked.statement().text(), view.picture().sentence]
    assert all("” in the prompt" in each for each in said)
    sentence = nbsal.answer(notes, PROMPT, method=method, progress=False)
    long = nbsal.answer(
        notes, f"{'Mara lives. ' * 40}{PROMPT}", method=method, unit="word", check=False, progress=False
    )
    assert sentence.evidence.level == long.evidence_level == "sentence"


def test_what_a_reply_needs_of_its_sources_together_is_said():
    """Any of two words suffices: neither is needed alone, and both are together."""
    names = [reply_facts.SourceName("Prompt", "Prompt", "the prompt", quote=word) for word in ("Oslo", "fjord")]
    candidates = tuple(reply_facts.SourceCandidate(name, False, 0.5, -0.12) for name in names)
    facts = reply_facts.PartFacts("Oslo", "", "GAE", (1.0, 0.0), candidates, -0.1, -9.0)
    assert facts.together and facts.decisive is None and facts.agrees
    said = plain(headline(facts))
    assert "the sources together" in said and CHANGED.findall(said) == [("90.5\u202f%", "0.01\u202f%")]
    assert not replace(facts, nothing=-0.2).together and not replace(facts, candidates=candidates[:1]).together


@cases("without, scores, state", [
    ((-9.0, -0.1), (0.8, 0.2), "supported"),
    ((-9.0, -0.1), (0.2, 0.8), "contradicted"),
    ((-0.1, -0.1), (0.0, 0.0), "weak"),
])  # fmt: skip
def test_a_statement_says_whether_hiding_supports_the_scores(without, scores, state):
    names = reply_facts.source_names([Source("document", "Oslo."), Source("document", "Rouen.")])
    candidates = tuple(
        reply_facts.SourceCandidate(name, True, *pair) for name, *pair in zip(names, scores, without, strict=True)
    )
    facts = reply_facts.PartFacts("Oslo", "", "GAE", (*scores, 0.0), candidates, -0.1, min(without))
    assert statement(facts).state == state and statement(replace(facts, before=None)).state == "unchecked"


def test_the_last_word_of_a_prompt_is_no_question():
    """The last sentence of a prompt without documents counts as the question, which words open less often."""
    left, none = np.array([[-9.0], [-0.1], [-9.0]]), np.array([-9.0])
    evidence = Evidence(((0, None), (0, 0), (0, 1)), (), np.array([-0.1]), none, left, (("",),) * 3, "removed")
    assert evidence.falls == 0 and replace(evidence, level="word").falls == pytest.approx(8.9)


def test_a_statement_is_the_headline_with_the_values_behind_it(notes):
    settings = {"documents": CITIES, "method": "gradxact", "progress": False}
    answer = nbsal.answer(notes, ASKED, **settings)
    said, without = answer.statement(), logs_without(notes, answer, "Oslo")[1]
    assert said.text() == answer.picture().sentence
    values = {label.removeprefix("without "): (text, share) for label, text, share in said.effects}
    assert {name: text for name, (text, _) in values.items()} == {
        name: likelihood(np.exp(left)) for name, left in without.items()
    }
    assert values["document 1"][1] == pytest.approx(np.exp(without["document 1"]))
    unchecked = nbsal.answer(notes, ASKED, check=False, **settings).statement()
    assert unchecked.state == "unchecked" and not unchecked.effects


def test_unchecked_scores_are_said_to_be_unchecked(notes):
    unchecked = nbsal.answer(notes, ASKED, documents=CITIES, method="gradxact", check=False, progress=False)
    for text in (repr(unchecked), unchecked.to_html(), unchecked.picture().matrix.finding):
        assert "not checked" in text and "depend" not in text
    assert "“Oslo” depends on document 1" in repr(unchecked.check(progress=False))


def test_the_sentence_of_the_scores_stands_until_it_is_checked(notes):
    seen: list[str] = []
    view = Answers(notes, ASKED, documents=CITIES, method="gradxact", selection=[0])
    view.observe(lambda change: seen.append(str(change["new"].get("parts"))), "_facts")
    view.wait()
    assert "not checked" in seen[0] and "not checked" not in seen[-1] and view.selection == [0], "it was chosen"
    view.close()


def test_a_cancelled_check_keeps_the_scores(notes):
    def call(**watch):
        nbsal.answer(notes, ASKED, " Mara lives in Oslo.", documents=CITIES, method="gradxact", **watch)

    partial = cancelled(call, 5).partial
    assert partial.evidence is None and partial.explained == len(partial.ids) and "not checked" in repr(partial)


def test_either_of_two_documents_is_enough(notes):
    both = nbsal.answer(notes, ASKED, documents=CITIES[:1] * 2, method="gradxact", progress=False)
    assert "“Oslo” depends on the documents together: without all of them" in repr(both)


def test_a_sentence_of_a_prompt_is_named(notes):
    reply = nbsal.answer(
        notes, prompt(CITIES, "Where does Mara live?"), " Mara lives in Oslo.", method="gradxact", progress=False
    )
    assert re.search("“Oslo” depends on “[^”]*Mara lives in Oslo.” in the prompt", repr(reply))
    assert "“in Oslo” on “- Mara lives in Oslo.”" in reply.picture().matrix.finding


QUESTIONS = [
    "Where does Mara live?", "Who borrowed the kettle?", "What colour is the door?", "Where does Boris live?",
    "When does the train to Rouen leave?",
]  # fmt: skip
NOTES = [
    "Mara lives in Oslo.", "Boris lives in Rouen.", "The kettle was borrowed by Anna.", "Jonas likes tea.",
    "The train to Rouen leaves at 9:05.", "The birthday of Gerda is on May 3.",
]  # fmt: skip


@pytest.mark.parametrize("method", ["gae", "random"])
def test_the_alarm_rings_on_words_that_a_source_decides_alone(notes, method):
    """Of scores that name sources at random it rings on values, and of none on words like "the"."""
    rung: list[str] = []
    for question in QUESTIONS:
        reply = nbsal.answer(
            notes, [{"role": "user", "content": question}], documents=NOTES, method=method, progress=False
        )
        values = reply.facts.opened()
        for word in reply.reading.reply_units("word"):
            facts = reply.facts.part(word.tokens)
            if ALARM in plain(headline(facts)):
                rung.append(word.text)
                left = reply.evidence.without[:, list(word.tokens)].sum(1)
                assert left.min() < facts.before - np.log(2) and facts.proposed.without > left.min() / 2
                assert statement(facts).state == "contradicted"
            if method == "random" and set(word.tokens) & set(values) and facts.proposed is not facts.decisive:
                assert rung[-1:] == [word.text] or is_function_word(word.text), "a value is contradicted"
        alone = [unit.tokens for unit in reply.reading.reply_units("word") if is_function_word(unit.text)]
        assert ALARM not in matrix_finding([reply.facts.part(tokens) for tokens in alone])
    assert not [text for text in rung if is_function_word(text)]
    assert (len(rung) > len(QUESTIONS)) == (method == "random"), rung


def test_where_nothing_is_random_the_alarm_needs_a_source_that_stands_out():
    """A word that many sources change alike depends on none of them."""
    names = reply_facts.source_names([Source("document", "Oslo.")] * 5)
    left = (-9.0, -0.1, -0.1, -0.1, -0.1)
    candidates = tuple(
        reply_facts.SourceCandidate(name, True, score, without)
        for name, score, without in zip(names, (0.1, 0.1, 0.1, 0.1, 0.6), left, strict=True)
    )
    facts = reply_facts.PartFacts("Oslo", "", "GAE", (0.2,) * 5, candidates, -0.1, -9.0)
    assert facts.contradicted and not replace(facts, minor=True).contradicted
    alike = tuple(replace(each, without=-9.0 + 0.01 * i) for i, each in enumerate(candidates[:4]))
    assert not replace(facts, candidates=(*alike, candidates[4])).contradicted
    little = replace(facts, candidates=(replace(candidates[0], without=-0.5), *candidates[1:]), nothing=-0.5)
    assert (
        not little.contradicted and ALARM not in plain(headline(little)) and "The scores" not in plain(headline(little))
    )


def test_no_document_is_said_to_matter_where_none_does(notes):
    asked = [{"role": "user", "content": "What colour is the door?"}]
    reply = nbsal.answer(notes, asked, documents=NOTES, method="gae", progress=False)
    assert reply.text == " The notes do not say."
    said = reply.statement()
    assert said.text().startswith("No document matters for") and said.state == "weak"
    assert reply.picture().matrix.finding == "No document matters"
    view = Answers(reply).wait()
    assert view.selection == [] and not view._facts["parts"][0]["matters"]
    view.close()


def test_every_source_that_phrases_depend_on_is_named():
    names = reply_facts.source_names([Source("document", "Oslo."), Source("document", "Rouen.")])
    question = reply_facts.SourceName("You", "You", "your question")

    def phrase(text, *left):
        candidates = tuple(
            reply_facts.SourceCandidate(name, name is not question, float(value == min(left)), value)
            for name, value in zip((*names, question), left, strict=True)
        )
        return reply_facts.PartFacts(text, "", "GAE", (), candidates, -0.1, min(left[:2]))

    parts = [phrase("a", -9.0, -0.1, -0.1)] * 3 + [phrase("is 221", -0.1, -9.0, -0.1), phrase("b", -0.1, -0.1, -9.0)]
    finding = matrix_finding(parts)
    assert finding.startswith("Three of five phrases depend on document 1")
    assert "“is 221” on document 2" in finding and "on your question" in finding


def test_probabilities_are_never_rounded_to_certainty(notes):
    """Of a long reply that is unlikely as a whole they are those of a token; of unlikely words, how many times less."""
    assert likelihood(1.0).startswith("over") and likelihood(0.0).startswith("under")
    name = reply_facts.SourceName("Document 1", "Doc 1", "document 1")
    facts = reply_facts.PartFacts(
        "", "", "GAE", (), (reply_facts.SourceCandidate(name, True, 1.0, -60.0),), -20.0, -60.0, count=40
    )
    assert CHANGED.findall(plain(headline(facts))) == [("60.7\u202f%", "22.3\u202f%")] and facts.per_token
    rare = replace(
        facts, count=1, before=-12.0, candidates=(replace(facts.candidates[0], without=-15.0),), nothing=-15.0
    )
    assert "20 times less likely" in plain(headline(rare))
    unlikely = nbsal.answer(notes, ASKED, " Mara lives in Rouen.", documents=CITIES, method="gae", progress=False)
    assert "log-prob" not in unlikely.to_html()


@pytest.mark.full
def test_planted_documents_are_named(notes, tmp_path):
    named, contradicted = 0, 0
    for reply, city, place in planted.replies(notes, method="gradxact"):
        sentence = reply.picture().sentence
        named += sentence.startswith(f"“{city}” depends on document {place}: ")
        _, without = logs_without(notes, reply, reply.picture().facts.part)
        contradicted += NAMED.findall(sentence) != [min(without, key=without.get)]
        view = Answers(reply, selection=reply.tokens_of(city)).wait()
        check_statements(notes, view, city, f"document {place}", tmp_path)
        view.close()
    print(f"named in {named} of {planted.COUNT} right replies, contradicted in {contradicted}")
    assert named >= 23 and contradicted == 0
