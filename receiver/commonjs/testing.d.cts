import type * as testing from '../dist/testing.js' with { 'resolution-mode': 'import' }

export type * from '../dist/testing.js' with { 'resolution-mode': 'import' }
export declare const createClock: typeof testing.createClock
export declare const postWebhook: typeof testing.postWebhook
export declare const signWebhook: typeof testing.signWebhook
export declare const vectors: typeof testing.vectors
