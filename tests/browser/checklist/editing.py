"""Checks of what happens while a text is typed: 6, 7, 8, 9 and 22."""

import re
import time
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import psutil

from nbsal.render.headline import confidence
from tests.browser.checklist import check
from tests.browser.checklist.session import Session
from tests.browser.lab import KERNEL
from tests.browser.test_trouble import STOPPED
from tests.browser.test_typing import edit

TYPED = " dull and very awful"
MORE = " as ever"  # typed on, each key once the answer to the one before has come
PLACE = " film"  # before which it is typed
PACE = 100  # ms a key
LEAST = 8  # texts that are sent while as many keys are pressed as TYPED has
# Records what stands in the editor and what is said of it: in every frame, and whenever something else is said, since a
# key may follow before the next frame.
RECORD = """root => {
  const [area, line] = [root.querySelector('textarea'), root.querySelector('.nbsal-headline')];
  const frames = window.frames_ = [];
  const note = () => {
    if (window.frames_ !== frames) return;
    const shade = getComputedStyle(root.querySelector('.nbsal-text')).getPropertyValue('--dim');
    const frame = {
      text: area.value, caret: area.selectionStart, answer: line.textContent,
      numbers: root.querySelector('.nbsal-evidence')?.textContent ?? '',
      names: [...line.querySelectorAll('em')].map(node => node.textContent),
      read: root.querySelector('.nbsal-readout b')?.textContent ?? '',
      dim: [Number(getComputedStyle(line).opacity) < 1, !['', '1'].includes(shade.trim())],
    };
    if (JSON.stringify(frame) !== JSON.stringify(frames.at(-1))) frames.push(frame);
  };
  const look = () => {
    note();
    if (window.frames_ === frames) requestAnimationFrame(look);
  };
  new MutationObserver(note).observe(line, { childList: true, characterData: true, subtree: true });
  look();
}"""
# Notes the texts that are sent to Python.
NOTE_SENT = f"""() => {{
  const sent = window.sent_ = [];
  {KERNEL}.anyMessage.connect((_, {{ msg: {{ header, content }}, direction }}) => {{
    const text = header.msg_type === 'comm_msg' && direction === 'send' && content.data?.state?.text;
    if (window.sent_ === sent && typeof text === 'string') sent.push(text);
  }});
}}"""
ANSWERED = "() => !document.querySelector('.nbsal-highlight').classList.contains('nbsal-stale')"
DECIDED = """
def decided(text):
    result = explain(text)
    return [result.prediction, float(result.probabilities.max())]
"""


@dataclass
class Typing:
    """What a view showed while keys were pressed and, afterwards, taken back with the pointer on a typed word."""

    frames: list[dict[str, Any]]
    sent: list[str]
    leads: dict[str, str]
    start: str

    @cached_property
    def typed(self) -> list[dict[str, Any]]:
        """The frames until the last key's answer."""
        longest = max(range(len(self.frames)), key=lambda k: len(self.frames[k]["text"]))
        last = self.frames[longest]["text"]
        return [frame for k, frame in enumerate(self.frames) if k <= longest or frame["text"] == last]

    def fits(self, frame: dict[str, Any]) -> bool:
        """Whether the answer of a frame is that of its text."""
        return self.leads[frame["text"]] in frame["answer"]


def typing(session: Session) -> Typing:
    """Type into Highlight, without waiting and then with; take it back with the pointer on a word that goes."""
    root, page = session.view("highlight"), session.page
    area = edit(root)
    start = area.input_value()
    place = start.index(PLACE)
    area.evaluate("(area, place) => area.setSelectionRange(place, place)", place)
    root.evaluate(RECORD)
    page.evaluate(NOTE_SENT)
    page.keyboard.type(TYPED, delay=PACE)
    session.settle("highlight")
    for key in MORE:
        page.keyboard.press(key)
        page.wait_for_function(ANSWERED)
    page.keyboard.press("Escape")
    root.get_by_role("listbox", name="The text, word by word").get_by_role("option", name="awful", exact=True).hover()
    page.keyboard.press("e")  # the pointer stays on the word
    area.evaluate("(area, place) => area.setSelectionRange(place, place)", place + len(TYPED + MORE))
    for _ in TYPED + MORE:
        page.keyboard.press("Backspace", delay=20)
    session.settle("highlight")
    frames, sent = page.evaluate("() => [window.frames_, window.sent_]")
    page.evaluate("() => { window.frames_ = window.sent_ = null; }")
    area.press("Escape")
    texts = list(dict.fromkeys(frame["text"] for frame in frames))
    decisions = session.value(f"[decided(text) for text in {texts!r}]", DECIDED)
    leads = {text: f"{label}, {confidence(share)}" for text, (label, share) in zip(texts, decisions, strict=True)}
    return Typing(frames, sent, leads, start)


