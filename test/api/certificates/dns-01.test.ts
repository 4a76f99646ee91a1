import { pino } from 'pino'
import { expect, it, vi } from 'vitest'
import { challengeTarget, createDns01 } from '../../../server/src/features/certificates/acme/dns-01.ts'
import { AttemptError } from '../../../server/src/features/certificates/acme/errors.ts'
import { openDatabase } from '../../../server/src/platform/database.ts'
import type { Resolver } from '../../../server/src/platform/dns/resolver.ts'
import { testDatabase } from '../../harness/database.ts'

it('a record that some name servers lack is reported to tenants without the servers’ addresses', async () => {
  await using database = await testDatabase()
  const logger = pino({ level: 'silent' })
  const { db, close } = openDatabase({ connectionString: database.url, max: 1 }, logger)
  const target = challengeTarget('shop.test', 'example.test')
  let passedMs = 0
  const now = performance.now.bind(performance)
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + passedMs)
  const resolver = {
    resolve: async (name: string) => ({ outcome: 'found', names: [name, target], records: [] }),
    zoneOf: async () => ({ name: 'example.test', servers: [{ name: 'ns1.hidden.test', addresses: ['192.0.2.53'] }] }),
    askAuthority: async () => {
      passedMs = 600_000
      return { answers: [] }
    },
  } as unknown as Resolver
  const updates = { add: async () => undefined, remove: async () => undefined }
  const proof = createDns01({ database: db, updates, resolver, domain: 'example.test', logger })
  try {
    const prepared = proof.prepare({ name: 'shop.test', token: 'token', value: 'value' }, AbortSignal.timeout(60_000))
    const error = await prepared.catch((reason: unknown) => reason)
    if (!(error instanceof AttemptError)) throw error
    expect(error.failure).toMatchObject({ code: 'dns_not_visible', message: expect.stringContaining('192.0.2.53') })
    expect(error.facts.toTenants).toMatch(/^The server has set its TXT record/)
    expect(error.facts.toTenants).not.toMatch(/192\.0\.2\.53|hidden/)
  } finally {
    clock.mockRestore()
    await close()
  }
})
