// Bundle test/*.test.ts into a temporary folder and run them with node's own test runner.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { plugins } from "./bundle.js";

const folder = fileURLToPath(new URL("test/", import.meta.url));
const outdir = mkdtempSync(join(tmpdir(), "nbsal-"));
const tests = readdirSync(folder).filter((name) => name.endsWith(".test.ts"));
const entryPoints = tests.map((name) => folder + name);
try {
  const outExtension = { ".js": ".mjs" };
  await build({
    bundle: true,
    format: "esm",
    platform: "node",
    target: "es2022",
    plugins,
    sourcemap: "inline",
    outExtension,
    outdir,
    entryPoints,
  });
  const files = readdirSync(outdir).map((name) => join(outdir, name));
  process.exitCode = spawnSync(process.execPath, ["--enable-source-maps", "--test", ...files], {
    stdio: "inherit",
  }).status;
} finally {
  rmSync(outdir, { recursive: true });
}
