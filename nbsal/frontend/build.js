// Bundle every view in src/views, and the scripts of saved and of live pages, into nbsal/widgets/static (or the folder
// given).
import { readdirSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { plugins } from "./bundle.js";

const path = (relative) => fileURLToPath(new URL(relative, import.meta.url));
const outdir = process.argv[2] ?? path("../widgets/static");
const options = { bundle: true, minify: true, charset: "utf8", target: "es2022", legalComments: "none", outdir };
const views = readdirSync(path("src/views")).map((name) => path(`src/views/${name}`));
const pages = { offline: path("src/page/offline.ts"), live: path("src/live/live.ts") };

rmSync(outdir, { recursive: true, force: true }); // files of views that were renamed or removed
await build({ ...options, format: "esm", entryPoints: views });
await build({ ...options, format: "iife", globalName: "nbsal", entryPoints: pages, plugins });
