"""Citations: their marks and statements, and whether a reply uses the documents that it cites."""

import numpy as np
import pytest
import torch

import nbsal
from nbsal.explain.citations.marks import find_citations, without_marks
from nbsal.explain.citations.quotes import find_quotes
from nbsal.explain.citations.subsets import DocumentSubsets
from nbsal.explain.citations.verdicts import LEAST, StatementWord, judge_support
from tests.cases import cases
from tests.raising import refuses
from tests.real.citations import judged, notes_cases

TITLES = ("Travel notes", "Prices", "")
QUESTION = [{"role": "user", "content": "Where does Mara live?"}]
DOCUMENTS = ["Mara lives in Oslo now.", "Boris lives in Rouen.", "The keys to the attic are with Nora."]
FORMS = [
    ("It is in Oslo [1], and leaves at nine [3].", [((1,), "It is in Oslo"), ((3,), "and leaves at nine")]),
    ("Oslo is far. [1] Trains leave. [2]", [((1,), "Oslo is far."), ((2,), "Trains leave.")]),
    ("[1] says that trains leave.", [((1,), "says that trains leave.")]),
    ("According to [2], trains leave.", [((2,), "trains leave.")]),
    ("Trains leave [1, 3]; ships sail [1-3].", [((1, 3), "Trains leave"), ((1, 2, 3), "ships sail")]),
    ("Trains leave [1][3], [2].", [((1, 3, 2), "Trains leave")]),
    ("Trains leave [doc 2] (source 3).", [((2, 3), "Trains leave")]),
    ("Trains leave (Travel notes).", [((1,), "Trains leave")]),
    ("Trains leave <cite>2</cite> now <cite doc='3'/>.", [((2,), "Trains leave"), ((3,), "now")]),
    ("Trains leave <cite>Prices</cite>.", [((2,), "Trains leave")]),
    ("Trains leave【3†source】.", [((3,), "Trains leave")]),
    ("Trains leave[^1] and ships sail².", [((1,), "Trains leave"), ((2,), "and ships sail")]),
    ("東京は大きい[１]。次も[2]。", [((1,), "東京は大きい"), ((2,), "次も")]),
    ("القطار يغادر [٢].", [((2,), "القطار يغادر")]),
    ("Trains leave [[1]].", [((1,), "Trains leave")]),
    ("Trains leave [1] or [2].", [((1,), "Trains leave"), ((2,), "Trains leave")]),
    ("Trains leave [99].", [((99,), "Trains leave")]),
    ("Os[1]lo, 10² m² and [2020].", []),
    ("[1][2]", []),
    ("", []),
]


def stated(reply, titles=TITLES, form=None):
    return [(each.cites, reply[slice(*each.span)]) for each in find_citations(reply, titles, form)]


@cases("reply, expected", FORMS)
def test_marks_name_documents_and_end_statements(reply, expected):
    assert stated(reply) == expected


def test_own_marks_are_those_of_a_regular_expression():
    assert stated("Trains leave {2}. Ships sail [1].", form=r"\{(\d)\}") == [((2,), "Trains leave")]
    assert stated("Trains leave #Prices#.", form=r"#([^#]+)#") == [((2,), "Trains leave")]
    with refuses("form"):
        stated("Trains leave (2).", form="(")


def test_many_marks_are_read_in_little_time():
    assert len(stated("Trains leave [1]. " * 3000)) == 3000
    assert stated("<cite " * 5000 + "[" * 5000 + "[1" * 5000) == []


def test_a_reply_without_its_marks_keeps_the_place_of_each_character():
    reply = "It is in Oslo [1], now [2]."
    text, places = without_marks(reply, [each.marks for each in find_citations(reply, TITLES)])
    assert text == "It is in Oslo, now." == "".join(reply[place] for place in places)


def test_quotes_say_how_exactly_a_document_has_them():
    documents = ["Trains leave  at nine.", 'They say "No".']
    reply = 'It says “Trains leave”, «trains leave», "leave at nine." and 「leave AT nine」 but “never”.'
    found = [(quote.found, quote.document, quote.place) for quote in find_quotes(reply, documents)]
    assert found == [
        ("exact", 1, (0, 12)),
        ("other case", 1, (0, 12)),
        ("other white space", 1, (7, 21)),
        ("other case and white space", 1, (7, 21)),
        ("not found", None, None),
    ]


# --- verdicts -----------------------------------------------------------------------------------------------------

UNLIKELY, SURE = -8.0, -0.1


def subsets_of(values, count=3):
    """Log-probabilities of one word by the documents that stay; where none of `values` has them, what less has."""
    stays = [tuple(n + 1 for n in range(count) if bits >> n & 1) for bits in range(2**count)]
    best = [max(value for some, value in values.items() if {*some} <= {*each}) for each in stays]
    return DocumentSubsets(tuple(range(count)), tuple(stays), np.array(best)[:, None])


def verdict(values, cites, written, given=False):
    support = judge_support([StatementWord("Oslo", (0,), given, frozenset(written))], [0], cites, subsets_of(values))
    return support.verdict, support.instead


