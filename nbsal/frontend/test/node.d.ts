// The parts of node's test modules that the tests use; @types/node is not a dependency.
declare module "node:test" {
  export function test(name: string, body: () => void | Promise<void>): void;
  export function afterEach(body: () => void): void;
}

declare module "node:assert/strict" {
  const assert: {
    equal(actual: unknown, expected: unknown, message?: string): void;
    notEqual(actual: unknown, expected: unknown, message?: string): void;
    deepEqual(actual: unknown, expected: unknown, message?: string): void;
    ok(value: unknown, message?: string): void;
    match(value: string, pattern: RegExp, message?: string): void;
    throws(call: () => unknown, error?: RegExp): void;
    rejects(promise: Promise<unknown>, error?: RegExp): Promise<void>;
  };
  export default assert;
}

declare module "node:crypto" {
  export function createHash(name: "sha256"): { update(text: string): { digest(form: "hex"): string } };
}

declare module "node:fs" {
  export function readFileSync(path: string, encoding: "utf8"): string;
}
