import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { afterEach, test } from "node:test";
import { download, UnusableModel } from "../src/live/download";

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");
const FILES: Record<string, string> = { "model.bin": "weights", "vocabulary.json": "{}" };
const MANIFEST = JSON.stringify({
  format: 1,
  files: Object.fromEntries(
    Object.entries(FILES).map(([name, text]) => [name, { bytes: text.length, sha256: sha256(text) }]),
  ),
});
const FOLDER = `http://localhost/nbsal-live/reviews-${sha256(MANIFEST).slice(0, 12)}/`;
const fetched = globalThis.fetch;

/** Serve the files of a model, some of them changed. */
function serve(changed: Record<string, BodyInit> = {}) {
  const files: Record<string, BodyInit> = { "manifest.json": MANIFEST, ...FILES, ...changed };
  globalThis.fetch = async (address) => new Response(files[String(address).split("/").pop() as string]);
}

async function refused() {
  const error = await download(FOLDER, () => {}).catch((reason: unknown) => reason);
  assert.ok(error instanceof UnusableModel);
}

afterEach(() => {
  globalThis.fetch = fetched;
});

test("files as Python wrote them are read", async () => {
  serve();
  const shares: number[] = [];
  const { bytes } = await download(FOLDER, (share) => shares.push(share));
  assert.equal(new TextDecoder().decode(bytes), "weights");
  assert.equal(shares.at(-1), 1);
});

test("a file that somebody edited is refused", async () => {
  const edits: Record<string, string>[] = [
    { "model.bin": "Weights" },
    { "vocabulary.json": "[]" },
    { "manifest.json": MANIFEST.replace('"format":1', '"format":1,"sizes":{"depth":1e9}') },
    { "manifest.json": "<html>not found</html>" },
  ];
  for (const changed of edits) {
    serve(changed);
    await refused();
  }
});

test("after a failure the browser's cache is not used", async () => {
  serve({ "model.bin": "Weights" });
  await refused();
  const modes: (RequestCache | undefined)[] = [];
  serve();
  const answer = globalThis.fetch;
  globalThis.fetch = (address, options) => {
    modes.push(options?.cache);
    return answer(address, options);
  };
  await download(FOLDER, () => {});
  assert.deepEqual(modes, ["reload", "reload", "reload"]);
});

test("a file that does not end is read no further than its size", async () => {
  let sent = 0;
  const pull = (controller: ReadableStreamDefaultController) => {
    sent += 1;
    if (sent < 1000) controller.enqueue(new Uint8Array(5));
    else controller.close();
  };
  serve({ "model.bin": new ReadableStream({ pull }) });
  await refused();
  assert.ok(sent < 10);
});
