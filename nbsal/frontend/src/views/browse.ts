// A table of explained texts, sorted and filtered; one of them is opened beside it, or under its row.

import { manyTexts } from "../panels/many-texts";

export default /* @__PURE__ */ manyTexts("browse");
