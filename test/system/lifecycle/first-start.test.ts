import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { createSecretBox } from '../../../server/src/platform/secrets.ts'
import { testDatabase } from '../../harness/database.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const program = fileURLToPath(new URL('./fixtures/first-start.ts', import.meta.url))

interface Started {
  readonly operator: string
  readonly sealed: string
}

/** Starts three servers at once on a missing data directory, and returns what each server found. */
async function startThree(environment: Readonly<Record<string, string>>): Promise<Started[]> {
  const argument = JSON.stringify({ PATH: process.env['PATH'], ...environment })
  const servers = [1, 2, 3].map(() => {
    const child = spawn(process.execPath, [program, argument], { stdio: ['pipe', 'pipe', 'inherit'] })
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
    return { child, next: async () => String((await lines.next()).value), exited: once(child, 'exit') }
  })
  try {
    for (const { next } of servers) expect(await next()).toBe('waiting')
    for (const { child } of servers) child.stdin.write('go\n')
    return await Promise.all(servers.map(async ({ next }) => JSON.parse(await next())))
  } finally {
    for (const { child } of servers) child.stdin.end()
    for (const { exited } of servers) expect((await exited)[0]).toBe(0)
  }
}

async function expectOneOfEach(started: readonly Started[], data: string): Promise<void> {
  expect(started).toHaveLength(3)
  expect(new Set(started.map(({ operator }) => operator)).size).toBe(1)
  const file = join(data, 'secret.key')
  const box = createSecretBox(Buffer.from(await readFile(file, 'utf8'), 'base64'))
  for (const { sealed } of started) expect(box.decrypt(Buffer.from(sealed, 'hex'), 'test')).toBe('secret')
  expect((await stat(file)).mode & 0o777).toBe(0o600)
  expect((await readdir(data)).filter((name) => name.startsWith('secret'))).toEqual(['secret.key'])
}

it('three concurrent first starts agree on the key, the schema and the operator', async () => {
  for (let round = 0; round < 2; round++) {
    await using database = await testDatabase('template1')
    await using directory = await temporaryDirectory()
    const data = join(directory.path, 'deep', 'data')
    await expectOneOfEach(await startThree({ DATABASE_URL: database.url, FAIRLEAD_DATA_DIR: data }), data)
  }
})

it('three concurrent first starts also agree on the embedded PostgreSQL', async () => {
  await using directory = await temporaryDirectory()
  const data = join(directory.path, 'data')
  await expectOneOfEach(await startThree({ FAIRLEAD_DATA_DIR: data }), data)
})
