/**
 * Whether a value has to be waited for. Asked by its method, as `await` does: promises of another realm, of a library
 * or of a replaced `globalThis.Promise` are no instances of `Promise`.
 */
export const isThenable = <T>(value: T | PromiseLike<T>): value is PromiseLike<T> =>
  typeof (value as { readonly then?: unknown } | null | undefined)?.then === 'function'
