"""Contents and tokens of rendered chats, found in templates of many families."""

import random

import numpy as np
import pytest

import nbsal
from nbsal.explain.prompt import chat, prompts, reading
from nbsal.explain.prompt.sources import parse_documents, parse_messages
from nbsal.support.errors import UnknownName
from tests import zoo
from tests.answers import writers
from tests.cases import cases
from tests.raising import refuses


@pytest.fixture(scope="module")
def subject():
    return writers.load()


CHATS = {
    "five messages": [
        ("system", " Be brief.\n"),
        ("user", "  Notes: Ann's café 😀 is warm.\nIt's 東京!  "),
        ("assistant", "<think>hm</think>\n\nYes, warm."),
        ("user", "Ben likes  tea\n\n"),
        ("assistant", "Ben likes tea."),
    ],
    "one message": [("user", "hi")],
    "equal contents": [("user", "tea"), ("assistant", "tea"), ("user", "tea")],
    "contents that the template has": [("system", "user"), ("user", "assistant")],
    "an empty content": [("system", ""), ("user", "x")],
}
COMMAND = (
    "{{ bos_token }}{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}<|SYSTEM|>"
    "{{ messages[0].content }}<|END|>{% else %}{% set rest = messages %}{% endif %}{% for m in rest %}"
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}"
    "<|{{ m.role | upper }}|>{{ m.content.strip() }}<|END|>{% endfor %}<|CHATBOT|>"
)
OTHERS = {  # of kinds that are in no list of templates elsewhere
    "command": COMMAND,
    "system first": "{% set ns = namespace(system='') %}{% for m in messages %}{% if m.role == 'system' %}"
    "{% set ns.system = m.content %}{% endif %}{% endfor %}{{ bos_token }}{{ ns.system }}{% for m in messages %}"
    "{% if m.role != 'system' %}<｜{{ m.role }}｜>{{ m.content }}{% endif %}{% endfor %}<｜assistant｜><think>\n",
    "date": "Today: {{ strftime_now('%d %b %Y') }}\n" + writers.CHATML,
    "default system": "{% if messages[0].role != 'system' %}<|im_start|>system\nBe helpful.<|im_end|>\n"
    "{% endif %}" + writers.CHATML,
    "tools": "{% for t in tools or [] %}{{ t | tojson }}\n{% endfor %}{% for m in messages %}<|{{ m.role }}|>"
    "{{ m.content }}{% for call in m.tool_calls or [] %}<call>{{ call | tojson }}</call>{% endfor %}\n{% endfor %}",
    "parts": "{% for m in messages %}<|{{ m.role }}|>{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for part in m.content %}{{ part.text }}{% endfor %}{% endif %}\n{% endfor %}",
}
TEXTS = {
    "Hindi": "यह फिल्म अच्छी है। कहानी उबाऊ है।",
    "Arabic": "هذا الفيلم رائع. لماذا؟",
    "Thai": "หนังเรื่องนี้สนุกมาก",
    "emoji": "👩‍👩‍👧‍👦 🇩🇪 joy 👍🏽!",
    "control": "<|im_end|>\n<|im_start|>assistant\n[INST] hi <s></s> {{ 1 + 1 }} {% raw %} (.*) \\1 <b>",
}
CHATS |= {name: [("system", f"Be brief. {text}"), ("user", f" {text}\n")] for name, text in TEXTS.items()}
ALL = writers.TEMPLATES | OTHERS


def messages_of(name):
    return [{"role": role, "content": content} for role, content in CHATS[name]]


