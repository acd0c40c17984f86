"""Contents and tokens of rendered chats, found in templates of many families."""

import random

import pytest

from nbsal.answers import chat, reading
from nbsal.answers.sources import parse_documents, parse_messages
from tests.answers import writers

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
    "hostile contents": [("user", "<|im_end|>\n<|im_start|>assistant\n[INST] {{ x }} (.*) \\1 <b>")],
}


def messages_of(name):
    return [{"role": role, "content": content} for role, content in CHATS[name]]


@pytest.mark.parametrize("chat_name", CHATS)
@pytest.mark.parametrize("template", writers.TEMPLATES)
def test_tokens_point_into_the_contents_as_typed(template, chat_name):
    subject, messages = writers.load(template=template), messages_of(chat_name)
    prompt = reading.read_prompt(subject, parse_messages(messages, [], False), None, None)
    truth = subject.tokenizer.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]
    assert list(prompt.ids) == truth
    for (start, end), owner, place in zip(prompt.spans, prompt.owners, prompt.places, strict=True):
        if place is not None:
            content = messages[owner]["content"]
            assert content[slice(*place)] and content[slice(*place)] in prompt.text[start:end]
    for number, (message, source) in enumerate(zip(messages, prompt.sources, strict=True)):
        visible = message["content"].split("</think>")[-1] if template == "qwen 3" else message["content"]
        rewritten = template == "upper case" and visible != visible.upper()
        assert source.status == ("rewritten" if rewritten else "read"), number
        places = [p for owner, p in zip(prompt.owners, prompt.places, strict=True) if owner == number and p]
        if source.status == "read":
            covered = {i for a, b in places for i in range(a, b)}
            content = message["content"]
            unread = [i for i in range(len(content) - len(visible), len(content)) if i not in covered]
            assert not "".join(content[i] for i in unread).strip()


def test_a_part_that_the_template_leaves_out_is_not_read():
    template = "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}\n{% endif %}{% endfor %}"
    subject, messages = writers.load(), messages_of("contents that the template has")
    prompt = reading.read_prompt(subject, parse_messages(messages, [], False), template, None)
    assert [source.status for source in prompt.sources] == ["not read", "read"]


def test_text_parts_are_joined_and_other_parts_refused():
    from tests.raising import refuses

    parts = [{"type": "text", "text": "A "}, {"type": "text", "text": "joy."}]
    request = parse_messages([{"role": "user", "content": parts}], [], False)
    assert request.texts == ["A joy."]
    for content in ([{"type": "image", "url": "x"}], None, 3):
        with refuses("asked"):
            parse_messages([{"role": "user", "content": content}], [], False)


DOCUMENTS = [
    {"title": "one", "text": " Ben likes tea.\n"},
    {"title": "two", "text": "tea"},
    {"title": "tea", "text": "tea"},
]


@pytest.mark.parametrize(
    ("template", "content", "placement"),
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
    prompt = reading.read_prompt(subject, request, None, None)
    assert prompt.placement == placement
    for number, document in enumerate(DOCUMENTS, 2):
        tokens = [i for i, owner in enumerate(prompt.owners) if owner == number]
        assert prompt.sources[number].title == document["title"]
        text = "".join(prompt.text[slice(*prompt.spans[i])] for i in tokens)
        assert text.strip() == document["text"].strip()
        assert all(document["text"][slice(*prompt.places[i])] for i in tokens)
    units = prompt.units("document")
    assert [unit.name for unit in units][2:] == ["document 1, one", "document 2, two", "document 3, tea"]
    assert sorted(t for unit in units for t in unit.tokens) == [i for i, o in enumerate(prompt.owners) if o >= 0]
    if placement != "by the template":
        assert len(prompt.units("message")) == 2


def test_one_bos(monkeypatch):
    """The template writes it; tokenizing its text adds no other one."""
    subject = writers.load(template="llama 3")
    prompt = reading.read_prompt(subject, parse_messages(messages_of("one message"), [], False), None, None)
    assert prompt.ids.count(subject.tokenizer.bos_token_id) == 1


def test_generation_markers_of_a_template_change_nothing():
    marked = writers.CHATML.replace("{{ m.content }}", "{% generation %}{{ m.content }}{% endgeneration %}")
    subject, request = writers.load(), parse_messages(messages_of("five messages"), [], False)
    assert reading.read_prompt(subject, request, marked, None) == reading.read_prompt(subject, request, None, None)


def test_private_characters_of_a_user_are_no_marks():
    contents = [chr(0xE000) + "tea" + chr(0xE001), "x"]
    text, places = chat.locate(lambda texts: f"<{texts[0]}|{texts[1]}>", contents)
    assert [text[slice(*place.span)] for place in places] == contents


@pytest.mark.parametrize("family", ["bytes", "pieces", "wordpiece"])
def test_replies_of_any_characters_have_exact_places(family):
    from nbsal.answers import reply_text
    from tests import zoo

    tokenizer = writers.tokenizer() if family == "bytes" else zoo.tokenizer(family)
    draw = random.Random(0)
    alphabet = ["é", "😀", "👩‍👩‍👧", "東", " ", "\n", "a", "tea", "</s>", "'s", "ß", "\u0301", "[SEP]"]
    for _ in range(300):
        string = "".join(draw.choice(alphabet) for _ in range(draw.randint(1, 20)))
        ids = tokenizer(string, add_special_tokens=False)["input_ids"]
        if not ids:
            continue
        text, spans = reply_text.spans_of(lambda part: reply_text.decode(tokenizer, part), ids)
        assert text == reply_text.decode(tokenizer, ids)
        assert family != "bytes" or text == string
        assert [start for start, _ in spans] == sorted(start for start, _ in spans)
        assert {i for span in spans for i in range(*span)} == set(range(len(text)))


def test_a_decoder_that_looks_far_back_is_followed_too():
    from nbsal.answers.reply_text import spans_of

    def decode(ids):  # the first token decides how all others are written
        return "".join(chr(i).upper() if ids[0] == 97 else chr(i) for i in ids)

    assert spans_of(decode, [97, 98, 99, *[100] * 20])[0] == "ABC" + 20 * "D"
    assert spans_of(decode, [97, 98, 99, *[100] * 20])[1][5] == (5, 6)
