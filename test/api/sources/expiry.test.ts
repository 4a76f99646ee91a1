import { utimes, writeFile } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, it } from 'vitest'
import {
  createSourceExpiry,
  createSourceFiles,
  createUploadSource,
} from '../../../server/src/features/deployments/uploads.ts'
import { createRequestTransactions } from '../../../server/src/platform/database/request-transactions.ts'
import { type DatabaseHandle, openDatabase } from '../../../server/src/platform/database.ts'
import { exists } from '../../../server/src/platform/files.ts'
import { newId } from '../../../server/src/platform/ids.ts'
import { accountLimits, shippedPlans } from '../../../server/src/platform/plans.ts'
import { createSlots } from '../../../server/src/platform/slots.ts'
import { bundleOf, uploadBundle } from '../../harness/bundle.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { type Repository, repository } from '../../harness/repository.ts'
import { ownServer, type TestServer } from '../../harness/server.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

let plans: Awaited<ReturnType<typeof temporaryDirectory>>
let server: TestServer
let handle: DatabaseHandle
let app: Repository
let bundle: Buffer
beforeAll(async () => {
  plans = await temporaryDirectory()
  const file = join(plans.path, 'plans.json')
  const enterprise = { ...shippedPlans.enterprise, account: { sources: 3 } }
  await writeFile(file, JSON.stringify({ ...shippedPlans, enterprise }))
  server = await ownServer({ FAIRLEAD_PLANS_FILE: file })
  handle = openDatabase({ connectionString: server.database.url, max: 2 }, pino({ level: 'silent' }))
  app = await repository({ 'index.html': 'hello' })
  bundle = await bundleOf(app, 'main')
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await handle.close()
  await server[Symbol.asyncDispose]()
  await plans[Symbol.asyncDispose]()
})

const folder = () => join(server.dataDirectory, 'sources')
const isStored = (id: string) => exists(join(folder(), `${id}.pack`))
const uploaded = async (projectId: string) => (await uploadBundle(server.client, projectId, bundle)).id
const unusedSince = (ids: readonly string[], interval: string) =>
  server.database.query(`update sources set used_at = now() - interval '${interval}' where id = any($1)`, [ids])

it('keeps what a deployment may need, and removes long unused, aborted and forgotten sources', async () => {
  const { id: projectId } = await server.client.projects.create({ body: { name: 'p' } })
  const deploy = (source_id: string) => deployAndSettle(server.client, projectId, { name: 'site', source_id })
  const [old, replaced] = [await uploaded(projectId), await uploaded(projectId)]
  expect((await deploy(replaced)).status).toBe('running')
  const running = await uploaded(projectId)
  expect((await deploy(running)).status).toBe('running')
  await unusedSince([old, replaced, running], '8 days')

  // An upload whose server ended, and a file whose row could not be written.
  const [broken, forgotten] = [newId('source'), newId('source')]
  const files = createSourceFiles({ directory: folder() })
  for (const id of [broken, forgotten]) {
    const file = await files.create(id)
    await file.write(Buffer.from('PACK'))
    await file.finish()
    await utimes(files.pathOf(id), new Date(0), new Date(0))
  }
  await server.database.query(
    `insert into sources (id, project_id, account_id, bytes, created_at)
     select $1, id, account_id, 10, now() - interval '3 hours' from projects where id = $2`,
    [broken, projectId],
  )
  await utimes(files.pathOf(old), new Date(0), new Date(0))
  await utimes(files.pathOf(replaced), new Date(0), new Date(0))

  await createSourceExpiry({ database: handle.db, files, days: 7 }).forget()

  const rows = await server.database.query<{ id: string }>('select id from sources')
  expect(rows.map(({ id }) => id)).toEqual([running])
  expect(await Promise.all([old, replaced, broken, forgotten, running].map(isStored))).toEqual([
    ...[false, false, false, false],
    true,
  ])
  expect((await deploy(running)).status).toBe('running')
})

it('an upload beyond the total removes the longest unused source, and no new one', async () => {
  const { id: projectId } = await server.client.projects.create({ body: { name: 'many' } })
  // The first test has left one source, which is in use.
  const [first, second] = [await uploaded(projectId), await uploaded(projectId)]
  await expect(uploaded(projectId)).rejects.toMatchObject({
    code: 'invalid_request',
    details: { limit: 'sources', most: 3 },
  })
  await unusedSince([first], '2 hours')
  await unusedSince([second], '1 hour')
  const third = await uploaded(projectId)
  expect(await Promise.all([first, second, third].map(isStored))).toEqual([false, true, true])
})

it('an upload succeeds whose commit the database did not confirm, and its pack stays', async () => {
  const { id } = await server.client.projects.create({ body: { name: 'p' } })
  const project = { id, accountId: server.accountId, name: 'p', region: 'local', plan: 'pro', createdAt: new Date() }
  let transactions = 0
  const transactRequest = createRequestTransactions(handle.db)
  const transact: typeof transactRequest = async (accountId, work) => {
    const result = await transactRequest(accountId, work)
    transactions += 1
    if (transactions === 2) throw new Error('Connection terminated unexpectedly')
    return result
  }
  const upload = createUploadSource({
    finishing: createSlots(1),
    ...{ database: handle.db, transact, plans: shippedPlans, mostSourceBytes: 1e9, idleTimeoutMs: 10_000 },
    files: createSourceFiles({ directory: folder() }),
    totals: { of: async () => accountLimits(shippedPlans, 'pro') },
    holdProject: async () => true,
    assertRoom: async () => undefined,
    logger: pino({ level: 'silent' }),
  })
  const headers = { 'content-type': 'application/x-git-bundle', 'content-length': String(bundle.length) }
  const message = Object.assign(Readable.from([bundle]), { headers }) as unknown as IncomingMessage
  const answer = await upload({ project, message, audit: async () => undefined })
  expect(await isStored(answer.id)).toBe(true)
  expect(await server.database.query('select branch from sources where id = $1', [answer.id])).toEqual([
    { branch: answer.branch },
  ])
})
