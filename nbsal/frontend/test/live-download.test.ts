import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { afterEach, test } from "node:test";
import { download, UnusableModel } from "../src/live/download";

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");
const FILES: Record<string, string> = { "model.bin": "weights".repeat(400), "vocabulary.json": "{}" };
const SIZES = { width: 4, depth: 1, heads: 1, inner: 4, vocabulary: 3, classes: 2, epsilon: 1e-12, longest: 5 };
const MATRICES = ["0.query", "0.key", "0.value", "0.attention", "0.inner", "0.outer", "pooler"];
const NORMS = ["norm", "0.attention_norm", "0.norm"];
const SHAPES: Record<string, number[]> = {
  tokens: [3, 4],
  positions: [5, 4],
  types: [2, 4],
  "classifier.weight": [2, 4],
  "classifier.bias": [2],
  ...Object.fromEntries(MATRICES.map((name) => [`${name}.weight`, [4, 4]])),
  ...Object.fromEntries(NORMS.map((name) => [`${name}.weight`, [4]])),
  ...Object.fromEntries([...MATRICES, ...NORMS].map((name) => [`${name}.bias`, [4]])),
};
const MODEL = {
  format: 1,
  labels: ["bad", "good"],
  sizes: SIZES,
  tensors: Object.fromEntries(Object.entries(SHAPES).map(([name, shape]) => [name, { at: 0, shape, bits: 32 }])),
  files: Object.fromEntries(
    Object.entries(FILES).map(([name, text]) => [name, { bytes: text.length, sha256: sha256(text) }]),
  ),
};
const MANIFEST = JSON.stringify(MODEL);
const FOLDER = `http://localhost/nbsal-live/reviews-${sha256(MANIFEST).slice(0, 12)}/`;
const [fetched, secure] = [globalThis.fetch, Object.getOwnPropertyDescriptor(globalThis, "crypto")];

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
  Object.defineProperty(globalThis, "crypto", secure as PropertyDescriptor);
});

test("files as Python wrote them are read", async () => {
  serve();
  const shares: number[] = [];
  const { bytes } = await download(FOLDER, (share) => shares.push(share));
  assert.equal(new TextDecoder().decode(bytes), FILES["model.bin"]);
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
    if (sent < 1000) controller.enqueue(new Uint8Array(1000));
    else controller.close();
  };
  serve({ "model.bin": new ReadableStream({ pull }) });
  await refused();
  assert.ok(sent < 10);
});

test("without digests, as over plain http, a manifest that no model can have is refused", async () => {
  Object.defineProperty(globalThis, "crypto", { value: {}, configurable: true });
  serve();
  await download(FOLDER, () => {});
  const { tensors, files } = MODEL;
  const tensor = tensors.tokens;
  const changes: object[] = [
    ...[0, 3, -1, 1e9, "1", null].map((heads) => ({ sizes: { ...SIZES, heads } })),
    ...[0, 2, 1e9, 0.5].map((depth) => ({ sizes: { ...SIZES, depth } })),
    { sizes: { ...SIZES, longest: 6 } },
    { sizes: { ...SIZES, epsilon: "x" } },
    { sizes: null },
    { labels: ["bad"] },
    { labels: [1, 2] },
    { tensors: {} },
    { tensors: { ...tensors, "0.key.weight": undefined } },
    { tensors: { ...tensors, "1.key.weight": tensor } },
    { tensors: { ...tensors, tokens: { ...tensor, at: 2 } } },
    { tensors: { ...tensors, tokens: { ...tensor, at: 2796 } } },
    { tensors: { ...tensors, tokens: { ...tensor, bits: 16 } } },
    { tensors: { ...tensors, tokens: { ...tensor, shape: [4, 3] } } },
    { files: { ...files, "model.bin": { bytes: -1 } } },
    { files: {} },
    { format: undefined },
  ];
  for (const change of changes) {
    serve({ "manifest.json": JSON.stringify({ ...MODEL, ...change }) });
    await refused();
  }
  for (const text of ["null", "[]", "<html>not found</html>"]) {
    serve({ "manifest.json": text });
    await refused();
  }
});
