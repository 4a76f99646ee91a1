import { describe, expect, it, vi } from 'vitest'
import {
  type CertificateSyncDependencies,
  startCertificateSync,
} from '../../../../server/src/features/certificates/serving.ts'
import { dashboardHost } from '../../../harness/certificates/world.ts'
import { noAuthority, shownFor, useAuthority } from '../authority.ts'

/** Names whose certificates a gateway should show; some are damaged, or rejected. */
function start(names: readonly string[], before: readonly string[] = []) {
  const shown = new Map(before.map((name) => [name, 'from before']))
  const broken = new Set<string>()
  const current = new Set(names)
  const log: unknown[] = []
  let looks = 0
  const look: CertificateSyncDependencies['look'] = async () => {
    looks += 1
    return new Map([...current].map((name) => [name, { id: name, serial: '1' }]))
  }
  const read = async (id: string) => {
    if (broken.has(`read ${id}`)) throw new Error(`${id} is damaged`)
    return `PEM of ${id}`
  }
  const certify = async (name: string, pem: string | null) => {
    if (broken.has(`certify ${name}`)) throw new Error(`${name} is not taken`)
    if (pem === null) shown.delete(name)
    else shown.set(name, pem)
  }
  return {
    shown,
    broken,
    current,
    log,
    looks: () => looks,
    start: () =>
      startCertificateSync({
        ...{ look, read, certify, before },
        logger: { error: (...line: unknown[]) => void log.push(line) },
      }),
  }
}

describe('a failing name', () => {
  it('delays no other certificate, and is logged once', async () => {
    const given = start(['a.test', 'b.test', 'c.test', 'd.test'], ['gone.test', 'stays.test'])
    for (const each of ['read a.test', 'certify c.test', 'certify gone.test']) given.broken.add(each)
    const sync = await given.start()
    expect(Object.fromEntries(given.shown)).toEqual({
      'gone.test': 'from before',
      'b.test': 'PEM of b.test',
      'd.test': 'PEM of d.test',
    })
    expect([sync.isShown('a.test'), sync.isShown('b.test')]).toEqual([false, true])
    for (let count = 0; count < 5; count++) {
      const looks = given.looks()
      sync.wake()
      await expect.poll(() => given.looks()).toBeGreaterThan(looks)
    }
    expect(given.log).toEqual(
      ['gone.test', 'a.test', 'c.test'].map((name) => [
        { err: expect.any(Error), name },
        'the gateway cannot use the certificate of a name',
      ]),
    )
    await sync.stop()
  })

  it('is retried soon, and then at growing intervals', async () => {
    const given = start(['a.test', 'b.test'])
    given.broken.add('certify a.test')
    const began = performance.now()
    const sync = await given.start()
    await vi.waitFor(() => expect(given.looks()).toBe(3), { timeout: 10_000 })
    expect(performance.now() - began).toBeGreaterThan(1_400)
    given.broken.clear()
    await vi.waitFor(() => expect([...given.shown.keys()].sort()).toEqual(['a.test', 'b.test']), { timeout: 10_000 })
    given.broken.add('certify a.test')
    given.current.delete('a.test')
    sync.wake()
    await expect.poll(() => given.log).toHaveLength(2)
    await sync.stop()
  })
})

describe.skipIf(noAuthority !== null)('a certificate with a damaged key', () => {
  const authority = useAuthority()

  it('delays no other certificate', async () => {
    await using given = await authority.world()
    const app = await given.app()
    await given.domain(app.id, 'www.damaged.test')
    await given.lead()
    await shownFor(given, 'www.damaged.test')
    await shownFor(given, dashboardHost)
    await given.stop()
    given.forget()
    await given.database.query("update certificates set private_key = '\\x00' where names = '{www.damaged.test}'")
    // The names are in the order of the rows.
    await given.database.query("update certificates set id = 'cert_0' where names = '{www.damaged.test}'")
    await given.lead()
    await shownFor(given, dashboardHost)
    await given.domain(app.id, 'www.later.test')
    await shownFor(given, 'www.later.test')
    expect(given.shown.has('www.damaged.test')).toBe(false)
    const told = given.log.filter(({ msg }) => msg === 'the gateway cannot use the certificate of a name')
    expect(told.map(({ name }) => name)).toEqual(['www.damaged.test'])
  })
})
