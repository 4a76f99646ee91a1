/** As much of `ws` as these tests use. */
declare module 'ws' {
  import type { EventEmitter } from 'node:events'
  import type { Server } from 'node:http'

  export class WebSocket extends EventEmitter {
    constructor(address: string)
    send(data: string | Buffer): void
    close(code?: number): void
    terminate(): void
  }

  export class WebSocketServer extends EventEmitter {
    constructor(options: { server: Server })
    readonly clients: Set<WebSocket>
  }
}
