import { execFileSync, spawnSync } from 'node:child_process'
import { createPrivateKey, randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import { afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createAccountStore } from '../../../../server/src/features/accounts/accounts.ts'
import { insertAutomatic } from '../../../../server/src/features/certificates/rows.ts'
import { startWorker } from '../../../../server/src/features/certificates/worker.ts'
import { migrate, openDatabase } from '../../../../server/src/platform/database.ts'
import { migrations } from '../../../../server/src/platform/migrations/index.ts'
import { createSecretBox } from '../../../../server/src/platform/secrets.ts'
import { authority, type Issued, issue } from '../../../harness/issuing.ts'
import { skipped } from '../../../harness/ordinary-user.ts'
import { isRoot, temporaryDirectory } from '../../../harness/temporary.ts'
import { createHome, query } from '../../databases/fixtures/cluster-harness.ts'

const noMount = isRoot ? null : 'only root can mount a disk'
if (noMount !== null) skipped('certificates on a full disk', noMount)

let cleanup = new AsyncDisposableStack()
let issuer: Issued
beforeAll(async () => {
  issuer = await authority({ to: 1000 })
})
afterEach(async () => {
  await cleanup.disposeAsync()
  cleanup = new AsyncDisposableStack()
})

/** Mounts a small disk that can be filled. */
async function smallDisk() {
  const { path } = cleanup.use(await temporaryDirectory())
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=128m,mode=711', 'tmpfs', path])
  cleanup.defer(() => void execFileSync('umount', ['--lazy', path]))
  const filler = join(path, 'filler')
  return {
    path,
    fill: () => void spawnSync('dd', ['if=/dev/zero', `of=${filler}`, 'bs=4K']),
    empty: () => rm(filler),
  }
}

/** A worker whose authority is in memory, on a PostgreSQL with a fillable disk. */
async function world() {
  const disk = await smallDisk()
  const home = await createHome(disk.path)
  cleanup.defer(() => home.remove())
  const cluster = await home.open({ supervise: true })
  const log: string[] = []
  const logger = pino({}, { write: (line: string) => void log.push(JSON.parse(line).msg) })
  const handle = openDatabase({ ...cluster.connection, max: 6 }, logger)
  cleanup.defer(handle.close)
  await migrate(handle.db, migrations)
  const operatorId = await createAccountStore({ database: handle.db }).ensureOperator()
  const name = { name: 'a.example.net', accountId: operatorId, projectId: null, appId: null, domainId: null }
  await insertAutomatic(handle.db, name)
  const orders: (() => void)[] = []
  const worker = startWorker({
    database: handle.db,
    secrets: createSecretBox(randomBytes(32)),
    logger,
    operatorId,
    limits: { perDomain: 1000, perAccount: 1000 },
    servedNames: async () => [name],
    isShown: () => true,
    announce: async () => undefined,
    acme: {
      async order({ names, key, url, onOrder, signal }) {
        const gate = Promise.withResolvers<void>()
        signal.addEventListener('abort', () => gate.reject(signal.reason), { once: true })
        if (url === null) await onOrder('https://authority.test/orders/1')
        orders.push(gate.resolve)
        await gate.promise
        const { certificate } = await issue({ names, issuer, to: 90, key: createPrivateKey(key) })
        return certificate + issuer.certificate
      },
      revoke: async () => undefined,
    },
  })
  cleanup.defer(() => worker.stop())
  const run = (text: string) => query(cluster.connection, text)
  return { disk, orders, log, worker, run }
}

const state =
  "select is_under_way, attempts, failure->>'code' as failure, chain is not null as is_there from certificates"

const until = (check: () => unknown) => expect.poll(check, { timeout: 90_000, interval: 250 })

describe.skipIf(noMount !== null)('a certificate', () => {
  it('is obtained after PostgreSQL had no space to store the end of the attempt', async () => {
    const { disk, orders, log, worker, run } = await world()
    /** The state of the certificate; undefined while PostgreSQL is unavailable. */
    const found = async () => (await run(state).catch(() => []))[0]
    await until(() => orders.length).toBe(1)
    disk.fill()
    // Until PostgreSQL has no space for its own log, and ends.
    const written = async () => {
      while (true) await run("select pg_logical_emit_message(false, 'test', repeat('x', 1000000))")
    }
    await expect(written()).rejects.toThrow()
    orders[0]?.()
    await until(() => log).toContain('a certificate attempt ended with an unexpected error')
    await disk.empty()
    await until(() => {
      worker.wake()
      return found()
    }).toEqual({ is_under_way: false, attempts: 1, failure: 'server_error', is_there: false })
    await run('update certificates set next_attempt_at = now()')
    worker.wake()
    await until(() => orders.length).toBe(2)
    orders[1]?.()
    await until(found).toMatchObject({ failure: null, is_there: true })
  }, 300_000)
})
