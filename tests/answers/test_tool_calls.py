"""Messages that call tools, and the results of tools: rendered as a template knows them, and hidden as sources."""

import json

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

import nbsal
from nbsal import corpus
from nbsal.explain.prompt.sources import parse_messages
from nbsal.widgets import Answers
from tests.answers import writers
from tests.answers.test_chat import COMMAND, OTHERS
from tests.cases import cases
from tests.raising import refuses

START, END = "<|im_start|>{{ m.role }}\n{{ m.content }}", "<|im_end|>\n"
REPLIES = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
RAISE = "{{ raise_exception('one call only') }}"


def knowing(call, result=START + END, before="", each="{% for c in m.tool_calls %}"):
    """A template that writes calls like that."""
    content = "<|im_start|>assistant\n{% if m.content %}{{ m.content + '\\n' }}{% endif %}"
    calls = f"{before}{content}{each}{call}{{% endfor %}}{END}"
    roles = f"{{% if m.role == 'tool' %}}{result}{{% elif m.tool_calls %}}{calls}{{% else %}}{START}{END}{{% endif %}}"
    return f"{{% for m in messages %}}{roles}{{% endfor %}}{REPLIES}"


NAME, OBJECT = "{{ c.function.name }}", "{{ c.function.arguments | tojson }}"
JSON = f'<tool_call>\n{{"name": "{NAME}", "arguments": {OBJECT}}}\n</tool_call>'
BLOCK = f"[{NAME}]```json\n{{{{ c.function.arguments }}}}\n```"
WRITTEN = 'weather]```json\n{"city": "Oslo 東京", "days": 3}'
ELEMENTS = "{% for k, v in c.function.arguments.items() %}<{{ k }}>\n{{ v }}\n</{{ k }}>{% endfor %}"
NATIVE = {  # in the manner of several families, with what each writes of the first call
    "objects": (knowing(JSON), 'weather", "arguments": {"city": "Oslo 東京", "days": 3'),
    "arguments first": (
        knowing(f'{{"arguments": {OBJECT}, "id": "{{{{ c.id }}}}", "name": "{NAME}"}}'),
        'city": "Oslo 東京", "days": 3',
    ),
    "elements": (
        knowing(f"<function={NAME}>{ELEMENTS}</function>"),
        "weather><city>\nOslo 東京\n</city><days>\n3\n</days",
    ),
    "texts": (knowing(BLOCK.replace("{{ c.function.arg", "{{ '' + c.function.arg")), WRITTEN),
    "texts that would print objects": (knowing(BLOCK), WRITTEN),
    "names beside results": (
        knowing(JSON, result="<|im_start|>{{ m.name }}\n{{ m.content }}<|im_end|>\n"),
        'weather", "arguments": {"city": "Oslo 東京", "days": 3',
    ),
}
ARGUMENTS = '{"city": "Oslo 東京", "days": 3}'


def call(identity, name, arguments):
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


TEXTS = [call("a1", "weather", ARGUMENTS), call("b2", "time", '{"zone": "CET"}')]
OBJECTS = [call("a1", "weather", json.loads(ARGUMENTS)), call("b2", "time", {"zone": "CET"})]
CALLS = [TEXTS[0], OBJECTS[1]]  # logs hold either
MESSAGES = [
    {"role": "user", "content": "Is it warm?"},
    {"role": "assistant", "content": None, "tool_calls": CALLS},
    {"role": "tool", "tool_call_id": "b2", "name": "time", "content": "9:05"},
    {"role": "tool", "tool_call_id": "a1", "name": "weather", "content": '{"celsius": 21}'},
]
NAMES = [
    "user message 1",
    "tool call 1, weather",
    "tool call 2, time",
    "tool message 3, time",
    "tool message 4, weather",
]
TAGGED = (
    '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo 東京", "days": 3}}\n</tool_call>\n'
    '<tool_call>\n{"name": "time", "arguments": {"zone": "CET"}}\n</tool_call>'
)
SETTINGS = {"method": "occlusion", "progress": False}


