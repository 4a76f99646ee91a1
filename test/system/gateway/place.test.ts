import { chown, mkdir, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { gatewayHome } from '../../../server/src/gateway/place.ts'
import { createScope } from '../../harness/gateway/harness.ts'
import { connectTo, makeDataDirectory } from '../../harness/gateway/program.ts'
import { isRoot } from '../../harness/temporary.ts'

const scope = createScope()
afterEach(() => scope.end())

it('the gateway is not searched in a folder in the temporary directory that another user has created in the server’s place', async () => {
  const dataDirectory = join(await makeDataDirectory(scope), 'long'.repeat(30))
  await mkdir(dataDirectory)
  const { socket: path } = gatewayHome(dataDirectory)
  const folder = dirname(path)
  expect(folder.startsWith(dataDirectory)).toBe(false)
  // Any user can do this. Only root can give the folder to another user; a folder that others may enter is also
  // refused.
  await mkdir(folder, { mode: 0o755 })
  scope.defer(() => rm(folder, { recursive: true, force: true }))
  const told: string[] = []
  const imposter = createServer((connection) => {
    connection.setEncoding('utf8').on('data', (text: string) => {
      told.push(text)
      const welcome = { type: 'welcome', pid: 1, startedAt: '', options: {}, apps: [] }
      connection.write(`${JSON.stringify(welcome)}\n`)
    })
  })
  await new Promise<void>((done) => void imposter.listen(path, done))
  scope.defer(() => new Promise<void>((done) => void imposter.close(() => done())))
  if (isRoot) await chown(folder, 40_123, 40_123)
  await expect(connectTo(scope, dataDirectory)).rejects.toThrow(`${folder} is not a private folder of this user`)
  expect(told).toEqual([])
})
