import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { rawHead } from '../http1/response-head.ts'
import { refuseAnswer } from './failure.ts'
import { faultOf } from './faults.ts'
import { responseHeaders } from './relay-answer.ts'
import { type Exchange, isOver, settle } from './state.ts'
import { openTunnel } from './tunnel.ts'

/** Tells the client that the app has switched protocols, and joins the two connections. */
export function onUpgrade(
  exchange: Exchange,
  incoming: IncomingMessage,
  upstream: Socket,
  upstreamHead: Buffer,
  clientHead: Buffer,
): void {
  const { client, res, guarded } = exchange
  if (isOver(exchange)) {
    upstream.destroy()
    return
  }
  exchange.answer = incoming
  let switched: string
  try {
    const protocol = incoming.headers.upgrade ?? ''
    const headers = [...responseHeaders(exchange, incoming, 101), 'Connection', 'Upgrade', 'Upgrade', protocol]
    switched = rawHead(101, incoming.statusMessage ?? '', headers)
  } catch (error) {
    upstream.destroy()
    refuseAnswer(exchange, faultOf(error).message)
    return
  }
  client.on(
    'close',
    guarded(() => {
      exchange.clientDone = true
      settle(exchange)
    }),
  )
  res.detachSocket(client)
  client.write(switched, 'latin1')
  client.write(upstreamHead)
  upstream.write(clientHead)
  openTunnel(client, upstream)
}