@pytest.fixture(scope="module")
def subject():
    return writers.load()


def texts_of(answer):
    """What the model reads of each unit."""
    prompt = answer.reading.prompt
    return [prompt.text[prompt.spans[unit.tokens[0]][0] : prompt.spans[unit.tokens[-1]][1]] for unit in answer.units]


def without(answer, number, way="text"):
    """The text of the prompt when a unit is cut out."""
    experiment = answer.running.experiment.with_units(answer.units, way)
    stays = ~np.isin(np.arange(len(answer.reading.row)), answer.units[number].tokens)
    return answer.running.explainer.subject.tokenizer.decode(experiment.text.write(stays))


@cases("name", NATIVE)
def test_calls_are_written_by_a_template_that_knows_them(subject, name):
    template, written = NATIVE[name]
    answer = nbsal.answer(subject, MESSAGES, " Yes.", template=template, **SETTINGS)
    prompt, units = answer.reading.prompt, texts_of(answer)
    assert [unit.name for unit in answer.units] == NAMES and answer.provenance["unit"] == "message"
    assert units[1] == written and "CET" in units[2] and units[3:] == ["9:05", '{"celsius": 21}']
    calls = TEXTS if name.startswith("texts") else OBJECTS
    truth = [MESSAGES[0], {"role": "assistant", "content": "", "tool_calls": calls}, *MESSAGES[2:]]
    options = {"chat_template": template, "add_generation_prompt": True}
    assert list(prompt.ids) == subject.tokenizer.apply_chat_template(truth, **options)["input_ids"]
    statuses = {source.title: source.status for source in prompt.sources if source.kind == "call"}
    assert statuses == {"weather": "rewritten", "time": "rewritten"}
    assert len([unit for unit in prompt.units("word") if unit.name == NAMES[1]]) == 1
    shorter = without(answer, 1)
    assert "Oslo" not in shorter and "CET" in shorter and "weather" in shorter, "results of it may follow"
    assert not {*answer.units[1].tokens} & {*answer.units[2].tokens} and answer.unit_scores().all()


@cases(
    "template",
    [
        writers.CHATML,
        knowing(JSON, before="{% if m.tool_calls | length > 1 %}" + RAISE + "{% endif %}"),
        knowing(JSON, each="{% for c in m.tool_calls[:1] %}"),
    ],
)
def test_calls_stand_between_tags_where_a_template_knows_none(subject, template):
    answer = nbsal.answer(subject, MESSAGES, " Yes.", template=template, **SETTINGS)
    prompt = answer.reading.prompt
    assert f"assistant\n{TAGGED}<|im_end|>\n<|im_start|>tool\n9:05<|im_end|>" in prompt.text
    assert texts_of(answer)[1:3] == [TAGGED.splitlines()[1], TAGGED.splitlines()[4]]
    assert {source.status for source in prompt.sources} == {"read"}
    assert f"assistant\n{TAGGED.partition('</tool_call>')[2].strip()}<|im_end|>" in without(answer, 1)
    assert len([unit for unit in prompt.units("sentence") if unit.name == NAMES[1]]) == 1
    assert len([unit for unit in prompt.units("word") if unit.name == NAMES[1]]) > 9


@cases("template", [writers.TEMPLATES["llama 2"], COMMAND])
def test_results_are_the_users_where_a_template_refuses_or_drops_them(subject, template):
    answer = nbsal.answer(subject, MESSAGES, " Yes.", template=template, **SETTINGS)
    text = '<tool_response>\n9:05\n</tool_response>\n<tool_response>\n{"celsius": 21}\n</tool_response>'
    assert text in answer.reading.prompt.text and texts_of(answer)[3:] == ["9:05", '{"celsius": 21}']
    assert [unit.name for unit in answer.units] == NAMES
    assert text.replace("9:05", "") in without(answer, 3)


