import type * as exchange from '../dist/contract/key-exchange.js' with { 'resolution-mode': 'import' }

export type * from '../dist/contract/key-exchange.js' with { 'resolution-mode': 'import' }
export declare const createKeyExchange: typeof exchange.createKeyExchange
export declare const endKey: typeof exchange.endKey
export declare const NoTokenError: typeof exchange.NoTokenError
export type NoTokenError = exchange.NoTokenError
