import type { Duplex } from 'node:stream'
import { runProtocol } from '../contract/run-protocol.ts'
import type { ConnectRun } from '../http/application/upgrades.ts'
import type { Database } from '../platform/database.ts'
import type { RunConnections } from './connections.ts'
import { hashTicket } from './handlers.ts'
import { redeemTicket } from './rows.ts'

const ticketForm = /^[\w-]{43}$/

/** Makes the function that connects clients by the tickets of their runs. */
export function createConnectRun({
  database,
  connections,
}: {
  readonly database: Database
  readonly connections: Pick<RunConnections, 'connect'>
}): ConnectRun {
  return async (request, socket, head) => {
    // A client may go away before it has an answer.
    socket.on('error', () => undefined)
    const [protocol, ticket = ''] = (request.headers['sec-websocket-protocol'] ?? '')
      .split(',')
      .map((part) => part.trim())
    if (protocol !== runProtocol || !ticketForm.test(ticket)) return refuse(socket, 400)
    const runId = await redeemTicket(database, hashTicket(ticket)).catch(() => null)
    if (runId === null) return refuse(socket, 503)
    if (runId === undefined) return refuse(socket, 403)
    await connections.connect(request, socket, head, runId)
  }
}

const reasons = {
  400: 'Bad Request',
  403: 'Forbidden',
  503: 'Service Unavailable',
} as const

function refuse(socket: Duplex, status: keyof typeof reasons): void {
  socket.once('finish', () => socket.destroy())
  socket.end(`HTTP/1.1 ${status} ${reasons[status]}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`)
}
