import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createClient } from '@fairlead/server/client'
import { describe, expect, it } from 'vitest'
import type { Status } from '../../../server/src/commands/machine-status.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { buildEnvironment } from '../../harness/environment.ts'
import { freePort, portSettings } from '../../harness/ports.ts'
import { command, fairlead, processesAround, type ServerProcess } from '../../harness/process.ts'
import { nodeApp, repository } from '../../harness/repository.ts'
import { type ServerProcesses, serverProcesses } from '../../harness/server-processes.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

/** Deploys an app by a key of the operator, and returns its address. */
async function deployApp(url: string, key: string): Promise<string> {
  await using source = await repository(nodeApp('here'))
  const client = createClient({ baseUrl: `${url}/v1`, apiKey: key })
  const { id } = await client.projects.create({ body: { name: 'p' } })
  const deployment = await deployAndSettle(client, id, { name: 'app', git_url: source.url })
  expect(await (await fetch(deployment.url)).text()).toBe('here')
  return deployment.url
}

describe('a server whose terminal is closed', () => {
  it.each([
    ['all', ''],
    ['server', ' | cat'],
  ])('ends with its apps and its database (FAIRLEAD_ON_STOP=%s, output%s)', async (scope, pipe) => {
    await using directory = await temporaryDirectory()
    const data = join(directory.path, 'data')
    const port = await freePort()
    // `script` creates the terminal, which disappears when `script` is killed.
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
      const made = await fairlead(['keys', 'create', '--new', '--name', 'test', '--data-dir', data])
      await deployApp(url, made.stdout.trim())
    } finally {
      terminal.kill('SIGKILL')
      await once(terminal, 'exit')
    }
    await expect.poll(() => processesAround(data), { timeout: 60_000 }).toEqual([])
  })
})

describe('SIGHUP', () => {
  const statusOf = async (servers: ServerProcesses) =>
    JSON.parse((await servers.command('status', '--json')).stdout) as Status
  const ready = ({ log }: ServerProcess) => log.filter((line) => line['msg'] === 'ready').length

  it('twice replaces the server once, and apps keep running', async () => {
    // A handover does not stop anything.
    await using servers = await serverProcesses({ FAIRLEAD_ON_STOP: 'all' })
    await using _ = { [Symbol.asyncDispose]: async () => void (await servers.command('stop')) }
    await using server = await servers.start()
    const app = await deployApp(server.url, await servers.key())
    const before = await statusOf(servers)
    const exited = once(server.child, 'exit')
    server.child.kill('SIGHUP')
    await server.waitForLog((line) => line['msg'] === 'handing over to a new server')
    server.child.kill('SIGHUP')
    await exited
    const after = await statusOf(servers)
    expect(after.servers).toHaveLength(1)
    expect(after.servers[0]?.pid).not.toBe(server.child.pid)
    expect(ready(server)).toBe(2)
    expect(after.apps.map(({ pid }) => pid)).toEqual(before.apps.map(({ pid }) => pid))
    expect(after.problems).toEqual([])
    expect(await (await fetch(app)).text()).toBe('here')
  })

  it('during a start is refused, and a failed handover leaves the server and its apps running', async () => {
    await using servers = await serverProcesses({ FAIRLEAD_HANDOVER_TIMEOUT: '0.01' })
    const starting = servers.start()
    const records = () => readdir(join(servers.data, 'run')).catch(() => [])
    const pid = async () => Number((await records()).find((name) => name.endsWith('.json'))?.split('-')[0])
    await expect.poll(pid, { timeout: 60_000, interval: 10 }).toBeGreaterThan(0)
    process.kill(await pid(), 'SIGHUP')
    await using server = await starting
    const refused = ({ msg }: Record<string, unknown>) => /^SIGHUP: no handover|the handover failed/.test(String(msg))
    await server.waitForLog(refused)
    expect(await readFile(`/proc/${server.child.pid}/cmdline`, 'utf8')).toContain('serve')

    const app = await deployApp(server.url, await servers.key())
    const before = await statusOf(servers)
    const lines = server.log.length
    server.child.kill('SIGHUP')
    await server.waitForLog(
      (line) => server.log.indexOf(line) >= lines && /the handover failed/.test(String(line['msg'])),
    )
    const after = await statusOf(servers)
    expect(after.servers.map(({ pid }) => pid)).toEqual([server.child.pid])
    expect(after.apps.map(({ pid }) => pid)).toEqual(before.apps.map(({ pid }) => pid))
    expect(await (await fetch(app)).text()).toBe('here')
  })
})
