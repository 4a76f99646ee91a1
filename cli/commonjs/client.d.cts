// A CommonJS module may not re-export the values of an ECMAScript module by `export *`, so they are listed.
import type * as client from '../dist/client/client.js' with { 'resolution-mode': 'import' }

export type * from '../dist/client/client.js' with { 'resolution-mode': 'import' }
export declare const ApiError: typeof client.ApiError
export type ApiError = client.ApiError
export declare const createClient: typeof client.createClient
