// The files of a model beside the page: downloaded once, checked, and kept by the browser.

import { FORMAT, type Manifest, type Tables } from "./manifest";

/** A model that cannot be used, in words for the reader. */
export class UnusableModel extends Error {}

export interface Files {
  manifest: Manifest;
  bytes: ArrayBuffer;
  tables: Tables;
}

/** Download the files of a folder; `report` is told the share that has come. */
export async function download(folder: string, report: (share: number) => void): Promise<Files> {
  const manifest = parsed(await content(folder, "manifest.json")) as Manifest;
  if (manifest.format !== FORMAT) {
    throw new UnusableModel("The model beside this page is of another version of nbsal. Write the page again.");
  }
  const total = Object.values(manifest.files).reduce((sum, { bytes }) => sum + bytes, 0);
  let done = 0;
  const count = (bytes: number) => {
    done += bytes;
    report(Math.min(1, done / total));
  };
  const names = ["model.bin", "vocabulary.json"];
  const [bytes, vocabulary] = await Promise.all(
    names.map(async (name) => checked(name, await content(folder, name, count), manifest)),
  );
  return { manifest, bytes, tables: parsed(vocabulary) as Tables };
}

async function content(folder: string, name: string, count?: (bytes: number) => void): Promise<ArrayBuffer> {
  const response = await fetch(new URL(name, folder)).catch(() => null);
  if (!response?.ok || !response.body) {
    throw new UnusableModel(`${name} of the model is not beside this page. Keep both together, as they were written.`);
  }
  if (!count) return response.arrayBuffer();
  const parts: Uint8Array<ArrayBuffer>[] = [];
  const reader = response.body.getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    parts.push(part.value);
    count(part.value.length);
  }
  return new Blob(parts).arrayBuffer();
}

async function checked(name: string, bytes: ArrayBuffer, { files }: Manifest): Promise<ArrayBuffer> {
  // Browsers compute digests for secure pages only; others at least compare sizes.
  const digest = globalThis.crypto?.subtle ? hex(await crypto.subtle.digest("SHA-256", bytes)) : files[name].sha256;
  if (bytes.byteLength !== files[name].bytes || digest !== files[name].sha256) {
    throw new UnusableModel(`${name} of the model is damaged. Write the page again.`);
  }
  return bytes;
}

const hex = (digest: ArrayBuffer) =>
  Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");

const parsed = (bytes: ArrayBuffer): unknown => JSON.parse(new TextDecoder().decode(bytes));
