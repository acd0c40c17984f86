"""A view that a package outside nbsal offers."""

import traitlets

from nbsal.widgets.explainer_view import ExplainerView

MODULE = """
export default { render({ model, el }) {
  const list = document.createElement("ol");
  list.setAttribute("aria-label", "Strongest tokens");
  const draw = () => list.replaceChildren(...model.get("_words").map((word) => {
    const item = document.createElement("li");
    item.textContent = word;
    return item;
  }));
  model.on("change:_words", draw);
  draw();
  el.append(list);
} };
"""


class Strongest(ExplainerView):
    """The strongest tokens of a text, as a list."""

    _esm = MODULE
    _words = traitlets.List(traitlets.Unicode()).tag(sync=True)

    def publish(self, result):
        return super().publish(result) | {"_words": [str(token) for token in result.top(3)["token"]]}
