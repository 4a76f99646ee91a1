import { X509Certificate } from 'node:crypto'
import { afterAll, beforeAll, expect, vi } from 'vitest'
import type { EdgeConfig } from '../../../server/src/platform/config/edge.ts'
import { type AcmeProxy, startAcmeProxy } from '../../harness/acme-proxy.ts'
import { createWorld, type Row, type World } from '../../harness/certificates/world.ts'
import { type ChallengeDns, startChallengeDns } from '../../harness/challenge-dns.ts'
import { noPebble, type Pebble, type PebbleOptions, startPebble } from '../../harness/pebble.ts'
import { freePort } from '../../harness/ports.ts'

/** Why certificates cannot be obtained here; null when they can. */
export const noAuthority = await noPebble()
if (noAuthority !== null) console.warn(`Tests of certificates are left out: ${noAuthority}`)

export interface Authority {
  readonly dns: ChallengeDns
  readonly pebble: Pebble
  readonly proxy: AcmeProxy
  /** Makes a server whose authority is Pebble, or the proxy in front of it. */
  world(config?: Partial<EdgeConfig>): Promise<World>
  worldBehindProxy(config?: Partial<EdgeConfig>): Promise<World>
}

/** Starts Pebble with its DNS for all tests of a file. */
export function useAuthority(options: Partial<PebbleOptions> = {}): Authority {
  const cleanup = new AsyncDisposableStack()
  const parts: { dns?: ChallengeDns; pebble?: Pebble; proxy?: AcmeProxy } = {}
  let httpPort = 0
  beforeAll(async () => {
    const dns = cleanup.use(await startChallengeDns())
    httpPort = await freePort()
    const dnsServer = `127.0.0.1:${dns.port}`
    const pebble = cleanup.use(
      await startPebble({ httpPort, tlsPort: await freePort(), dnsServer, lifetimeSeconds: 7_776_000, ...options }),
    )
    Object.assign(parts, { dns, pebble, proxy: cleanup.use(await startAcmeProxy(pebble)) })
  })
  afterAll(() => cleanup.disposeAsync())

  const there = <T>(part: T | undefined): T => {
    if (part === undefined) throw new Error('the authority has not started')
    return part
  }
  const world = (of: { readonly directoryUrl: string; readonly caFile: string }, config: Partial<EdgeConfig>) =>
    createWorld(
      {
        acme: { email: 'operator@example.com', url: of.directoryUrl, ca: of.caFile },
        dnsServers: [{ address: '127.0.0.1', port: there(parts.dns).port }],
        ...config,
      },
      httpPort,
    )
  return {
    get dns() {
      return there(parts.dns)
    },
    get pebble() {
      return there(parts.pebble)
    },
    get proxy() {
      return there(parts.proxy)
    },
    world: (config = {}) => world(there(parts.pebble), config),
    worldBehindProxy: (config = {}) => world(there(parts.proxy), config),
  }
}

export const until = <T>(check: () => T | Promise<T>): Promise<T> =>
  vi.waitFor(check, { timeout: 40_000, interval: 50 })

/** Resolves with the shown certificate of a name. */
export const shownFor = (given: World, name: string): Promise<X509Certificate> =>
  until(() => {
    const pem = given.shown.get(name)
    expect(pem, name).toBeDefined()
    return new X509Certificate(pem?.slice(pem.indexOf('-----BEGIN CERTIFICATE')) ?? '')
  })

/** Resolves with the row of a name after a failed attempt. */
export const failureOf = (given: World, name: string) =>
  until(async () => {
    const row = await given.row(name)
    expect([row?.failure, row?.is_under_way]).toEqual([expect.anything(), false])
    if (row?.failure == null) throw new Error('it has not failed')
    return { ...row, failure: row.failure }
  })

/** Returns the minutes between the last attempt and the next one. */
export const waitOf = (row: Pick<Row, 'next_attempt_at' | 'attempted_at'>): number =>
  ((row.next_attempt_at?.getTime() ?? 0) - (row.attempted_at?.getTime() ?? 0)) / 60_000
