import { createServer } from 'node:net'

/** Free TCP ports of a range, each for one owner at a time. */
export interface Ports {
  /** @throws Error when no port of the range is free */
  reserve(): Promise<number>
  release(port: number): void
}

export function createPorts(range: { readonly from: number; readonly to: number }): Ports {
  // An app takes a while to listen. Until then only this set marks its port as taken.
  const reserved = new Set<number>()
  return {
    reserve: async () => {
      const count = range.to - range.from + 1
      const first = Math.floor(Math.random() * count)
      for (let step = 0; step < count; step += 1) {
        const port = range.from + ((first + step) % count)
        if (reserved.has(port)) continue
        reserved.add(port)
        if ((await canBind(port, '127.0.0.1')) && (await canBind(port, '::'))) return port
        reserved.delete(port)
      }
      throw new Error(`no free port between ${range.from} and ${range.to}`)
    },
    release: (port) => {
      reserved.delete(port)
    },
  }
}

function canBind(port: number, host: string): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', (error: NodeJS.ErrnoException) => {
      // Without IPv6 nothing can occupy the port there.
      resolve(host === '::' && (error.code === 'EAFNOSUPPORT' || error.code === 'EADDRNOTAVAIL'))
    })
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(true)))
  })
}
