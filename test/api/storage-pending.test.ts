import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createDiskStore } from '../../server/src/features/storage/disk-store.ts'
import { createPendingFiles, type PendingFiles, type PendingUpload } from '../../server/src/features/storage/pending.ts'
import type { FileStore } from '../../server/src/features/storage/store.ts'
import { openDatabase } from '../../server/src/platform/database.ts'
import { newId } from '../../server/src/platform/ids.ts'
import { createSlots } from '../../server/src/platform/slots.ts'
import { type TestDatabase, testDatabase } from '../harness/database.ts'
import { filesOnDisk, onlyProject } from '../harness/storage.ts'
import { temporaryDirectory } from '../harness/temporary.ts'

const logger = pino({ level: 'silent' })
const signal = new AbortController().signal

describe('two servers on one database and one store', () => {
  let database: TestDatabase
  let handle: ReturnType<typeof openDatabase>
  let folder: Awaited<ReturnType<typeof temporaryDirectory>>
  let store: FileStore
  let one: PendingFiles
  let other: PendingFiles
  beforeAll(async () => {
    database = await testDatabase()
    handle = openDatabase({ connectionString: database.url, max: 5 }, logger)
  })
  afterAll(async () => {
    await handle.close()
    await database[Symbol.asyncDispose]()
  })
  beforeEach(async () => {
    killed.clear()
    folder = await temporaryDirectory()
    store = await createDiskStore({ directory: join(folder.path, 'files') })
    one = serverNamed('one')
    other = serverNamed('other')
  })
  afterEach(() => folder[Symbol.asyncDispose]())

  const killed = new Set<string>()
  /** A start of a server whose process has the name as its trace. */
  const serverNamed = (name: string) =>
    createPendingFiles({
      database: handle.db,
      store,
      server: { id: randomUUID(), process: name },
      spaceOf: onlyProject('proj_1'),
      finishing: createSlots(1),
      hasEnded: (trace) => killed.has(trace),
      logger,
    })
  const small = { least: 7, most: 7 }
  const uploading = (id: string) => ({ id, projectId: 'proj_1', accountId: 'acct_1', quotaBytes: 1000 })
  const pendingIds = async () =>
    (await database.query<{ file_id: string }>('select file_id from pending_files')).map((row) => row.file_id)
  const expireLeases = () => database.query(`update pending_files set lease_until = now() - interval '1 second'`)
  const write = async (id: string) => {
    const file = await store.create(id)
    await file.write(Buffer.from('content'))
    await file.finish()
  }

  /** An upload of `one` whose bytes are in the store and which ends when `end` is called. */
  async function uploadUnderWay(finish: (upload: PendingUpload) => Promise<void> = complete) {
    const id = newId('file')
    const stored = Promise.withResolvers<void>()
    const ending = Promise.withResolvers<void>()
    const result = one
      .track(uploading(id), async (pending) => {
        await pending.reserve(small)
        await write(id)
        stored.resolve()
        await ending.promise
        await finish(pending)
      })
      .then(
        () => 'completed',
        () => 'failed',
      )
    await stored.promise
    return {
      id,
      end: () => {
        ending.resolve()
        return result
      },
    }
  }
  const complete = (upload: PendingUpload) => handle.db.transaction().execute((trx) => upload.complete(trx))

  it('do not touch the other server’s running work', async () => {
    const { id, end } = await uploadUnderWay()
    await other.recover()
    await other.maintain(signal)
    await one.maintain(signal)
    expect(await filesOnDisk(folder.path)).toEqual([id])
    expect(await end()).toBe('completed')
    expect(await filesOnDisk(folder.path)).toEqual([id])
    expect(await pendingIds()).toEqual([])
  })

  it('keep the leases of their own uploads from expiring', async () => {
    const { id, end } = await uploadUnderWay()
    await expireLeases()
    await one.maintain(signal)
    await other.maintain(signal)
    expect(await filesOnDisk(folder.path)).toEqual([id])
    expect(await end()).toBe('completed')
  })

  it('remove an upload with an expired lease, which fails if it is still alive, and leaves nothing', async () => {
    const { end } = await uploadUnderWay()
    await expireLeases()
    await other.maintain(signal)
    expect(await filesOnDisk(folder.path)).toEqual([])
    expect(await end()).toBe('failed')
    expect(await filesOnDisk(folder.path)).toEqual([])
    expect(await pendingIds()).toEqual([])
  })

  it('remove an unfinished file, and its writer can no longer finish it', async () => {
    const id = newId('file')
    const result = one.track(uploading(id), async (pending) => {
      await pending.reserve(small)
      const file = await store.create(id)
      await file.write(Buffer.from('half'))
      await expireLeases()
      await other.maintain(signal)
      await file.finish()
    })
    await expect(result).rejects.toMatchObject({ code: 'ENOENT' })
    expect(await filesOnDisk(folder.path)).toEqual([])
    expect(await pendingIds()).toEqual([])
  })

  it('settle the work of an ended process at once, without waiting for its lease', async () => {
    const abandoned = await uploadUnderWay()
    killed.add('one')
    await serverNamed('next').recover()
    expect(await filesOnDisk(folder.path)).toEqual([])
    expect(await pendingIds()).toEqual([])
    expect(await abandoned.end()).toBe('failed')
  })

  it('wait for a transaction that is just completing an upload', async () => {
    const completed = Promise.withResolvers<void>()
    const commit = Promise.withResolvers<void>()
    const { id, end } = await uploadUnderWay((pending) =>
      handle.db.transaction().execute(async (trx) => {
        await pending.complete(trx)
        completed.resolve()
        await commit.promise
      }),
    )
    const ended = end()
    await completed.promise
    killed.add('one')
    const recovering = serverNamed('next').recover()
    const waiting = `select from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock' and query ~ 'pending_files'`
    await expect.poll(() => database.query(waiting)).toHaveLength(1)
    commit.resolve()
    await recovering
    expect(await ended).toBe('completed')
    expect(await filesOnDisk(folder.path)).toEqual([id])
  })

  it('also remove what an upload stores after another server has settled it', async () => {
    const id = newId('file')
    const result = one.track(uploading(id), async (pending) => {
      await pending.reserve(small)
      await expireLeases()
      await other.maintain(signal)
      await write(id)
      await complete(pending)
    })
    await expect(result).rejects.toThrow('lease')
    expect(await filesOnDisk(folder.path)).toEqual([])
    expect(await pendingIds()).toEqual([])
  })

  it('refuse more space to an upload that another server has taken over', async () => {
    const result = one.track(uploading(newId('file')), async (pending) => {
      await pending.reserve(small)
      await expireLeases()
      await other.maintain(signal)
      await pending.reserve({ least: 8, most: 8 })
    })
    await expect(result).rejects.toThrow('lease')
    expect(await pendingIds()).toEqual([])
  })

  it('finish a deletion that the other server has begun', async () => {
    const id = newId('file')
    await write(id)
    await handle.db.transaction().execute((trx) => one.markDeleted(trx, [id]))
    await other.maintain(signal)
    expect(await filesOnDisk(folder.path)).toEqual([])
    expect(await pendingIds()).toEqual([])
    await one.removeDeleted([id])
  })
})
