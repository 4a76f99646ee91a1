import type * as client from '../dist/contract/dashboard-client.js' with { 'resolution-mode': 'import' }

export type * from '../dist/contract/dashboard-client.js' with { 'resolution-mode': 'import' }
export declare const createDashboardClient: typeof client.createDashboardClient
export declare const channels: typeof client.channels
export declare const readMessage: typeof client.readMessage
export declare const runProtocol: typeof client.runProtocol