@cases(
    "values, cites, written, expected",
    [
        ({(): UNLIKELY, (1,): SURE}, [1], [1], ("supported", None)),
        ({(): UNLIKELY, (1,): SURE, (2,): SURE}, [1], [1, 2], ("supported", None)),  # said twice
        ({(): UNLIKELY, (1,): SURE, (2,): SURE}, [3], [1, 2], ("elsewhere", 1)),
        ({(): UNLIKELY, (1,): SURE}, [2], [1], ("elsewhere", 1)),
        ({(): UNLIKELY, (1,): SURE}, [99], [1], ("elsewhere", 1)),
        ({(): SURE}, [1], [1], ("decoration", None)),
        ({(): SURE}, [2], [1], ("not from the documents", None)),
        ({(): UNLIKELY}, [1], [], ("not from the documents", None)),
        ({(): UNLIKELY, (1,): SURE}, [1], [], ("supported", None)),  # in other words
        ({(): UNLIKELY, (1,): UNLIKELY + LEAST / 2}, [1], [1], ("decoration", None)),
        ({(): UNLIKELY, (1, 2): SURE}, [1, 2], [1, 2], ("supported", None)),
    ],
)
def test_verdicts_follow_what_documents_say_and_do(values, cites, written, expected):
    assert verdict(values, cites, written) == expected


def test_what_all_documents_do_is_their_form():
    every = {(number,): SURE for number in (1, 2, 3)}
    assert verdict({(): UNLIKELY, **every}, [1], []) == ("not from the documents", None)


def word(text, tokens, given=False, written=()):
    return StatementWord(text, tokens, given, frozenset(written))


def of_words(words, table, cites):
    """The verdict on a statement of several words, of which each has one log-probability for each set of documents."""
    stays, values = zip(*table.items(), strict=True)
    subsets = DocumentSubsets(tuple(range(len(max(stays, key=len)))), stays, np.array(values))
    support = judge_support(words, range(len(words)), cites, subsets)
    return support.verdict, support.needed


def both(every, first, second, none):
    """What two words have with all of two documents, either of them, and none."""
    return {(1, 2): every, (1,): first, (2,): second, (): none}


def test_words_of_the_question_count_only_where_a_document_decides_them():
    moderate = both([-0.5], [-0.5], [-2.5], [-2.5])
    assert of_words([word("Oslo", (0,), given=False, written=[1])], moderate, [1])[0] == "supported"
    assert of_words([word("Oslo", (0,), given=True, written=[1])], moderate, [1])[0] == "decoration"
    decided = both([-0.05], [-0.05], [-3.0], [-3.0])
    assert of_words([word("Oslo", (0,), given=True, written=[1])], decided, [1])[0] == "supported"


def test_copied_words_count_before_words_that_a_document_makes_likely_by_its_form():
    words = [word("pet", (0,)), word("Cosmo", (1,), written=[1])]
    table = both([-0.1, -0.1], [-0.1, -0.1], [-0.1, -9.0], [-9.0, -9.0])
    assert of_words(words, table, [2]) == ("elsewhere", (1,))


def test_of_documents_that_make_a_word_likelier_those_that_write_it_count():
    table = both([-0.1], [-0.1], [-0.1], [-9.0])
    assert of_words([word("called", (0,), written=[1])], table, [2]) == ("not from the documents", (1,))


def test_a_value_of_no_document_outweighs_words_that_one_makes_likelier_by_its_form():
    words = [word("visits", (0,), written=[1]), word("Thursday", (1,))]
    table = both([-0.2, -5.0], [-0.2, -5.0], [-2.0, -5.0], [-2.5, -5.0])
    assert of_words(words, table, [1])[0] == "not from the documents"


def test_words_that_gain_little_beside_others_decide_nothing():
    words = [word("works", (0,), written=[1, 2]), word("plumber", (1,), written=[1])]
    table = both([-1.0, -0.2], [-1.0, -0.2], [-1.0, -9.0], [-3.5, -9.0])
    assert of_words(words, table, [2]) == ("elsewhere", (1,))


def test_effects_are_compared_with_those_of_the_other_documents():
    alone = {(1,): [-1.0], **{(number,): [-4.5] for number in (2, 3, 4)}}
    without = {tuple({1, 2, 3, 4} - {number}): [-1.0 if number > 1 else -4.5] for number in (1, 2, 3, 4)}
    table = {(1, 2, 3, 4): [-1.0], (): [-9.0], **alone, **without}
    assert of_words([word("Oslo", (0,), written=[1, 2])], table, [2]) == ("unclear", (1,))
    about_another = [word("Mara", (0,), given=True, written=[1]), word("Oslo", (1,), written=[1, 2])]
    with_name = {stays: [-0.1, *values] for stays, values in table.items()}
    assert of_words(about_another, with_name, [2]) == ("elsewhere", (1,))


def test_certain_words_are_all_alike():
    table = both([-1e-4], [-1e-4], [-1e-2], [-1e-2])
    assert of_words([word("Falk", (0,), written=[1])], table, [1])[0] == "decoration"


