/**
 * Node's HTTP, for all of the server: an `import` of `node:http` reads each of its exports, and reading its `WebSocket` loads
 * Node's whole client for the web, which takes 14 MB of memory in every process. Types may be imported from `node:http`.
 */
export const { createServer, request, ServerResponse, STATUS_CODES } = process.getBuiltinModule('node:http')
