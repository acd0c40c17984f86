// Why a token of the reply and not another one: its likeliest rivals, and any other by its text.

import type { AnswersTraits } from "../page/answer-traits";
import type { Context } from "../page/context";
import { consume, h, stopPropagation } from "../page/dom";
import type { AnswerData } from "./answer-data";

export function rivalChoice(context: Context<AnswersTraits>, textOfToken: (token: number) => string) {
  const { get, set, live, signal } = context;
  const node = h("div", { class: "nbsal-classes nbsal-rivals", role: "group", "aria-label": "Instead of this token" });
  let at = 0;
  let typing = false;
  const choose = (rival: string | null) => {
    typing = false;
    if (rival === null) set({ rival: null, at: null });
    else set({ rival, at, ...(get("selection").length ? {} : { selection: [at], source_selection: [] }) });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    stopPropagation(event);
    if (event.key === "Enter" && input.value.trim()) choose(input.value.trim());
    else if (event.key === "Escape") {
      typing = false;
      input.hidden = true;
      other.hidden = false;
      other.focus();
    } else return;
    consume(event);
  };
  const input = h("input", {
    class: "nbsal-rival-input nbsal-needs-python",
    type: "text",
    placeholder: "Another token",
    "aria-label": "Another token",
    spellcheck: "false",
    signal,
    keydown: onKeyDown,
  });
  const onOther = () => {
    typing = true;
    input.hidden = false;
    other.hidden = true;
    input.focus();
  };
  const other = h(
    "button",
    { class: "nbsal-link nbsal-needs-python", disabled: !live, signal, click: onOther },
    "other\u2026",
  );
  const button = (words: string, share: string, rival: string | null, pressed: boolean) =>
    h(
      "button",
      {
        class: "nbsal-class nbsal-needs-python",
        "aria-pressed": String(pressed),
        disabled: !live && !pressed,
        signal,
        click: () => choose(rival),
      },
      h("span", { class: "nbsal-name" }, words),
      share && h("span", {}, share),
    );
  return {
    node,
    /** @param place the token of what is explained that has rivals */
    draw(data: AnswerData, place: number | null) {
      const rival = get("rival");
      const shown = (rival === null ? null : get("at")) ?? place;
      node.hidden = shown === null;
      if (shown === null) return;
      at = shown;
      const focused = document.activeElement;
      const index = [...node.children].indexOf(focused as Element);
      const rivals = data.reply.rivals[at] ?? [];
      const name = textOfToken(at);
      const typed = rival !== null && !rivals.some(([token]) => token === rival);
      const choices = rivals.map(([token, text, share]) => button(text, share, token, token === rival));
      if (typed) choices.push(button(rival, "", rival, true));
      input.hidden = !typing;
      other.hidden = typing;
      if (!typing) input.value = "";
      const title = "What the model would write without a source, and its own next choice";
      node.setAttribute("aria-label", `Instead of ${name}`);
      node.replaceChildren(
        h("span", { class: "nbsal-quiet", title }, `Compare \u201c${name}\u201d with`),
        button("nothing", "", null, rival === null),
        ...choices,
        other,
        input,
      );
      if (index >= 0) (node.children[index] as HTMLElement | undefined)?.focus({ preventScroll: true });
    },
  };
}
