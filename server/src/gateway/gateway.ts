import type { Gateway, Upstream } from './client.ts'
import { createGateway as createOld } from './old-gateway.ts'

const before = (upstream: Upstream | null) =>
  upstream && { deploymentId: upstream.deploymentId, ...upstream.endpoints[0] }
const after = (upstream: { deploymentId: string; host: string; port: number } | null): Upstream | null =>
  upstream && { deploymentId: upstream.deploymentId, endpoints: [{ host: upstream.host, port: upstream.port }] }

export function createGateway(options: Parameters<typeof createOld>[0]): Gateway & { listen(): Promise<void> } {
  const old = createOld(options)
  return {
    listen: old.listen,
    open: old.open,
    async isFree(address) {
      try {
        await old.open('probe', address)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') return false
        throw error
      }
      await old.close('probe')
      return true
    },
    route: async (appId, upstream) => after(old.route(appId, before(upstream))),
    current: (appId) => after(old.current(appId)),
    drain: (upstream, drainOptions) => old.drain(before(upstream) as never, drainOptions),
    close: old.close,
    takeTraffic: async () => old.takeTraffic(),
    onRefused: () => () => undefined,
    stop: old.stop,
  }
}
