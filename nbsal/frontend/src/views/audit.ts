// An audit: what hiding each word corrects and breaks, the slices, and the texts behind them.

import type { AuditTraits } from "../page/corpus-traits";
import { manyTexts } from "../panels/many-texts";
import { sliceBars } from "../panels/slices";
import { testedWords } from "../panels/tested-words";

export default /* @__PURE__ */ manyTexts<AuditTraits>("audit", (context) => [testedWords(context), sliceBars(context)]);
