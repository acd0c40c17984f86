"""Checks of what is said: reasons, words of the reader, tokens and methods; 2, 10, 11, 12, 13 and 14."""

import re

from nbsal.methods import catalogue
from tests.browser.checklist import check, in_words
from tests.browser.checklist.session import NAMES, OF_TEXT, TOKENIZERS, Session, seen

# What the check of a view hid.
HIDDEN = """
def hidden(view):
    check = view.result.check
    return [] if check is None else [list(named) for named in check.to_frame()["hidden"]]
"""
# The probability of a class without all places of some words, by a literal run in which nobody attends to them.
WITHOUT = """
import torch
def without(view, names):
    row, wanted = view.result.row, {name.casefold() for name in names}
    gone = {i for word in row.words if word.text.casefold() in wanted for i in word.tokens}
    seen = torch.tensor([[int(i not in gone) for i in range(len(row.ids))]])
    with torch.no_grad():
        shares = view.subject.model(torch.tensor([row.ids]), attention_mask=seen).logits.softmax(-1)[0].tolist()
    return dict(zip(view.subject.labels, shares))
"""
TEXTS = 12
ROUNDING = 0.0011  # of a percentage with one decimal, and of the sum of many floats
CLAUSE = re.compile(r"(?i)without (.+?),? (?:it would|\S+ would have)")
RESULT = re.compile(r"would (?:still )?(?:be|have) (\S+?),? (?:\(|at )(?:(\S+) )?([\d.]+)\u202f%")


def contradictions(session: Session) -> list[str]:
    """Where the sentence of Highlight names what was not hidden, or says what hiding does not do."""
    root = session.view("highlight")
    line, sentence = root.locator(".nbsal-headline"), root.locator(".nbsal-headline").inner_text()
    hidden = {name for names in session.value("hidden(highlight)") for name in names}
    words = [re.sub(r" × \d+$", "", name) for name in line.locator("em").all_inner_texts()]
    if not hidden.issuperset(words):
        return [f"{set(words) - hidden} was not hidden: {sentence}"]
    clause, result = CLAUSE.search(sentence), RESULT.search(sentence)
    if clause is None or result is None:
        return [] if re.search("nothing changes|None of the|No word", sentence) else [f"not understood: {sentence}"]
    names = [word for word in words if word in clause[1]]
    label, share = (result[2] or result[1]), float(result[3]) / 100
    literal = session.value(f"without(highlight, {names!r})")[label]
    return [f"{sentence} Without {names}, {label} has {literal:.1%}"] if abs(literal - share) > ROUNDING else []


@check(2, "no word is given as a reason that hiding has not tested")
def reasons(session: Session) -> str:
    wrong, texts = {}, session.value(f"[row['text'] for row in rows[40:{40 + TEXTS}]]", HIDDEN, WITHOUT)
    with session.having("highlight", text=texts[0]):
        for number, text in enumerate(texts):
            session.set("highlight", {"text": text})
            if found := contradictions(session):
                wrong[f"text {number}"] = found
    for name in ("clouds", "browse", "audit"):
        sentence = session.view(name).locator(".nbsal-headline").first.inner_text()
        if re.search(r"(?i)because of|speaks? for", sentence):
            wrong[name] = sentence
    assert not wrong, in_words(wrong)
    return f"{TEXTS} sentences name only what was hidden, with the numbers of a literal run"


@check(10, "no raw name of a method or setting is seen")
def raw_names(session: Session) -> str:
    keys = [name for name in catalogue.names() if re.search(r"[-@]|grad", name)]
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, keys))}|gamma|clip|signed|tau)(?![\w-])")
    raw = {name: sorted(set(found)) for name in NAMES if (found := pattern.findall(seen(session.view(name))))}
    assert not raw, in_words(raw)
    return f"none of {len(keys) + 4} names in {len(NAMES)} views"


