import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { constants } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { ApiError } from '../../server/src/contract/errors.ts'
import { createFileAddresses } from '../../server/src/features/storage/addresses.ts'
import { createDiskStore } from '../../server/src/features/storage/disk-store.ts'
import { createFiles, type Files, removeProjectFiles } from '../../server/src/features/storage/files.ts'
import { createPendingFiles } from '../../server/src/features/storage/pending.ts'
import type { FileStore } from '../../server/src/features/storage/store.ts'
import type { FilesDependencies } from '../../server/src/features/storage/upload.ts'
import { createBackground } from '../../server/src/platform/background.ts'
import { createRequestTransactions } from '../../server/src/platform/database/request-transactions.ts'
import { openDatabase } from '../../server/src/platform/database.ts'
import { shippedPlans } from '../../server/src/platform/plans.ts'
import { createSecretBox } from '../../server/src/platform/secrets.ts'
import { createSlots } from '../../server/src/platform/slots.ts'
import { type OwnServer, ownServer } from '../harness/server.ts'
import { filesOnDisk, form } from '../harness/storage.ts'

/** The feature on a real database and disk, with injected faults that cannot be caused from outside. */
let server: OwnServer
let project: { id: string; accountId: string; name: string; region: string; plan: string; createdAt: Date }
let handle: ReturnType<typeof openDatabase>
beforeAll(async () => {
  server = await ownServer()
  const made = await server.client.projects.create({ body: { name: 'Faults' } })
  const accountId = server.accountId
  project = { ...made, accountId, createdAt: new Date(made.created_at) }
  handle = openDatabase({ connectionString: server.database.url, max: 5 }, pino({ level: 'silent' }))
})
afterAll(async () => {
  await handle.close()
  await server[Symbol.asyncDispose]()
})

async function partsWith(
  faults: Partial<FilesDependencies>,
  wrap = (store: FileStore) => store,
): Promise<FilesDependencies> {
  const logger = pino({ level: 'silent' })
  const store = wrap(await createDiskStore({ directory: join(server.dataDirectory, 'files') }))
  return {
    database: handle.db,
    transact: createRequestTransactions(handle.db),
    store,
    pending: createPendingFiles({
      database: handle.db,
      store,
      server: { id: randomUUID(), process: 'faults' },
      spaceOf: async () => ({ projectIds: [], quotaBytes: 1e9, uploads: 10 }),
      finishing: createSlots(1),
      hasEnded: () => true,
      logger,
    }),
    addresses: createFileAddresses({ secrets: createSecretBox(Buffer.alloc(32)), publicOrigin: 'http://localhost' }),
    plans: shippedPlans,
    background: createBackground({ logger }),
    logger,
    idleTimeoutMs: 10_000,
    holdProject: async () => true,
    announceUpload: async () => undefined,
    ...faults,
  }
}

/** Uploads one file and resolves with the response or the error. */
async function uploadTo(files: Files): Promise<unknown> {
  const outcome = Promise.withResolvers<unknown>()
  const receiving = createServer((request, response) => {
    const { signal } = new AbortController()
    const upload = { project, message: request, signal, audit: async () => undefined }
    files.upload(upload).then(outcome.resolve, outcome.resolve)
    void outcome.promise.then(() => response.end())
  })
  receiving.listen(0, '127.0.0.1')
  await once(receiving, 'listening')
  const { port } = receiving.address() as AddressInfo
  await fetch(`http://127.0.0.1:${port}`, { method: 'POST', body: form('a.bin', 'x'.repeat(300_000)) })
  receiving.closeAllConnections()
  receiving.close()
  return outcome.promise
}

const nothingIsThere = async () => {
  expect(await server.database.query('select file_id from pending_files')).toEqual([])
  expect(await server.database.query('select id from files')).toEqual([])
  expect(await filesOnDisk(server.dataDirectory)).toEqual([])
  const { resources } = await server.client.projects.get({ params: { project_id: project.id } })
  expect(resources.storage_gb).toBe(0)
}

const fault = (code: string) => Object.assign(new Error(`${code}: a fault`), { code })

/** Node has no name for a quota error. */
const quotaFault = Object.assign(new Error('a quota'), { code: 'UNKNOWN', errno: -constants.errno.EDQUOT })

it.each([
  { at: 'write', name: 'the disk', error: fault('ENOSPC') },
  { at: 'finish', name: 'the disk', error: fault('ENOSPC') },
  { at: 'write', name: 'a quota', error: quotaFault },
])('says that the disk is full when $name is at "$at", and leaves nothing', async ({ at, error: thrown }) => {
  const parts = await partsWith({}, (store) => ({
    ...store,
    async create(key) {
      return { ...(await store.create(key)), [at]: () => Promise.reject(thrown) }
    },
  }))
  const error = await uploadTo(createFiles(parts))
  expect(error).toBeInstanceOf(ApiError)
  expect(error).toMatchObject({ code: 'server_error', message: expect.stringContaining('disk is full') })
  await nothingIsThere()
})

it('leaves nothing when the row cannot be written', async () => {
  const parts = await partsWith({ announceUpload: () => Promise.reject(fault('EVENT')) })
  expect(await uploadTo(createFiles(parts))).toMatchObject({ code: 'EVENT' })
  await nothingIsThere()
})

it('leaves nothing when the project is deleted during the upload', async () => {
  const parts = await partsWith({ holdProject: async () => false })
  expect(await uploadTo(createFiles(parts))).toMatchObject({ code: 'not_found' })
  await nothingIsThere()
})

it('removes at the next start the bytes that could not be removed', async () => {
  const stuck = await partsWith({ holdProject: async () => false }, (store) => ({
    ...store,
    remove: () => Promise.reject(fault('EIO')),
  }))
  expect(await uploadTo(createFiles(stuck))).toMatchObject({ code: 'not_found' })
  expect((await filesOnDisk(server.dataDirectory)).length).toBe(1)
  expect(await server.database.query('select file_id from pending_files')).toHaveLength(1)
  const { pending } = await partsWith({})
  await pending.recover()
  await nothingIsThere()
})

it('keeps a file whose commit succeeded although its response was lost', async () => {
  const parts = await partsWith({})
  const losingAnswers: FilesDependencies = {
    ...parts,
    async transact(accountId, work) {
      await parts.transact(accountId, work)
      throw fault('ECONNRESET')
    },
  }
  expect(await uploadTo(createFiles(losingAnswers))).toMatchObject({ code: 'ECONNRESET' })
  const [row] = await server.database.query<{ id: string }>('select id from files')
  expect(await filesOnDisk(server.dataDirectory)).toEqual([row?.id])
  expect(await server.database.query('select file_id from pending_files')).toEqual([])

  await removeProjectFiles(parts, project.id)
  await removeProjectFiles(parts, project.id)
  await vi.waitFor(nothingIsThere, 30_000)
})