def inserted(seen: Typing, typed: str, start: int = 0) -> list[str]:
    """The texts of which each has one more key than the one before."""
    place = seen.start.index(PLACE)
    return [seen.start[:place] + typed[:end] + seen.start[place:] for end in range(start + 1, len(typed) + 1)]


@check(6, "texts are sent while keys are pressed; answered; the caret stays")
def answers_while_typing(session: Session) -> str:
    """How many of the 20 are answered before the next key, 100 ms later, depends on the machine: 8 on an idle one."""
    seen = session.once(typing)
    place = seen.start.index(PLACE)
    answered = {frame["text"] for frame in seen.typed if seen.fits(frame)}
    quick, slow = inserted(seen, TYPED), inserted(seen, TYPED + MORE, len(TYPED) - 1)
    meanwhile = {*seen.sent} & {*quick[:-1]}
    moved = [frame["caret"] for frame in seen.typed if frame["caret"] != place + len(frame["text"]) - len(seen.start)]
    measured = (
        f"{len(meanwhile)} texts sent while {len(quick)} keys were pressed; "
        f"{len(answered & {*quick})} answers to them, {len(answered & {*slow})} to {len(slow)} that were waited for; "
        f"caret moved {len(moved)} times"
    )
    assert len(meanwhile) >= LEAST and answered.issuperset(slow) and not moved, measured
    return measured


@check(7, "between key and answer, old shades are dim")
def dim(session: Session) -> str:
    seen = session.once(typing)
    old = [frame for frame in seen.frames if not seen.fits(frame)]
    bright = [
        f"“{frame['text'][-20:]}”: {frame['answer'][:30]}, dim {frame['dim']}" for frame in old if not all(frame["dim"])
    ]
    measured = f"{len(old) - len(bright)} of {len(old)} states with an older answer are dim"
    assert old and not bright, f"{measured}; {bright[:3]}"
    return measured


@check(8, "an answer for an older text never appears")
def older_answers(session: Session) -> str:
    seen = session.once(typing)
    came = [frame for before, frame in pairwise(seen.frames) if frame["answer"] != before["answer"]]
    wrong = [
        f"“{frame['answer'][:30]}” where “{frame['text'][:60]}” has {seen.leads[frame['text']]}"
        for frame in came
        if not seen.fits(frame)
    ]
    assert came and not wrong, f"{len(wrong)} of {len(came)}: {wrong[:3]}"
    return f"{len(came)} answers came, each of the text that stood there"


@check(9, "answer and readout name no word that is not in the text")
def named_words(session: Session) -> str:
    frames = session.once(typing).frames
    wrong = [
        f"“{word}” in “{frame['text'][:60]}”"
        for frame in frames
        for word in [*([] if any(frame["dim"]) else frame["names"]), frame["read"]]
        if re.sub(r" × \d+$", "", word).casefold() not in frame["text"].casefold()
    ]
    assert any(frame["read"] for frame in frames), "the readout was empty all the time"
    assert not wrong, f"{len(wrong)}: {wrong[:3]}"
    return f"{len(frames)} states of typing and of taking back"


# Notes when JupyterLab learns that the kernel has ended, and when the view says it.
NOTE_END = f"""root => {{
  {KERNEL}.statusChanged.connect((_, status) => {{
    if (['restarting', 'autorestarting', 'terminating', 'dead'].includes(status)) window.noticed ??= performance.now();
  }});
  const state = root.querySelector('.nbsal-state');
  new MutationObserver(() => {{
    if (state.textContent.includes('Python has stopped')) window.said ??= performance.now();
  }}).observe(state, {{ childList: true, characterData: true, subtree: true }});
}}"""


@check(22, "kernel killed while typing: the text stays, said within 1 s", last=True)
def killed(session: Session) -> str:
    """The second begins when the server tells JupyterLab, which polls its kernels every few seconds."""
    root, page = session.view("highlight"), session.page
    area = edit(root)
    before = area.input_value()
    root.evaluate(NOTE_END)
    page.keyboard.type(" Awful")
    children = psutil.Process(session.lab.server.pid).children(recursive=True)
    kernels = [child for child in children if any("ipykernel" in part for part in child.cmdline())]
    running = session.kernel_id
    (kernel,) = [child for child in kernels if any(running in part for part in child.cmdline())]
    start = time.monotonic()
    kernel.kill()
    page.keyboard.type(" film")
    session.state("highlight").filter(has_text=STOPPED).wait_for()
    seconds = time.monotonic() - start
    told = page.evaluate("() => (window.said - window.noticed) / 1000")
    text = area.input_value()
    measured = (
        f"said {seconds:.1f} s after the kill, {told:.1f} s after JupyterLab knew; “…{text[len(before) :]}” stays"
    )
    assert told <= 1 and text == f"{before} Awful film", measured
    return measured
