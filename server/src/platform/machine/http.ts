import type { Server } from 'node:http'

/**
 * Node's HTTP, for all of the server: an `import` of `node:http` reads each of its exports, and reading its `WebSocket` loads
 * Node's whole client for the web, which takes 14 MB of memory in every process. Types may be imported from `node:http`.
 */
export const { createServer, request, ServerResponse, STATUS_CODES } = process.getBuiltinModule('node:http')

/** Lets a server answer clients that end their side after the request, such as `nc -N`, which Node cuts otherwise. */
export function acceptHalfClosed(server: Server): void {
  // Node has had this property since version 0.1.90, and no documentation of it.
  Object.assign(server, { httpAllowHalfOpen: true })
}
