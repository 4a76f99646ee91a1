import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { bootId, inspectProcess } from '../../../server/src/platform/processes.ts'
import { command } from '../../harness/process.ts'
import { nodeApp, repository } from '../../harness/repository.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

it('fairlead deploy contacts no server that a repository names in a folder .fairlead, and starts no cluster in it', async () => {
  await using app = await repository(nodeApp('x'))
  await using elsewhere = await temporaryDirectory()
  // Another user of the machine can create such a socket, and knows its path when the repository is written.
  await chmod(elsewhere.path, 0o755)
  const name = `${process.pid}-aaaaaaaa`
  const socket = join(elsewhere.path, `${name}.sock`)
  const asked: unknown[] = []
  const server = createServer((request, response) => {
    asked.push(request.url)
    response.end('{}')
  }).listen(socket)
  await once(server, 'listening')
  const folder = join(app.path, '.fairlead')
  await mkdir(join(folder, 'run'), { recursive: true, mode: 0o700 })
  await mkdir(join(folder, 'cluster'), { mode: 0o700 })
  const record = {
    id: 'a'.repeat(8),
    pid: process.pid,
    processStart: (await inspectProcess(process.pid))?.startedAt,
    boot: bootId(),
    version: '1',
    startedAt: '2026-01-01T00:00:00.000Z',
    socket,
    isStopping: false,
  }
  await writeFile(join(folder, 'run', `${name}.json`), JSON.stringify(record))
  const env = { PATH: process.env['PATH'], HOME: elsewhere.path }
  const ran = promisify(execFile)(process.execPath, [command, 'deploy'], { cwd: app.path, env })
  await expect(ran).rejects.toMatchObject({ stderr: expect.stringContaining('no server is known') })
  expect(asked).toEqual([])
  server.close()
  await once(server, 'close')
})
