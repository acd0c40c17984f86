"""Live pages in tests: a plain static server, a page with a view that answers, and what its worker has explained."""

import functools
import http.server
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nbsal.widgets.page import html_export, live_page
from tests.browser import bench
from tests.browser.conftest import open_page

BLANK = '<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><title>live</title><body>'
SHOW = """async ([script, style, state, page]) => {
  const sheet = document.createElement('style');
  sheet.textContent = style;
  const [box, el] = ['div', 'div'].map((tag) => document.createElement(tag));
  box.append(el);
  document.body.replaceChildren(sheet, box);
  window.view = await nbsal.show(script, state, el, page);
}"""
# Keeps what the worker explained last.
RECORD = """window.Worker = class extends Worker {
  constructor(...settings) {
    super(...settings);
    this.addEventListener('message', ({ data }) => (window.explained = data.explained ?? window.explained));
  }
};"""
# Sets traits as controls do, and resolves with the traits once they are answered.
ASK = """async (changes) => {
  const { model } = window.view;
  window.explained = null;
  const ended = new Promise((resolve) => {
    const listen = () => {
      if (!['ready', 'error'].includes(model.get('status'))) return;
      model.off('change:status', listen);
      resolve();
    };
    model.on('change:status', listen);
  });
  for (const [name, value] of Object.entries(changes)) model.set(name, value);
  model.save_changes();
  if (model.get('status') === 'computing') await ended;
  const plain = (value) => {
    if (value instanceof DataView) return { $bytes: btoa(String.fromCharCode(...new Uint8Array(value.buffer))) };
    if (value === null || typeof value !== 'object') return value;
    if (Array.isArray(value)) return value.map(plain);
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, plain(inner)]));
  };
  const names = ['status', 'error', '_tokens', '_scores', '_result', '_statements', '_findings', '_other', '_choices'];
  const traits = Object.fromEntries(names.map((name) => [name, plain(model.get(name))]));
  return { ...traits, pieces: window.explained?.pieces };
}"""


# Resolves with what is said, once that was checked by hiding words.
CHECKED = """async () => {
  const { model } = window.view;
  const isEnded = () => !['waiting', 'checking'].includes(model.get('_checking').state);
  while (!isEnded()) await new Promise((resolve) => setTimeout(resolve, 10));
  return { statements: model.get('_statements'), checking: model.get('_checking') };
}"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A plain static server, without special headers."""

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine, and yield its address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


class Site:
    """A served folder with live pages, and one page in which views are shown that answer."""

    def __init__(self, folder: Path, address: str, chromium: Any) -> None:
        self.folder, self.address = folder, address
        (folder / "blank.html").write_text(BLANK, encoding="utf-8")
        self.page = open_page(chromium)
        self.page.add_init_script(RECORD)
        self.page.goto(f"{address}blank.html")
        self.page.add_script_tag(content=html_export.asset("live.js"))

    def show(self, view: Any) -> None:
        """Show a view that answers."""
        described = live_page.describe(view, self.folder, "blank.html")
        state = live_page.live_state(html_export.state(view), described)
        arguments = [str(view._esm), str(view._css), bench.plain(state), described]
        self.page.evaluate(SHOW, arguments)

    def ask(self, **changes: Any) -> dict[str, Any]:
        """The traits of the view once it has answered changes of its controls."""
        return self.page.evaluate(ASK, changes)

    def ask_checked(self, **changes: Any) -> list[dict[str, Any]]:
        """What the view says of each row of scores once it has checked its answer by hiding words."""
        self.ask(**changes)
        ended = self.page.evaluate(CHECKED)
        assert ended["checking"] == {}
        return ended["statements"]


def random_texts(count: int, seed: int = 0) -> list[str]:
    """Texts of characters from many scripts, controls, combining marks and unassigned characters among them."""
    draw = random.Random(seed)
    ranges = [(0x20, 0x7F), (0xA0, 0x370), (0x300, 0x370), (0x370, 0x700), (0x900, 0xE00), (0x1100, 0x1200)]
    ranges += [
        (0x1E00, 0x2100),
        (0x2E80, 0x3200),
        (0x4E00, 0x9FFF),
        (0xAC00, 0xD7A4),
        (0xF900, 0xFB00),
        (0xFE00, 0xFFFF),
    ]
    ranges += [(0x1F300, 0x1FB00), (0, 0x20), (0x80, 0xA0), (0x10000, 0x110000)]

    def text() -> str:
        codes = [draw.randrange(*draw.choice(ranges)) for _ in range(draw.randrange(1, 50))]
        return "".join(" " if draw.random() < 0.15 else chr(code) for code in codes)

    return [text() for _ in range(count)]