@cases("template, chat_name", [(template, name) for template in ALL for name in CHATS])
def test_tokens_point_into_the_contents_as_typed(subject, template, chat_name):
    messages, tokenizer = messages_of(chat_name), subject.tokenizer
    prompt = prompts.read_prompt(subject, parse_messages(messages, [], False), ALL[template], None)
    truth = tokenizer.apply_chat_template(messages, chat_template=ALL[template], add_generation_prompt=True)
    assert list(prompt.ids) == truth["input_ids"]
    for (start, end), owner, place in zip(prompt.spans, prompt.owners, prompt.places, strict=True):
        if place is not None:
            content = messages[owner]["content"]
            assert content[slice(*place)] and content[slice(*place)] in prompt.text[start:end]
    for number, (message, source) in enumerate(zip(messages, prompt.sources, strict=True)):
        content = message["content"]
        visible = content.split("</think>")[-1] if template == "qwen 3" else content
        rewritten = template == "upper case" and visible != visible.upper()
        assert source.status == ("rewritten" if rewritten else "read")
        places = [p for owner, p in zip(prompt.owners, prompt.places, strict=True) if owner == number and p]
        covered = {i for a, b in places for i in range(a, b)}
        unread = [i for i in range(len(content) - len(visible), len(content)) if i not in covered]
        assert rewritten or not "".join(content[i] for i in unread).strip()
    for level in reading.LEVELS:
        held = [token for unit in prompt.units(level) for token in unit.tokens]
        assert sorted(held) == [i for i, owner in enumerate(prompt.owners) if owner >= 0]


DOCUMENTS = [
    {"title": title, "text": text} for title, text in (("one", " Ben likes tea.\n"), ("two", "tea"), ("tea", "tea"))
]


@cases(
    "template, content, placement",
    [
        ("citing", "Who likes tea?", "by the template"),
        ("chatml", "Read this:\n{documents}\nWho likes tea?", "at the placeholder"),
        ("citing", "{documents} Who likes tea?", "at the placeholder"),
        ("llama 3", "Who likes tea?", "before the question"),
    ],
)
def test_documents_are_sources_wherever_they_stand(template, content, placement):
    subject = writers.load(template=template)
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": content}]
    request = parse_messages(messages, parse_documents(DOCUMENTS), "documents" in subject.tokenizer.chat_template)
    prompt = prompts.read_prompt(subject, request, None, None)
    assert prompt.placement == placement
    for number, document in enumerate(DOCUMENTS, 2):
        tokens = [i for i, owner in enumerate(prompt.owners) if owner == number]
        assert prompt.sources[number].title == document["title"]
        text = "".join(prompt.text[slice(*prompt.spans[i])] for i in tokens)
        assert text.strip() == document["text"].strip()
        assert all(document["text"][slice(*prompt.places[i])] for i in tokens)
    names = [unit.name for unit in prompt.units("document")]
    assert names[2:] == ["document 1, one", "document 2, two", "document 3, tea"]
    if placement != "by the template":
        assert len(prompt.units("message")) == 2


def test_one_bos():
    """The template writes it, or the tokenizer, which adds one to every text."""
    subject = nbsal.load(writers.load().model, tokenizer=writers.tokenizer("llama 3", bos=True))
    bos = subject.tokenizer.bos_token_id
    assert subject.tokenizer("a joy")["input_ids"][0] == bos, "as the tokenizers of Llama do"
    chat_ids = subject.tokenizer.apply_chat_template(messages_of("one message"), add_generation_prompt=True)
    for asked in (messages_of("one message"), "The film is"):
        result = nbsal.answer(subject, asked, " a joy.", method=nbsal.Occlusion(way="text"), progress=False)
        ids = result.reading.row.ids
        assert ids.count(bos) == 1 and ids[0] == bos and result.text == " a joy."
        assert list(result.reading.prompt.ids) == (
            chat_ids["input_ids"] if asked != "The film is" else subject.tokenizer(asked)["input_ids"]
        )


def test_private_characters_of_a_user_are_no_marks():
    contents = [chr(0xE000) + "tea" + chr(0xE001), "x"]
    text, places = chat.locate(lambda texts: f"<{texts[0]}|{texts[1]}>", contents)
    assert [text[slice(*place.span)] for place in places] == contents


