import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { freePort } from '../../harness/ports.ts'
import { serverProcesses } from '../../harness/server-processes.ts'
import { filesOnDisk } from '../../harness/storage.ts'

/** Longer than the ten-second limit of other requests. */
const uploadMs = 12_000

it('SIGTERM lets an upload finish, ends the process, and the next start has the file', {
  timeout: 120_000,
}, async () => {
  await using servers = await serverProcesses({ FAIRLEAD_PORT: String(await freePort()), FAIRLEAD_ON_STOP: 'server' })
  const { data } = servers
  const apiKey = await servers.key()
  await using cleanup = new AsyncDisposableStack()
  cleanup.defer(async () => void (await servers.command('stop')))
  const server = cleanup.use(await servers.start())
  const project = await server.clientFor(apiKey).projects.create({ body: { name: 'files' } })

  const upload = request(`${server.url}/v1/projects/${project.id}/storage/upload`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${apiKey}`, 'Content-Type': 'multipart/form-data; boundary=end' },
  })
  const answered = once(upload, 'response') as Promise<[IncomingMessage]>
  upload.write('--end\r\nContent-Disposition: form-data; name="file"; filename="large.bin"\r\n\r\n')
  const hash = createHash('sha256')
  const sendSome = () => {
    const bytes = randomBytes(100_000)
    hash.update(bytes)
    upload.write(bytes)
  }
  sendSome()
  // Otherwise the signal could come before the request.
  await expect.poll(() => filesOnDisk(data)).toEqual([expect.stringMatching(/\.part$/)])
  const exited = once(server.child, 'exit')
  server.child.kill('SIGTERM')
  await server.waitForLog((line) => line['msg'] === 'SIGTERM: stopping')
  const isRefused = () =>
    fetch(`${server.url}/healthz`).then(
      () => false,
      () => true,
    )
  await expect.poll(isRefused).toBe(true)
  const stoppedAt = performance.now()
  while (performance.now() - stoppedAt < uploadMs) {
    sendSome()
    await sleep(200)
  }
  upload.end('\r\n--end--\r\n')
  const [answer] = await answered
  const body = Buffer.concat(await answer.toArray()).toString()
  expect({ status: answer.statusCode, body }).toMatchObject({ status: 201 })
  // A second signal would end it at once.
  expect(await exited).toEqual([0, null])

  const next = cleanup.use(await servers.start())
  const { id } = JSON.parse(body) as { id: string }
  const file = await next.clientFor(apiKey).storage.get({ params: { project_id: project.id, id } })
  expect(file).toMatchObject({ name: 'large.bin', sha256: hash.digest('hex') })
})
