import { join } from 'node:path'
import { pino } from 'pino'
import { expect, it } from 'vitest'
import { createCertificates } from '../../../server/src/features/databases/postgres/certificates.ts'
import { createEmbeddedEngine } from '../../../server/src/features/databases/postgres/embedded.ts'
import { openDatabase } from '../../../server/src/platform/database.ts'
import { createBinariesStore } from '../../../server/src/platform/postgres/binaries.ts'
import { testDatabase } from '../../harness/database.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

it('the embedded engine returns its configured host, and one port for each version', async () => {
  await using state = await testDatabase()
  await using directory = await temporaryDirectory()
  const logger = pino({ level: 'silent' })
  await using handle = Object.assign(openDatabase({ connectionString: state.url, max: 1 }, logger), {
    [Symbol.asyncDispose]: () => handle.close(),
  })
  const ports = { from: 42_000, to: 42_999 }
  const engine = createEmbeddedEngine({
    directory: directory.path,
    runtimeDirectory: directory.path,
    user: null,
    host: 'databases.internal',
    ports,
    certificates: createCertificates({ directory: join(directory.path, 'certificates'), user: null, names: [] }),
    binaries: await createBinariesStore({ directory: directory.path, releases: {}, environment: {}, logger }),
    logger,
  })
  const address = () => handle.db.transaction().execute((transaction) => engine.addressOf(transaction, '18'))
  const first = await address()
  expect(first.host).toBe('databases.internal')
  expect(first.port).toBeGreaterThanOrEqual(ports.from)
  expect(first.port).toBeLessThanOrEqual(ports.to)
  expect(await address()).toEqual(first)
  expect(await engine.exists('18')).toBe(false)
  await engine.close()
})
