// What a live page computes in WebAssembly.

export { exponentials, largest } from "./exponentials";
export { multiply } from "./multiply";
