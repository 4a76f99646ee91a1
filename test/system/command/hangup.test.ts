import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Status } from '../../../server/src/running/status.ts'
import { buildEnvironment } from '../../harness/environment.ts'
import { freePort, portSettings } from '../../harness/ports.ts'
import { command, fairlead, processesAround, type ServerProcess, serverProcess } from '../../harness/process.ts'
import { nodeApp, repository } from '../../harness/repository.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const scopes = ['all', 'server'] as const
const statusOf = async (data: string) =>
  JSON.parse((await fairlead(['status', '--json', '--data-dir', data])).stdout) as Status

/** Deploys an app by a key of the operator, and returns its address. */
async function deployApp(url: string, data: string): Promise<string> {
  await using source = await repository(nodeApp('here'))
  const key = (await fairlead(['keys', 'create', '--new', '--name', 'test', '--data-dir', data])).stdout.trim()
  const post = async (path: string, body: object) => {
    const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' }
    const response = await fetch(`${url}/v1${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
    return (await response.json()) as { id: string; url: string }
  }
  const project = await post('/projects', { name: 'p' })
  const deployment = await post(`/projects/${project.id}/deployments`, { name: 'app', git_url: source.url })
  await expect.poll(async () => (await fetch(deployment.url)).text(), { timeout: 60_000 }).toBe('here')
  return deployment.url
}

describe('a server whose terminal is closed', () => {
  it.each(scopes.flatMap((scope) => [[scope, ''] as const, [scope, ' | cat'] as const]))(
    'ends with its apps (FAIRLEAD_ON_STOP=%s, output%s)',
    async (scope, pipe) => {
      await using directory = await temporaryDirectory()
      const data = join(directory.path, 'data')
      const port = await freePort()
      // `script` makes the terminal, which is gone when `script` is killed.
      const serve = `exec 2>&1; '${process.execPath}' '${command}' serve --data-dir '${data}'${pipe}`
      const terminal = spawn('script', ['--quiet', '--flush', '--command', serve, '/dev/null'], {
        env: {
          PATH: process.env['PATH'],
          SHELL: '/bin/sh',
          FAIRLEAD_PORT: String(port),
          FAIRLEAD_ON_STOP: scope,
          ...portSettings,
          FAIRLEAD_BUILD_ENV: JSON.stringify(buildEnvironment()),
        },
        stdio: ['pipe', 'ignore', 'ignore'],
      })
      const url = `http://127.0.0.1:${port}`
      try {
        const isReady = async () => (await fetch(`${url}/readyz`).catch(() => null))?.status
        await expect.poll(isReady, { timeout: 60_000 }).toBe(200)
        await deployApp(url, data)
      } finally {
        terminal.kill('SIGKILL')
        await once(terminal, 'exit')
      }
      await expect.poll(() => processesAround(data), { timeout: 60_000 }).toEqual([])
    },
  )
})

describe('SIGHUP', () => {
  const ready = ({ log }: ServerProcess) => log.filter((line) => line['msg'] === 'ready').length

  it.each(scopes)('twice replaces the server once, and apps keep running (FAIRLEAD_ON_STOP=%s)', async (scope) => {
    await using directory = await temporaryDirectory()
    const data = join(directory.path, 'data')
    await using _ = { [Symbol.asyncDispose]: async () => void (await fairlead(['stop', '--data-dir', data])) }
    await using server = await serverProcess(data, { FAIRLEAD_ON_STOP: scope })
    const app = await deployApp(server.url, data)
    const before = await statusOf(data)
    const exited = once(server.child, 'exit')
    server.child.kill('SIGHUP')
    await server.waitForLog((line) => line['msg'] === 'handing over to a new server')
    server.child.kill('SIGHUP')
    await exited
    const after = await statusOf(data)
    expect(after.servers).toHaveLength(1)
    expect(after.servers[0]?.pid).not.toBe(server.child.pid)
    expect(ready(server)).toBe(2)
    expect(after.apps.map(({ pid }) => pid)).toEqual(before.apps.map(({ pid }) => pid))
    expect(after.problems).toEqual([])
    expect(await (await fetch(app)).text()).toBe('here')
  })

  it('whose handover fails leaves the server and its apps at work', async () => {
    await using directory = await temporaryDirectory()
    const data = join(directory.path, 'data')
    await using server = await serverProcess(data, { FAIRLEAD_HANDOVER_TIMEOUT: '0.01' })
    const app = await deployApp(server.url, data)
    const before = await statusOf(data)
    server.child.kill('SIGHUP')
    await server.waitForLog((line) => line['msg'] === 'the handover failed; this server goes on')
    const after = await statusOf(data)
    expect(after.servers.map(({ pid }) => pid)).toEqual([server.child.pid])
    expect(after.apps.map(({ pid }) => pid)).toEqual(before.apps.map(({ pid }) => pid))
    expect(await (await fetch(app)).text()).toBe('here')
  })

  it('during a start is refused with a line of the log', async () => {
    await using directory = await temporaryDirectory()
    const data = join(directory.path, 'data')
    const starting = serverProcess(data)
    const record = async () => (await statusOf(data)).servers[0]?.pid
    await expect.poll(record, { timeout: 60_000, interval: 10 }).toBeGreaterThan(0)
    process.kill(Number(await record()), 'SIGHUP')
    await using server = await starting
    await server.waitForLog(({ msg }) => /^(SIGHUP: no handover|handing over)/.test(String(msg)))
    expect(await readFile(`/proc/${server.child.pid}/cmdline`, 'utf8')).toContain('serve')
  })
})
