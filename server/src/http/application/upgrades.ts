import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import { connectPath } from '../../contract/run-protocol.ts'

/** Connects a client to its run. Never rejects. */
export type ConnectRun = (request: IncomingMessage, socket: Duplex, head: Buffer) => Promise<void>

/** The only request that is taken out of HTTP. All others are answered as if they asked for no other protocol. */
export const isUpgrade = ({ headers, url }: IncomingMessage): boolean =>
  headers.upgrade?.toLowerCase() === 'websocket' && url === connectPath

/** Passes requests for a WebSocket on, once something takes them; before that, they are closed, and clients try again. */
export function passUpgrades(server: Server): (connect: ConnectRun) => void {
  let connect: ConnectRun | undefined
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    if (connect === undefined) socket.destroy()
    else void connect(request, socket, head)
  })
  return (given) => {
    connect = given
  }
}
