/**
 * True when the value has to be awaited. Tested by its method `then`, as `await` does, because promises of another realm,
 * of a library or of a replaced `globalThis.Promise` are not instances of `Promise`.
 */
export const isThenable = <T>(value: T | PromiseLike<T>): value is PromiseLike<T> =>
  typeof (value as { readonly then?: unknown } | null | undefined)?.then === 'function'