@cases(
    "template, content",
    [
        (writers.CHATML, "I look."),
        (NATIVE["objects"][0], "I look."),
        (OTHERS["parts"], [{"type": "text", "text": text} for text in ("I ", "look.")]),
    ],
)
def test_a_call_stands_behind_the_text_of_its_message(subject, template, content):
    messages = [MESSAGES[0], MESSAGES[1] | {"content": content, "tool_calls": CALLS[:1]}, MESSAGES[3]]
    answer = nbsal.answer(subject, messages, " Yes.", template=template, **SETTINGS)
    assert "I look.\n" + TAGGED[: TAGGED.index("</")] in answer.reading.prompt.text
    assert [unit.name for unit in answer.units][1:3] == ["assistant message 2", NAMES[1]]
    assert texts_of(answer)[1] == "I look." and "Oslo" in texts_of(answer)[2]


def test_results_have_the_name_of_their_call(subject):
    bare = [{name: value for name, value in message.items() if name != "name"} for message in MESSAGES]
    assert [unit.name for unit in nbsal.answer(subject, bare, " Yes.", **SETTINGS).units] == NAMES
    calls = [{"name": name, "arguments": {}} for name in ("weather", "time")]  # without ids: in their order
    unnamed = [bare[0], {"role": "assistant", "tool_calls": calls}]
    unnamed += [{"role": "tool", "content": content} for content in ("1", "2", "3")]
    names = nbsal.answer(subject, unnamed, " Yes.", **SETTINGS).reading.prompt.names
    assert names[-3:] == ("tool message 3, weather", "tool message 4, time", "tool message 5")


@cases("arguments", ["no JSON", "", "[1, 2]", "\ue000\ue001", None, {}, {"a": {"b": [None, 1.5, "é"]}}, '{"a": NaN}'])
def test_any_arguments_are_read(subject, arguments):
    calls = [call("a1", "find", arguments)]
    messages = [MESSAGES[0], {"role": "assistant", "content": "", "tool_calls": calls}, MESSAGES[3]]
    for template in (writers.CHATML, NATIVE["objects"][0]):
        answer = nbsal.answer(subject, messages, " Yes.", template=template, **SETTINGS)
        assert "find" in texts_of(answer)[1] and answer.units[1].name == "tool call 1, find"


@cases(
    "changed",
    [
        {"tool_calls": [{"id": "a1", "type": "function", "function": {"arguments": "{}"}}]},
        {"tool_calls": [{"function": {"name": " ", "arguments": "{}"}}]},
        {"tool_calls": [{"function": None}]},
        {"tool_calls": ["weather"]},
        {"tool_calls": json.dumps(CALLS)},
        {"tool_calls": [{"function": {"name": "f", "arguments": {"a": {1, 2}}}}]},
        {"tool_calls": []},
        {"tool_calls": None},
        {"content": {"a": 1}},
    ],
)
def test_what_is_no_call_is_refused(subject, changed):
    messages = [MESSAGES[0], MESSAGES[1] | changed, *MESSAGES[2:]]
    with refuses("asked"):
        nbsal.answer(subject, messages, " Yes.", **SETTINGS)


def test_a_call_is_no_last_message(subject):
    with refuses("asked"):
        nbsal.answer(subject, MESSAGES[:2], " Yes.", **SETTINGS)


def test_messages_without_a_character_need_no_marks(subject):
    """A template may ask whether there is a content, and write what belongs to it."""
    template = "{% for m in messages %}<{{ m.role }}{% if m.content %}: {{ m.content }}{% endif %}>{% endfor %}"
    messages = [{"role": "system", "content": ""}, {"role": "user", "content": "Why?"}]
    answer = nbsal.answer(subject, messages, " Yes.", template=template, **SETTINGS)
    assert answer.reading.prompt.text == "<system><user: Why?>" and texts_of(answer) == ["Why?"]
    assert [source.status for source in answer.reading.prompt.sources] == ["read", "read"]


