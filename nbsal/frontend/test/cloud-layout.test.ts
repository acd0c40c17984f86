import assert from "node:assert/strict";
import { test } from "node:test";
import { type Box, layOutCloud, typeSize } from "../src/cloud-layout.ts";

/** Boxes as words of a cloud would measure at a width. */
const words = (count: number, width: number): Box[] =>
  Array.from({ length: count }, (_, k) => {
    const size = typeSize(1 / (1 + k / 4), width);
    return { width: size * (1 + ((k * 7) % 11)) * 0.55, height: size * 0.95 };
  });
console.log(1);
