import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import fc from 'fast-check'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createAccountStore } from '../../../server/src/features/accounts/accounts.ts'
import { createDiskStore } from '../../../server/src/features/storage/disk-store.ts'
import {
  createPendingFiles,
  type PendingFiles,
  type PendingUpload,
} from '../../../server/src/features/storage/pending.ts'
import { usageOf } from '../../../server/src/features/storage/reservations.ts'
import { deleteRow, insertFile } from '../../../server/src/features/storage/rows.ts'
import type { FileStore, FileWriter } from '../../../server/src/features/storage/store.ts'
import { type DatabaseHandle, openDatabase } from '../../../server/src/platform/database.ts'
import { newId } from '../../../server/src/platform/ids.ts'
import { createSlots } from '../../../server/src/platform/slots.ts'
import { type TestDatabase, testDatabase } from '../../harness/database.ts'
import { filesOnDisk, onlyProject } from '../../harness/storage.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const logger = pino({ level: 'silent' })
const signal = new AbortController().signal
const quotaBytes = 1000

let database: TestDatabase
let handle: DatabaseHandle
let accountId: string
beforeAll(async () => {
  database = await testDatabase()
  handle = openDatabase({ connectionString: database.url, max: 10 }, logger)
  accountId = await createAccountStore({ database: handle.db }).ensureOperator()
})
afterAll(async () => {
  await handle.close()
  await database[Symbol.asyncDispose]()
})

async function newProject(): Promise<string> {
  const id = newId('project')
  await database.query(
    `insert into projects (id, account_id, name, region, plan, status) values ($1, $2, 'p', 'local', 'free', 'active')`,
    [id, accountId],
  )
  return id
}

interface Upload {
  readonly id: string
  readonly server: Server
  /** Otherwise the reason of a failure. */
  state: 'under way' | 'completed' | string
  /** Lets it take its next step; resolves when it pauses again or has ended. */
  step(): Promise<void>
}

interface Server {
  readonly trace: string
  readonly pending: PendingFiles
}

/**
 * Two servers on one database and one store, whose uploads take one step at a time. A killed server is replaced, and
 * its work does not continue.
 */
function createMachine(store: FileStore, projectId: string) {
  const killed = new Set<string>()
  const uploads: Upload[] = []
  const open = new Set<FileWriter>()
  const boot = (): Server => {
    const trace = randomUUID()
    const server = { id: randomUUID(), process: trace }
    const hasEnded = (other: string) => killed.has(other)
    const spaceOf = onlyProject(projectId)
    return {
      trace,
      pending: createPendingFiles({
        database: handle.db,
        store,
        server,
        spaceOf,
        finishing: createSlots(1),
        hasEnded,
        logger,
      }),
    }
  }
  const servers: [Server, Server] = [boot(), boot()]

  const commit = (pending: PendingUpload, id: string, size: number) =>
    handle.db.transaction().execute(async (trx) => {
      await pending.complete(trx)
      const facts = { declared_type: null, detected_type: null, sha256: Buffer.alloc(32), token: Buffer.alloc(1) }
      await insertFile(trx, { id, project_id: projectId, name: 'a', size, ...facts }, quotaBytes)
    })

  function begin(server: Server, size: number): Upload {
    let standing = Promise.withResolvers<void>()
    let told = Promise.withResolvers<void>()
    const stand = async () => {
      standing.resolve()
      await told.promise
    }
    const upload: Upload = {
      id: newId('file'),
      server,
      state: 'under way',
      async step() {
        const { resolve } = told
        told = Promise.withResolvers()
        standing = Promise.withResolvers()
        resolve()
        await Promise.race([standing.promise, ended])
      },
    }
    const { id } = upload
    const run = async (pending: PendingUpload) => {
      await stand()
      if ((await pending.reserve({ least: Math.ceil(size / 2), most: size })) < size) {
        await stand()
        if ((await pending.reserve({ least: size, most: size })) < size) throw new Error('no space')
      }
      await stand()
      const file = await store.create(id)
      open.add(file)
      await file.write(Buffer.alloc(size))
      await stand()
      open.delete(file)
      await file.finish()
      await stand()
      await commit(pending, id, size)
    }
    const ended = server.pending.track({ id, projectId, accountId: 'acct_1', quotaBytes }, run).then(
      () => {
        upload.state = 'completed'
      },
      (error: Error) => {
        upload.state = error.message
      },
    )
    uploads.push(upload)
    return upload
  }

  return {
    servers,
    uploads,
    begin: (at: 0 | 1, size: number) => begin(servers[at], size),
    underWay: () => uploads.filter(({ server, state }) => state === 'under way' && !killed.has(server.trace)),
    async kill(at: 0 | 1) {
      killed.add(servers[at].trace)
      servers[at] = boot()
      await servers[at].pending.recover()
    },
    /** Closes the files that killed servers had open. */
    async close() {
      for (const file of open) await file.abort()
    },
    async delete(id: string, at: 0 | 1, isCrashing: boolean) {
      await handle.db.transaction().execute(async (trx) => {
        if (await deleteRow(trx, projectId, id)) await servers[at].pending.markDeleted(trx, [id])
      })
      if (!isCrashing) await servers[at].pending.removeDeleted([id])
    },
  }
}

const at = fc.constantFrom<0 | 1>(0, 1)
const commands = fc.array(
  fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({ do: fc.constant('begin' as const), at, size: fc.integer({ min: 0, max: 600 }) }),
    },
    { weight: 12, arbitrary: fc.record({ do: fc.constant('step' as const), pick: fc.nat() }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('maintain' as const), at }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('kill' as const), at }) },
    {
      weight: 1,
      arbitrary: fc.record({ do: fc.constant('delete' as const), at, pick: fc.nat(), isCrashing: fc.boolean() }),
    },
  ),
  { maxLength: 40 },
)

describe('two servers on one data directory', () => {
  it('discard no upload of each other, settle everything that a killed server leaves, and stay within the quota together', async () => {
    await fc.assert(
      fc.asyncProperty(commands, async (list) => {
        await using folder = await temporaryDirectory()
        const store = await createDiskStore({ directory: join(folder.path, 'files') })
        const projectId = await newProject()
        const machine = createMachine(store, projectId)
        const rows = async () => {
          const found = await database.query<{ id: string }>('select id from files where project_id = $1', [projectId])
          return found.map(({ id }) => id).sort()
        }
        for (const command of list) {
          if (command.do === 'begin') machine.begin(command.at, command.size)
          else if (command.do === 'maintain') await machine.servers[command.at].pending.maintain(signal)
          else if (command.do === 'kill') await machine.kill(command.at)
          else if (command.do === 'delete') {
            const ids = await rows()
            const id = ids[command.pick % Math.max(1, ids.length)]
            if (id !== undefined) await machine.delete(id, command.at, command.isCrashing)
          } else {
            const underWay = machine.underWay()
            await underWay[command.pick % Math.max(1, underWay.length)]?.step()
          }
          const [usage] = await usageOf(handle.db, [projectId])
          expect((usage?.stored ?? 0) + (usage?.reserved ?? 0)).toBeLessThanOrEqual(quotaBytes)
        }
        for (const upload of machine.underWay()) while (upload.state === 'under way') await upload.step()
        for (const server of machine.servers) await server.pending.maintain(signal)

        await machine.close()
        const kept = await rows()
        expect((await filesOnDisk(folder.path)).sort()).toEqual(kept)
        expect(await database.query('select from pending_files')).toEqual([])
        for (const { state } of machine.uploads) expect(['under way', 'completed', 'no space']).toContain(state)
      }),
      { numRuns: 60 },
    )
  })
})
