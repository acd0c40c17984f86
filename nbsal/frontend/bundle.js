// What esbuild needs beside TypeScript: the kernel in WebAssembly, and a worker as text in the script that starts it.
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const KERNEL = ["--optimizeLevel", "3", "--enable", "simd", "--runtime", "stub", "--noAssert", "--importMemory"];

/** Loads *.wasm from the AssemblyScript source of the same name. */
const kernel = {
  name: "kernel",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /\.wasm$/ }, ({ path, resolveDir }) => ({ path: join(resolveDir, path), namespace: "kernel" }));
    onLoad({ filter: /./, namespace: "kernel" }, async ({ path }) => ({
      contents: await compile(path),
      loader: "binary",
    }));
  },
};

async function compile(path) {
  const { default: asc } = await import("assemblyscript/asc"); // takes a second to load
  const source = path.replace(/\.wasm$/, ".ts");
  let contents = new Uint8Array();
  const writeFile = (_, written) => {
    contents = written;
  };
  const root = fileURLToPath(new URL(".", import.meta.url));
  const { error, stderr } = await asc.main(
    [source.slice(root.length), "--baseDir", root, "-o", "kernel.wasm", ...KERNEL],
    { writeFile },
  );
  if (error) throw new Error(stderr.toString());
  return contents;
}

/** Loads NAME?script as the text of the bundled script. */
const script = {
  name: "script",
  setup({ onResolve, onLoad, initialOptions }) {
    onResolve({ filter: /\?script$/ }, ({ path, importer }) => ({
      path: join(dirname(importer), path.replace("?script", ".ts")),
      namespace: "script",
    }));
    onLoad({ filter: /./, namespace: "script" }, async ({ path }) => {
      const { minify, charset, target, legalComments } = initialOptions;
      const options = { bundle: true, minify, charset, target, legalComments, format: "iife", write: false, plugins };
      const { outputFiles } = await build({ ...options, entryPoints: [path] });
      return { contents: outputFiles[0].text, loader: "text" };
    });
  },
};

export const plugins = [kernel, script];
