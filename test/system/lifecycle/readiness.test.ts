import { readdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { expect, it } from 'vitest'
import { deployAndSettle } from '../../harness/deployments.ts'
import { running } from '../../harness/gateway/program.ts'
import { freePort } from '../../harness/ports.ts'
import { nodeApp, repository } from '../../harness/repository.ts'
import { serverProcesses } from '../../harness/server-processes.ts'

/** An app that listens as soon as its HOME has no file `wait`. */
const waitingApp = {
  'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
  'server.js': `const fs = require('node:fs')
fs.writeFileSync(process.env.HOME + '/home-of-the-app', '')
const listen = () => fs.existsSync(process.env.HOME + '/wait')
  ? setTimeout(listen, 20)
  : require('node:http').createServer((_, response) => response.end('here')).listen(process.env.PORT)
listen()`,
}

it('/readyz says 503 until the server has tried to start every app', async () => {
  await using servers = await serverProcesses()
  const { data } = servers
  const key = await servers.key()
  const first = await servers.start()
  const client = first.clientFor(key)
  const project = await client.projects.create({ body: { name: 'p' } })
  await using app = await repository(waitingApp)
  const { url } = await deployAndSettle(client, project.id, { name: 'app', git_url: app.url })
  const files = await readdir(join(data, 'apps'), { recursive: true })
  const home = dirname(join(data, 'apps', files.find((file) => file.endsWith('home-of-the-app')) ?? ''))
  expect(await first.stop()).toBe(0)

  await writeFile(join(home, 'wait'), '')
  await using second = await servers.start({ FAIRLEAD_PORT: new URL(first.url).port })
  const readiness = async () => {
    const answer = await fetch(`${second.url}/readyz`)
    const { reason } = (await answer.json()) as { reason?: string }
    return { status: answer.status, reason }
  }
  expect(await readiness()).toEqual({ status: 503, reason: 'apps are being started' })
  expect((await second.clientFor(key).projects.list()).total).toBe(1)
  await rm(join(home, 'wait'))
  await expect.poll(readiness, { timeout: 60_000 }).toEqual({ status: 200, reason: undefined })
  expect(await (await fetch(url)).text()).toBe('here')
})

it('a starting server is alive, not ready, and answers 500 with Retry-After at its future address', async () => {
  await using servers = await serverProcesses()
  const port = String(await freePort())
  const starting = servers.start({ FAIRLEAD_PORT: port })
  const seen = new Set<string>()
  const health = new Set<string>()
  const paths = ['v1/projects', 'dashboard/api/session', 'files/nothing/here']
  await expect
    .poll(
      async () => {
        const ask = (path: string) => fetch(`http://127.0.0.1:${port}/${path}`).catch(() => undefined)
        const [alive, ready, ...others] = await Promise.all(['healthz', 'readyz', ...paths].map(ask))
        if (alive !== undefined) health.add(`alive ${alive.status}`)
        if (ready !== undefined) health.add(`ready ${ready.status}`)
        const answers = others.filter((answer) => answer !== undefined)
        for (const { status, headers } of answers) seen.add(`${status} ${headers.get('retry-after')}`)
        const isReady = ready?.status === 200
        return isReady && answers.length > 0 && answers.every(({ status }) => status === 401 || status === 404)
      },
      { interval: 5, timeout: 60_000 },
    )
    .toBe(true)
  await using _ = await starting
  expect([...health].sort()).toEqual(['alive 200', 'ready 200', 'ready 503'])
  expect([...seen].sort()).toEqual(['401 null', '404 null', '500 2'])
})

it('a gateway that hangs is reported and replaced, and a waiting deployment continues', async () => {
  await using servers = await serverProcesses()
  const key = await servers.key()
  await using server = await servers.start()
  const client = server.clientFor(key)
  const project = await client.projects.create({ body: { name: 'p' } })
  await using app = await repository(nodeApp('here'))
  const first = await deployAndSettle(client, project.id, { name: 'app', git_url: app.url })
  const { pid } = await running(servers.data)
  process.kill(pid, 'SIGSTOP')
  try {
    const again = deployAndSettle(client, project.id, { name: 'app', git_url: app.url })
    const readiness = async () => (await fetch(`${server.url}/readyz`)).json()
    await expect
      .poll(readiness, { timeout: 30_000, interval: 200 })
      .toEqual({ status: 'not ready', reason: 'the gateway does not answer' })
    expect(await again).toMatchObject({ status: 'running' })
    await expect.poll(readiness, { timeout: 30_000 }).toEqual({ status: 'ready' })
    expect(await (await fetch(first.url)).text()).toBe('here')
    expect((await running(servers.data)).pid).not.toBe(pid)
    await server.waitForLog(({ msg }) => String(msg).startsWith('the gateway has answered nothing for 10 s'))
  } finally {
    end(pid)
  }
})

/** Ends a suspended process, if it still exists. */
function end(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has been ended.
  }
}