# --- replies ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def notes():
    return nbsal.load("demo/notes")


def answer(subject, reply, documents=DOCUMENTS, **settings):
    return nbsal.answer(subject, QUESTION, reply, documents=documents, progress=False, **settings)


def test_verdicts_of_demo_notes_are_those_of_its_world(notes):
    chosen = [case for case, _ in zip(notes_cases(7), range(12), strict=False)]
    assert [judged(notes, case) for case in chosen] == [case.verdict for case in chosen]


def test_the_model_reads_no_marks_that_its_vocabulary_lacks(notes):
    cited = answer(notes, " Mara lives in Oslo [1].")
    assert cited.text == " Mara lives in Oslo."
    (row,) = cited.citations().to_dict("records")
    assert (row["statement"], row["cites"], row["verdict"]) == ("Mara lives in Oslo", (1,), "supported")


def test_numbers_are_those_of_prompts_without_documents(notes):
    cited = answer(notes, " Mara lives in Oslo [1].")
    (row,) = cited.citations().to_dict("records")
    tokens = [i for i, (start, end) in enumerate(cited.reading.reply_spans) if start < len(" Mara lives in Oslo")]
    units = cited.reading.units("document")
    sources = [number for number, source in enumerate(cited.reading.prompt.sources) if source.kind == "document"]

    def literal(stays):
        hidden = {i for unit in units if unit.source in sources and unit.source not in stays for i in unit.tokens}
        kept = [place for place in range(len(cited.reading.row)) if place not in hidden]
        ids, places = torch.tensor([[cited.reading.row.ids[i] for i in kept]]), torch.tensor([kept])
        with torch.no_grad():
            logits = notes.model(ids, attention_mask=torch.ones_like(ids), position_ids=places).logits[0]
        shift = len(kept) - len(cited.ids)
        return sum(float(logits[shift + i - 1].log_softmax(-1)[cited.ids[i]]) for i in tokens)

    whole, none = literal(sources), literal([])
    assert row["drop"] == pytest.approx(whole - literal(sources[1:]), abs=1e-4)
    assert row["only"] == pytest.approx(literal(sources[:1]) - none, abs=1e-4)


def test_nothing_is_run_twice(notes):
    cited = answer(notes, " Mara lives in Oslo [1].")
    ablation = cited.running.experiment.ablation
    before = ablation.forwards
    checked = cited.check_citations(progress=False)
    assert ablation.forwards - before == len(DOCUMENTS), "each document alone; all else the check has run"
    checked.citations()
    cited.citations()
    assert ablation.forwards - before == len(DOCUMENTS)


def test_progress_counts_what_is_run(notes):
    seen = []
    answer(notes, " Mara lives in Oslo [1].").check_citations(
        progress=lambda done, total, *_: seen.append((done, total))
    )
    assert seen[-1][0] == seen[-1][1] > len(DOCUMENTS)


def test_all_quotes_of_a_statement_must_be_exact(notes):
    replies = [" Mara says “Oslo” [1].", " Mara says “Oslo” and “Kyoto” [1].", " Mara lives in Oslo [1]."]
    assert [answer(notes, reply).citations()["quote_exact"].tolist() for reply in replies] == [[True], [False], [None]]


def test_a_saved_answer_has_its_citations(notes, tmp_path):
    checked = answer(notes, " Mara lives in Oslo [2].").check_citations(progress=False)
    checked.save(tmp_path / "answer.nbsal")
    loaded = nbsal.Answer.load(tmp_path / "answer.nbsal")
    assert loaded.citations().equals(checked.citations())
    assert loaded.citations()["used_instead"].tolist() == [1]


@cases("reply", [" Mara lives in Oslo.", " Mara [1] lives [2] in [3] Oslo [4]."])
def test_odd_replies_have_a_row_for_each_citation(notes, reply):
    assert len(answer(notes, reply).citations()) == reply.count("[")


def test_results_of_tools_can_be_cited_and_calls_cannot(notes):
    call = {"id": "a", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    asked = [*QUESTION, {"role": "assistant", "content": None, "tool_calls": [call]}]
    asked += [{"role": "tool", "tool_call_id": "a", "content": DOCUMENTS[0]}, *QUESTION]
    cited = nbsal.answer(notes, asked, " Mara lives in Oslo [1].", check=False, progress=False).cited()
    assert cited.documents == [f"find\n{DOCUMENTS[0]}"]


def test_a_saved_answer_says_what_was_not_measured(notes, tmp_path):
    reply = " Mara lives in Oslo [1], and Boris lives in Rouen [2]."
    documents = [*DOCUMENTS, "The parade is held in the shed."]
    answer(notes, reply, documents).check_citations(progress=False).save(tmp_path / "answer.nbsal")
    loaded = nbsal.Answer.load(tmp_path / "answer.nbsal")
    assert len(loaded.citations()) == 2
    with refuses("documents"):
        loaded.citations(form=r"(\[1\].*\[2\])")


def test_citations_need_documents(notes):
    with refuses("documents"):
        answer(notes, " Mara lives in Oslo [1].", documents=()).citations()
