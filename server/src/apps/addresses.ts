import { randomInt } from 'node:crypto'
import { slugOf } from '../contract/resources/hosts/slug.ts'
import type { PublicAddress } from '../gateway/client.ts'
import type { AppsConfig, Range } from '../platform/config.ts'

/**
 * Returns the host name of an app. The end of the project's id keeps the apps of two projects apart; `attempt` above 1
 * keeps apart two names of one project that have the same slug.
 */
export function hostnameOf(options: { name: string; projectId: string; domain: string; attempt: number }): string {
  const again = options.attempt > 1 ? `-${options.attempt}` : ''
  return `${slugOf(options.name)}${again}-${options.projectId.slice(-8)}.${options.domain}`
}

export function addressOf(app: { port: number | null; hostname: string | null }): PublicAddress {
  if (app.port !== null) return { port: app.port }
  return { hostname: app.hostname ?? '' }
}

/** Returns the public address of an app, as in a deployment's `url`. */
export function publicUrl(address: PublicAddress, config: AppsConfig): string {
  if ('port' in address) {
    const host = config.mode === 'ports' ? config.publicHost : config.domain
    return `http://${host.includes(':') ? `[${host}]` : host}:${address.port}`
  }
  if (config.mode === 'ports') return `http://${address.hostname}`
  const usual = config.scheme === 'https' ? 443 : 80
  const port = config.publicPort === usual ? '' : `:${config.publicPort}`
  return `${config.scheme}://${address.hostname}${port}`
}

/** Yields the addresses that a new app may get, one after the other. */
export function* candidates(config: AppsConfig, projectId: string, name: string): Generator<PublicAddress> {
  if (config.mode === 'hostnames') {
    for (let attempt = 1; attempt <= 100; attempt++) {
      yield { hostname: hostnameOf({ name, projectId, domain: config.domain, attempt }) }
    }
  } else {
    for (const port of portsFrom(config.ports)) yield { port }
  }
}

/** Yields every port of a range once. Begins at a random one, so that two servers on one machine seldom meet. */
function* portsFrom({ from, to }: Range): Generator<number> {
  const size = to - from + 1
  const start = randomInt(size)
  for (let step = 0; step < size; step++) yield from + ((start + step) % size)
}