@cases("family, count", [("bytes", 500), ("pieces", 200), ("wordpiece", 200)])
def test_replies_of_any_characters_have_exact_places(family, count):
    tokenizer = writers.tokenizer() if family == "bytes" else zoo.tokenizer(family)
    draw = random.Random(0)
    characters = ["é", "😀", "👩‍👩‍👧", "東", " ", "\n", "a", "ß", "\u0301", "नि", "مر", "กำ"]
    alphabet = [*characters, "tea", "</s>", "'s", "[SEP]"]
    for _ in range(count):
        string = "".join(draw.choice(alphabet) for _ in range(draw.randint(1, 20)))
        ids = tokenizer(string, add_special_tokens=False)["input_ids"]
        if not ids:
            continue
        text, spans = prompts.spans_of(lambda part: prompts.decode(tokenizer, part), ids)
        assert text == prompts.decode(tokenizer, ids)
        assert [start for start, _ in spans] == sorted(start for start, _ in spans)
        assert {i for span in spans for i in range(*span)} == set(range(len(text)))
        if family == "bytes":
            assert text == string and all(text[start:end] for start, end in spans)
            last = {end: number for number, (_, end) in enumerate(spans)}  # the tokens up to it are a beginning
            assert all(prompts.decode(tokenizer, ids[: at + 1]) == text[:end] for end, at in last.items())


def test_a_decoder_that_looks_far_back_is_followed_too():
    def decode(ids):  # the first token decides how all others are written
        return "".join(chr(i).upper() if ids[0] == 97 else chr(i) for i in ids)

    text, spans = prompts.spans_of(decode, [97, 98, 99, *[100] * 20])
    assert text == "ABC" + 20 * "D" and spans[5] == (5, 6)


def test_messages_of_tools_are_sources(subject):
    messages = [
        {"role": "user", "content": "Is it warm?"},
        {"role": "assistant", "content": "", "tool_calls": [{"name": "weather", "arguments": {"city": "Oslo"}}]},
        {"role": "tool", "content": '{"celsius": 21}'},
    ]
    tools = [{"type": "function", "function": {"name": "weather", "description": "It is warm?", "parameters": {}}}]
    settings = {"template": OTHERS["tools"], "tools": tools, "unit": "message", "progress": False}
    result = nbsal.answer(subject, messages, " Yes.", method="occlusion", **settings)
    prompt = result.reading.prompt
    names = ("user message 1", "assistant message 2", "tool call 1, weather", "tool message 3, weather")
    assert prompt.names == names
    assert [unit.name for unit in result.units] == [names[0], *names[2:]]
    texts = ["".join(prompt.text[slice(*prompt.spans[i])] for i in unit.tokens) for unit in result.units]
    assert texts[1:] == ['weather", "arguments": {"city": "Oslo', '{"celsius": 21}']


def test_contents_in_parts_are_joined_by_the_template_alone(subject):
    messages = [{"role": "user", "content": [{"type": "text", "text": text} for text in ("A warm ", "joy.")]}]
    settings = {"method": nbsal.Occlusion(way="text"), "documents": ["Ann wrote it."], "progress": False}
    for between, status in (("", "read"), ("\n", "rewritten")):
        template = OTHERS["parts"].replace("{{ part.text }}", "{{ part.text }}" + between)
        request = parse_messages(messages, [], False)
        prompt = prompts.read_prompt(subject, request, template, None)
        truth = subject.tokenizer.apply_chat_template(messages, chat_template=template, add_generation_prompt=True)
        assert list(prompt.ids) == truth["input_ids"] and prompt.sources[0].status == status
        assert prompt.sources[0].text == request.texts[0] == "A warm joy."
    assert nbsal.answer(subject, messages, " A.", template=OTHERS["parts"], **settings).scores.any()
    with refuses("asked"):
        nbsal.answer(subject, messages, " A.", progress=False)  # ChatML would print the list


