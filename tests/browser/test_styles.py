"""Style sheets in Chromium: views of one notebook leave each other as they are."""

import pytest

from nbsal.widgets.export import STATIC, asset
from tests.browser.bench import every_view

# Where every element is, with its colours and those of what is drawn around it: alone, and with other style sheets.
# Both are read at once, so that nothing can be drawn between.
LOOKS = """(styles) => {
  const names = ['color', 'background-color', 'background-image', 'border-radius', 'border-width', 'fill', 'stroke'];
  const look = (node) => {
    const { x, y, width, height } = node.getBoundingClientRect();
    const styles = [null, '::before', '::after'].map((pseudo) => getComputedStyle(node, pseudo));
    const drawn = styles.map((style) => names.map((name) => style.getPropertyValue(name)).join());
    return [node.getAttribute('class'), node.tagName, [x, y, width, height].map(Math.round).join(), ...drawn];
  };
  const shown = [...document.querySelectorAll('.nbsal, .nbsal *')].filter((node) => node.checkVisibility());
  const alone = shown.map(look);
  const sheet = (textContent) => Object.assign(document.createElement('style'), { textContent });
  document.body.append(...styles.map(sheet));
  return [alone, shown.map(look)];
}"""


@pytest.mark.some(3)
@every_view
def test_a_view_looks_the_same_beside_all_other_views(show, sheet, name):
    """Notebooks load the style sheets of views in any order, and each applies to every view."""
    show(name)
    others = [asset(path.name) for path in sorted(STATIC.glob("*.css")) if path.stem != name]
    alone, beside = sheet.evaluate(LOOKS, others)
    assert len(alone) > 30 and [pair for pair in zip(alone, beside, strict=True) if pair[0] != pair[1]][:3] == []
