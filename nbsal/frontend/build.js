// Builds every view of src/views, and the stand-in for Python, into the package: one file each, sources shared.
import { readdirSync } from "node:fs";
import { build } from "esbuild";

const views = new URL("src/views/", import.meta.url).pathname;
const outdir = process.argv[2] ?? new URL("../widgets/static", import.meta.url).pathname;
const common = { bundle: true, minify: true, charset: "utf8", target: "es2022", legalComments: "none", outdir };

await build({ ...common, format: "esm", entryPoints: readdirSync(views).map((name) => views + name) });
await build({
  ...common,
  format: "iife",
  globalName: "nbsal",
  entryPoints: [new URL("src/offline.js", import.meta.url).pathname],
});
