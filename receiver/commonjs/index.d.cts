// A CommonJS module may not re-export the values of an ECMAScript module by `export *`, so they are listed.
import type * as receiver from '../dist/index.js' with { 'resolution-mode': 'import' }

export type * from '../dist/index.js' with { 'resolution-mode': 'import' }
export declare const createReceiver: typeof receiver.createReceiver
export declare const events: typeof receiver.events
export declare const generateSecret: typeof receiver.generateSecret
export declare const memoryStore: typeof receiver.memoryStore
export declare const parseSecret: typeof receiver.parseSecret
export declare const postgresStore: typeof receiver.postgresStore
export declare const ReceiverError: typeof receiver.ReceiverError
export type ReceiverError = receiver.ReceiverError
export declare const sign: typeof receiver.sign
export declare const verify: typeof receiver.verify