def test_documents_and_the_saved_answer(subject, tmp_path):
    question = [*MESSAGES, {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "Who says so?"}]
    answer = nbsal.answer(subject, question, " Ann.", documents=["Ann is warm."], layout="numbered", **SETTINGS)
    assert "user\n[1] Ann is warm.\n\nWho says so?" in answer.reading.prompt.text
    assert [unit.name for unit in answer.units] == [*NAMES, "assistant message 5", "user message 6", "document 1"]
    answer.save(tmp_path / "answer")
    loaded = nbsal.Answer.load(tmp_path / "answer")
    assert loaded.reading.prompt.sources == answer.reading.prompt.sources
    assert loaded.statement().text() == answer.statement().text()


def test_an_encoder_reads_calls():
    answer = nbsal.answer(writers.load("t5"), MESSAGES, " Yes.", template=NATIVE["objects"][0], **SETTINGS)
    assert [unit.name for unit in answer.units] == NAMES and np.abs(answer.scores).max() > 0


def test_a_server_gets_the_messages_as_they_are():
    asked = []

    def scores(pairs):
        asked.extend(prompt for prompt, _ in pairs)
        return [[-1.0 - 0.1 * len(str(prompt))] for prompt, _ in pairs]

    messages = [MESSAGES[0], {"role": "assistant", "content": None, "tool_calls": CALLS[:1]}, MESSAGES[3]]
    answer = nbsal.answer(nbsal.load(nbsal.Endpoint(scores)), messages, "Yes", check=False, **SETTINGS)
    assert messages in asked and [unit.name for unit in answer.units] == [NAMES[0], NAMES[1], "tool message 3, weather"]
    hidden = next(each for each in asked if each[1] != messages[1])
    assert hidden[1]["tool_calls"] == [CALLS[0] | {"function": {"name": "weather", "arguments": "{}"}}]
    assert [each["role"] for each in hidden] == [message["role"] for message in messages]
    assert {each[2]["content"] for each in asked} == {"", '{"celsius": 21}'}


def test_tables_hold_calls(subject, tmp_path):
    rows = [
        {"messages": MESSAGES, "reply": " Yes."},
        {"messages": [{"role": "user", "content": "Why?"}], "reply": " No."},
    ]
    rows.append({"messages": [MESSAGES[0], MESSAGES[1] | {"tool_calls": [{"id": "a1"}]}, MESSAGES[3]], "reply": " No."})
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    rows[0] = rows[0] | {"messages": [MESSAGES[0], MESSAGES[1] | {"tool_calls": TEXTS}, *MESSAGES[2:]]}
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "rows.parquet")  # with what is missing as None
    answer = nbsal.answer(subject, MESSAGES, " Yes.", **SETTINGS)
    for name in ("rows.jsonl", "rows.parquet"):
        source, explainer = tmp_path / name, nbsal.Explainer(subject, "occlusion")
        columns = {"asked": "messages", "reply": "reply", "unit": "message", "progress": False}
        stored = corpus.explain_replies(explainer, source, tmp_path / f"{name} explained", **columns)
        assert np.allclose(stored.scores(0), answer.unit_scores(), atol=1e-5)
        assert stored.failures()["text_id"].tolist() == [2] and len(stored) == 2


def test_a_view_writes_again_without_a_call_or_a_result(subject):
    for template in (writers.CHATML, NATIVE["objects"][0]):
        view = nbsal.why(subject, MESSAGES, template=template, max_new_tokens=4).wait()
        assert isinstance(view, Answers) and view.method == "occlusion", view.error
        labels = [card["label"] for card in view._sources]
        assert labels == ["You", "Model", "Tool call 1", "Tool call 2", "Tool result 1", "Tool result 2"]
        view.struck = [2, 5]
        view.write_again()
        text = view.wait().result.reading.prompt.text
        assert "Oslo" not in text and "celsius" not in text and "CET" in text and "9:05" in text
        assert [source.status for source in view.result.reading.prompt.sources].count("struck out") == 2
        view.struck = [3]
        view.write_again()
        assert "CET" not in view.wait().result.reading.prompt.text and "9:05" in view.result.reading.prompt.text
        again = parse_messages(view._shown_reply.asked.asked, [], False)
        assert [source.title for source in again.sources] == ["", "time"]
        view.close()
