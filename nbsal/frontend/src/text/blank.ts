// A view whose text is blank waits for a text: that is no error.

import type { Text } from "../page/traits";

export const PROMPT = "Click below and type a text; the answer appears here.";

/** Whether there is nothing to explain; views without a text have `undefined`. */
export const isBlank = (text: Text | undefined) => text !== undefined && ![text].flat().some((part) => part.trim());
