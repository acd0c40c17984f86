// The files of a model beside the page: downloaded once, checked, and kept by the browser.

import { FORMAT, isRunnable, type Manifest, type Tables } from "./manifest";

const MANIFEST = "manifest.json";
const LARGEST_MANIFEST = 2 ** 24; // bytes
/** Digits of its digest in the name of a folder, as Python writes it. */
const DIGITS = 12;

/** A model that cannot be used, in words for the reader. */
export class UnusableModel extends Error {}

export interface Files {
  manifest: Manifest;
  bytes: ArrayBuffer;
  tables: Tables;
}

/** Once a download has failed, files are fetched anew: the browser may have cached the damaged one. */
let cache: RequestCache = "default";

/** Download the files of a folder; `report` is told the share that has come. */
export function download(folder: string, report: (share: number) => void): Promise<Files> {
  return downloadAll(folder, report).catch((error) => {
    cache = "reload";
    throw error;
  });
}

async function downloadAll(folder: string, report: (share: number) => void): Promise<Files> {
  const manifest = parsed(await checkedManifest(folder), MANIFEST) as Manifest;
  if (manifest?.format !== FORMAT) {
    throw new UnusableModel("The model beside this page is of another version of nbsal. Write the page again.");
  }
  if (!isRunnable(manifest)) throw damaged(MANIFEST); // where no digest can be computed, nothing else would notice
  const total = Object.values(manifest.files).reduce((sum, { bytes }) => sum + bytes, 0);
  let done = 0;
  const count = (bytes: number) => {
    done += bytes;
    report(Math.min(1, done / total));
  };
  const names = ["model.bin", "vocabulary.json"];
  const [bytes, vocabulary] = await Promise.all(
    names.map(async (name) => checked(name, await content(folder, name, count, manifest.files[name].bytes), manifest)),
  );
  return { manifest, bytes, tables: parsed(vocabulary, "vocabulary.json") as Tables };
}

/** The manifest, whose digest is in the name of its folder. */
async function checkedManifest(folder: string): Promise<ArrayBuffer> {
  const bytes = await content(folder, MANIFEST, () => {}, LARGEST_MANIFEST);
  const digest = await digestOf(bytes);
  if (digest && !folder.endsWith(`-${digest.slice(0, DIGITS)}/`)) throw damaged(MANIFEST);
  return bytes;
}

async function content(
  folder: string,
  name: string,
  count: (bytes: number) => void,
  most: number,
): Promise<ArrayBuffer> {
  const response = await fetch(new URL(name, folder), { cache }).catch(() => null);
  if (!response?.ok || !response.body) {
    throw new UnusableModel(`${name} of the model is not beside this page. Keep both together, as they were written.`);
  }
  const parts: Uint8Array<ArrayBuffer>[] = [];
  const reader = response.body.getReader();
  let size = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    size += part.value.length;
    if (size > most) {
      await reader.cancel();
      throw damaged(name);
    }
    parts.push(part.value);
    count(part.value.length);
  }
  return new Blob(parts).arrayBuffer();
}

async function checked(name: string, bytes: ArrayBuffer, { files }: Manifest): Promise<ArrayBuffer> {
  const digest = await digestOf(bytes);
  if (bytes.byteLength !== files[name].bytes || (digest && digest !== files[name].sha256)) throw damaged(name);
  return bytes;
}

const damaged = (name: string) => new UnusableModel(`${name} of the model is damaged. Write the page again.`);

/** The SHA-256 of some bytes; "" where the browser computes none, since it does for secure pages only. */
const digestOf = async (bytes: ArrayBuffer) =>
  globalThis.crypto?.subtle ? hex(await crypto.subtle.digest("SHA-256", bytes)) : "";

const hex = (digest: ArrayBuffer) =>
  Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");

function parsed(bytes: ArrayBuffer, name: string): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    throw damaged(name);
  }
}