PICKED = """list => [...list.querySelectorAll('[role=option]')].filter(node => node.checkVisibility()).map(node => {
  const marks = [...node.querySelectorAll('[title]')].map(mark => mark.title);
  return { text: node.innerText, sides: marks, disabled: node.getAttribute('aria-disabled') === 'true' };
})"""


@check(11, "the picker opens with at least eight rows: line, cost, swatch")
def picker(session: Session) -> str:
    root = session.view("highlight")
    menu = root.locator("summary", has_text="Method")
    menu.click()
    listed = root.get_by_role("listbox", name="Recommended methods")
    listed.wait_for()
    rows = listed.evaluate(PICKED)
    menu.press("Escape")
    lacking = [
        row["text"]
        for row in rows
        if not (re.search(r"\bpass(es)?\b", row["text"]) and row["sides"] and len(row["text"].splitlines()) >= 3)
    ]
    assert len(rows) >= 8 and not lacking, f"{len(rows)} rows; without line, cost or swatch: {lacking}"
    return f"{len(rows)} rows"


@check(12, "a method that cannot run says why before it is chosen")
def refusals(session: Session) -> str:
    root = session.view("layers")
    menu = root.locator("summary", has_text="Method")
    menu.click()
    root.get_by_role("listbox", name="Recommended methods").wait_for()
    root.locator(".nbsal-method-picker details").evaluate_all("folds => folds.forEach((fold) => { fold.open = true; })")
    rows = [row for row in root.locator(".nbsal-method-picker").evaluate(PICKED) if row["disabled"]]
    menu.press("Escape")
    silent = [row["text"] for row in rows if not re.search("needs|has no|reads|cannot", row["text"])]
    assert rows and not silent, f"{len(rows)} cannot run; without a reason: {silent[:5]}"
    return f"{len(rows)} in Layers, such as “{' '.join(rows[0]['text'].split())}”"


@check(13, "Mask-LRP: the ▲ line stands, words reach full colour")
def special_tokens(session: Session) -> str:
    root = session.view("heads")
    warning = root.get_by_text("Most of the score lies on special tokens").filter(visible=True)
    strengths = (
        root.get_by_role("listbox", name="The text, word by word")
        .get_by_role("option")
        .evaluate_all("nodes => nodes.map(node => Number(getComputedStyle(node).getPropertyValue('--s')))")
    )
    warnings = warning.evaluate_all(
        "nodes => nodes.map(node => getComputedStyle(node, '::before').content + node.innerText)"
    )
    quoted = " ".join(warnings).replace('"', "")
    measured = f"“{quoted}”; {strengths.count(1)} word(s) in full colour"
    assert len(warnings) == 1 and "▲" in warnings[0] and max(strengths) == 1, measured
    return measured


PIECES = re.compile(r"Ġ|##|▁|Ċ")


@check(14, "no Ġ, ##, ▁ in words or tokens of any tokenizer")
def pieces(session: Session) -> str:
    raw = {name: sorted(set(found)) for name in NAMES if (found := PIECES.findall(seen(session.view(name))))}
    names = [*OF_TEXT, "compare"]
    for name in names:
        session.python(f"{name}.level = 'token'")
    for name in names:
        if found := PIECES.findall(seen(session.view(name))):
            raw[f"{name}, tokens"] = sorted(set(found))
        session.python(f"{name}.level = 'word'")
    output = session.run("tokenized")
    output.get_by_role("listbox", name="The text, word by word").nth(len(TOKENIZERS) - 1).wait_for()
    for name, root in zip(TOKENIZERS, output.get_by_role("group", name="nbsal highlight").all(), strict=True):
        root.evaluate("node => node.scrollIntoView()")
        if found := PIECES.findall(seen(root)):
            raw[f"tokens of {name}"] = sorted(set(found))
    assert not raw, in_words(raw)
    return f"{len(NAMES)} views as words, {len(names)} as tokens, {len(TOKENIZERS)} tokenizers"
