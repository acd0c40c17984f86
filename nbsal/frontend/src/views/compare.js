// @ts-check
// Compare: two explanations of one text on one scale, and where they differ.

import { colours, editor, explaining, fullAt, SHADED, shading } from "../controls.js";
import { h, spoken } from "../dom.js";
import { number } from "../layout.js";
import { mount } from "../mount.js";
import { legend, outcomes } from "../parts.js";
import { laid, reader } from "../reading.js";
import { scoredText } from "../text.js";
import { largestOf, totals } from "../words.js";

export default mount("compare", (context) => {
  const { model, root, on, signal } = context;
  const read = reader(model);
  const headings = ["first", "second", "difference"];
  const said = spoken();
  const texts = headings.map((name) => scoredText(context, `tokens, ${name}`, said));
  const lay = laid(model, texts);
  for (const { node } of texts) {
    const follow = () => {
      if (!node.matches(":hover, :focus")) return; // it follows itself, or is not laid out as far yet
      for (const text of texts) text.node.scrollTop = node.scrollTop;
    };
    node.addEventListener("scroll", follow, { signal });
  }
  const titles = headings.map(() => h("h4", { class: "nbsal-title" }));
  const agreement = h("p", { class: "nbsal-agreement" });
  const [scale, first, second] = [legend(), outcomes(context), outcomes(context, "other_")];

  const draw = () => {
    const found = read();
    if (!found) return;
    const marks = lay(found);
    const other = model.get("_other");
    const tops = found.rows.map((row) => largestOf(totals(marks, row)) || 1);
    const own = model.get("scale") === "own";
    const shares = found.rows.map((row, i) => row.map((score) => score / (own ? tops[i] : Math.max(...tops))));
    const difference = shares[0].map((share, i) => share - shares[1][i]);
    const rows = [...shares, difference];
    for (const [i, row] of rows.entries())
      texts[i].paint(row, i < 2 ? colours(model) : { ...colours(model), signed: true }, 1);
    titles[0].textContent = `first: ${found.caption}`;
    titles[1].textContent = `second: ${other.caption}`;
    titles[2].textContent = "difference: orange where the first gives more, blue and underlined where the second does";
    const largest = `shares of ${own ? "each one's own" : "the larger"} largest score, ${tops.map(number).join(" and ")}`;
    scale.draw(1, colours(model), true, largest);
    agreement.textContent = found.agreement;
    first.draw(found);
    second.draw(other);
  };
  on(["_rev", "scale", ...SHADED], draw);

  root.append(
    editor(context),
    side("first", first.node, explaining(context)),
    side("second", second.node, explaining(context, { prefix: "other_" })),
    h(
      "div",
      { class: "nbsal-controls" },
      ...shading(context),
      fullAt(context, "each one's largest", "the larger of both"),
    ),
    agreement,
    ...texts.flatMap((text, i) => [titles[i], text.node]),
    said,
    scale.node,
  );
  draw();
});

/**
 * What one of the two is made with, and what its model says.
 * @param {string} name
 * @param {HTMLElement} said
 * @param {HTMLElement[]} controls
 */
const side = (name, said, controls) =>
  h(
    "fieldset",
    { class: "nbsal-side" },
    h("legend", {}, name),
    h("div", { class: "nbsal-controls" }, ...controls),
    said,
  );
