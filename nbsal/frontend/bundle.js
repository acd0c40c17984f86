// What esbuild needs beside TypeScript: the kernel in WebAssembly.
import { join } from "node:path";
import { fileURLToPath } from "node:url";

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

export const plugins = [kernel];
