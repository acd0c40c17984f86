// A word cloud for each class; a chosen word is ringed, and the table lists its texts.

import type { CloudsTraits } from "../page/corpus-traits";
import { cloudPanel } from "../panels/clouds";
import { manyTexts } from "../panels/many-texts";

export default /* @__PURE__ */ manyTexts<CloudsTraits>("clouds", (context) => [cloudPanel(context)]);
