"""What a reader finds first: the search of the built site, run as the browser runs it, but by node."""

import json
import subprocess
from pathlib import Path

FIRST = {  # what is typed, and the page that answers
    "which method": "guides/which-method.html",
    "which method should I use": "guides/which-method.html",
    "does it work": "guides/which-method.html",
    "Explainer": "reference/python/explain.html",
    "faithful": "guides/judging.html",
    "spurious": "guides/auditing.html",
    "lora": "guides/your-model.html",
    "rag": "guides/generated-answers.html",
    "citation": "guides/citations.html",
    "NBSAL_DATA": "guides/your-data.html",
}
# The site's worker, with the four names of a browser that it needs. Messages: 0 set up, 2 a query, 3 its result.
WORKER = """
const fs = require("fs"), vm = require("vm");
const [script, index, queries] = process.argv.slice(1);
const firsts = {}, listeners = [];
let waiting;
const scope = {
  addEventListener: (name, listener) => listeners.push(listener),
  postMessage: ({ type, data }) => waiting(data),
  importScripts: () => {},
  location: { href: "http://localhost/" },
  console, URL, performance,
};
scope.self = scope;
vm.runInNewContext(fs.readFileSync(script, "utf8"), scope);
const send = (type, data) => new Promise((resolve) => {
  waiting = resolve;
  for (const listener of listeners) listener({ data: { type, data } });
});
(async () => {
  const { config, docs } = JSON.parse(fs.readFileSync(index, "utf8"));
  await send(0, { config, docs, options: { suggest: false } });
  for (const query of JSON.parse(queries)) {
    const { items } = await send(2, query);
    firsts[query] = items.slice(0, 3).map((group) => group[0].location);
  }
  console.log(JSON.stringify(firsts));
})();
"""


def first_pages(folder: Path, queries: list[str]) -> dict[str, list[str]]:
    """The first three pages that the site in a folder finds for each query."""
    (script,) = (folder / "assets" / "javascripts" / "workers").glob("search.*.js")
    arguments = [str(script), str(folder / "search" / "search_index.json"), json.dumps(queries)]
    command = ["node", "-e", WORKER, *arguments]
    result: dict[str, list[str]] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return result


def check(folder: Path) -> None:
    """Raise an error if the search of the site in a folder does not find what it should first."""
    found = first_pages(folder, list(FIRST))
    wrong = {query: pages for query, pages in found.items() if not pages or pages[0].partition("#")[0] != FIRST[query]}
    if wrong:
        raise LookupError(f"The search does not list the guide first: {wrong}")
