import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createClient } from '@fairlead/server/client'
import { expect, it } from 'vitest'
import { testDatabase } from '../../harness/database.ts'
import { fairlead, serverProcess } from '../../harness/process.ts'
import { filesOnDisk, upload } from '../../harness/storage.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

interface Row {
  readonly id: string
  readonly name: string
  readonly size: string
  readonly sha256: Buffer
}

const uploads = 50
const rounds = 3
const content = (name: string) => name.repeat(40_000)

it('keeps rows and files together when the server is killed in the middle of 50 uploads', async () => {
  await using database = await testDatabase()
  await using directory = await temporaryDirectory()
  const dataDirectory = join(directory.path, 'data')
  const environment = { DATABASE_URL: database.url }
  const made = await fairlead(['keys', 'create', '--new', '--name', 'test', '--data-dir', dataDirectory], environment)
  const apiKey = made.stdout.trim()
  const answered: string[] = []

  for (let round = 0; round < rounds; round++) {
    await using server = await serverProcess(dataDirectory, environment)
    const client = createClient({ baseUrl: `${server.url}/v1`, apiKey, retries: 0 })
    const { id: project } = await client.projects.create({ body: { name: `round ${round}` } })
    const enough = Promise.withResolvers<void>()
    const all = Array.from({ length: uploads }, async (_, at) => {
      const file = await upload(client, project, `file ${at}`, content(`file ${at}`))
      answered.push(file.id)
      // In every round some uploads are finished, some are running, and some have not begun.
      if (answered.length >= (round + 1) * 10) enough.resolve()
      if (at % 3 === 0) await client.storage.delete({ params: { project_id: project, id: file.id } })
    })
    const ended = Promise.allSettled(all)
    await enough.promise
    await server.kill()
    await ended
  }

  await using server = await serverProcess(dataDirectory, environment)
  const rows = await database.query<Row>('select id, name, size, sha256 from files')
  expect((await filesOnDisk(dataDirectory)).sort()).toEqual(rows.map(({ id }) => id).sort())
  expect(await database.query('select file_id from pending_files')).toEqual([])
  for (const { id, name, size, sha256 } of rows) {
    const bytes = await readFile(join(dataDirectory, 'files', id.slice(-2), id))
    expect(bytes.length).toBe(Number(size))
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(sha256.toString('hex'))
    expect(bytes.toString()).toBe(content(name))
  }
  const usage = await database.query(
    `select project_id from storage_usage where bytes <> (select coalesce(sum(size), 0) from files where files.project_id = storage_usage.project_id)`,
  )
  expect(usage).toEqual([])
  const events = await database.query<{ id: string }>(
    `select body::json->'data'->>'file_id' as id from events where type = 'file.uploaded'`,
  )
  // Every answered upload and every existing file was announced.
  expect(events.map(({ id }) => id)).toEqual(expect.arrayContaining([...answered, ...rows.map(({ id }) => id)]))
  expect(await server.stop()).toBe(0)
})