@cases(
    "content, statuses",
    [
        ("{{ m.content }} - {{ m.content }}", ["rewritten", "rewritten"]),
        ("{{ m.content | replace('joy', 'pain') }}", ["read", "rewritten"]),
        ("{{ m.content[:8] }}", ["read", "read"]),
        ("{{ m.content | length }}: {{ m.content }}", ["rewritten", "rewritten"]),
        ("{{ m.content if m.role == 'user' else '' }}", ["not read", "read"]),
    ],
)
def test_what_a_template_does_to_contents_is_told(subject, content, statuses):
    template = "{% for m in messages %}<|{{ m.role }}|>" + content + "\n{% endfor %}"
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "The film is a joy."}]
    result = nbsal.answer(subject, messages, " A.", template=template, method="random", progress=False)
    for status in ("read", "rewritten", "not read"):
        named = [name for name, each in zip(result.reading.prompt.names, statuses, strict=True) if each == status]
        assert [each.status for each in result.reading.prompt.sources] == statuses
        assert status == "read" or result.provenance.get(status, []) == named


@cases(
    "render, contents",
    [
        (lambda texts: f"<{texts[0]}|{texts[1]}>", ["a", " b "]),
        (lambda texts: f"<{texts[0]}|{texts[1].strip()}>", ["a", " b "]),
        (lambda texts: texts[1] + texts[0], ["a", "ab"]),  # in another order, side by side
        (lambda texts: f"user: {texts[0]} user: {texts[1]}", ["user", ": user"]),
        (lambda texts: f"<{texts[0]}{texts[1]}>", ["", "x"]),
        (lambda texts: f"<{texts[0]}|{texts[0]}|{texts[1]}>", ["a", "b"]),
        (lambda texts: f"<{texts[0]}|{texts[0]}>", ["a", "b"]),  # twice, and not at all
        (lambda texts: f"{len(texts[0])}: {texts[0]}", ["joy"]),
    ],
)
def test_contents_that_stand_as_they_are_need_no_search(monkeypatch, render, contents):
    found = chat.locate(render, contents)
    monkeypatch.setattr(chat, "_verbatim", lambda *_: [])
    assert found == chat.locate(render, contents)


def test_a_template_that_writes_the_time_is_rendered_again():
    times = iter([0, 1, 1, 1])
    text, places = chat.locate(lambda texts: f"{next(times)}: {texts[0]}", ["joy"])
    assert text == "1: joy" and places == [chat.ContentPlace((3, 6), 0)]
    times = iter(range(9))
    assert chat.locate(lambda texts: f"{next(times)}: {texts[0]}", ["joy"])[1] == [chat.ContentPlace((0, 0), None)]


def test_settings_of_a_template_are_passed_to_it(subject):
    plain = "{% for m in messages %}<|{{ m.role }}|>{% generation %}{{ m.content }}{% endgeneration %}\n{% endfor %}"
    template = plain + "{% if enable_thinking %}<think>{% endif %}"
    messages = [{"role": "user", "content": "Is it warm? Ann wrote it."}]
    settings = {"template": template, "progress": False}
    prompts_read = []
    for thinks in (False, True):
        occlusion = nbsal.Explainer(subject, nbsal.Occlusion(way="text"))
        answer = occlusion.reply(messages, " A.", enable_thinking=thinks, **settings)
        prompts_read.append(answer.provenance["rendered"])
        assert answer.provenance["template settings"] == {"enable_thinking": thinks}
        text = answer.running.experiment.text
        stays = ~np.isin(np.arange(len(text.row)), answer.units[0].tokens)
        assert ("<think>" in subject.tokenizer.decode(text.write(stays))) == thinks
    assert prompts_read[1] == prompts_read[0] + "<think>"
    assert nbsal.answer(subject, messages, " A.", enable_thinking=True, **settings).reading.prompt.text in prompts_read
    for wrong in ({"enable_thinkng": True}, {"m": 1}, {"messages": messages}):
        with refuses("generate", UnknownName):
            nbsal.answer(subject, messages, " A.", **wrong, **settings)
    with refuses("enable_thinking"):
        nbsal.answer(subject, "Is it warm?", " A.", enable_thinking=True, **settings)
