import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { createClient } from '@fairlead/server/client'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import type { Status } from '../../../server/src/running/status.ts'
import { commandHere } from '../../harness/command-here.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { freePort, portSettings } from '../../harness/ports.ts'
import { command, processesAround, serverProcess } from '../../harness/process.ts'
import { nodeApp, repository } from '../../harness/repository.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const statusOf = async (data: string) =>
  JSON.parse((await commandHere(['status', '--json', '--data-dir', data])).stdout) as Status

/** Deploys an app by a key of the operator, and returns its address. */
async function deployApp(url: string, data: string): Promise<string> {
  await using source = await repository(nodeApp('here'))
  const key = (await commandHere(['keys', 'create', '--new', '--name', 'test', '--data-dir', data])).stdout.trim()
  const client = createClient({ baseUrl: `${url}/v1`, apiKey: key })
  const { id } = await client.projects.create({ body: { name: 'p' } })
  const deployment = await deployAndSettle(client, id, { name: 'app', git_url: source.url })
  expect([deployment.status, deployment.failure]).toEqual(['running', null])
  return deployment.url
}

describe('a server whose terminal is closed', () => {
  // The pipe is the harder case for a scope, and the scope makes no difference for a pipe.
  it.each([
    ['all', ''],
    ['server', ' | cat'],
  ])('ends with its apps and its database (FAIRLEAD_ON_STOP=%s, output%s)', async (scope, pipe) => {
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
        FAIRLEAD_BUILD_ENV: JSON.stringify(inject('buildEnvironment')),
      },
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    const exited = once(terminal, 'exit')
    const url = `http://127.0.0.1:${port}`
    try {
      const isReady = async () => (await fetch(`${url}/readyz`).catch(() => null))?.status
      await expect.poll(isReady, { timeout: 60_000 }).toBe(200)
      await deployApp(url, data)
    } finally {
      terminal.kill('SIGKILL')
      await exited
    }
    await expect.poll(() => processesAround(data), { timeout: 60_000 }).toEqual([])
    expect(await readdir(join(data, 'run'))).toEqual([])
    expect(await readFile(join(data, 'postgres', 'postgres.log'), 'utf8')).toMatch(/is shut down\n$/)
  })
})

describe('SIGHUP', () => {
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>
  let data: string
  let app: string
  beforeAll(async () => {
    directory = await temporaryDirectory()
    data = join(directory.path, 'data')
  })
  afterAll(async () => {
    // The servers that took over are no children of this process.
    await commandHere(['stop', '--data-dir', data])
    await directory[Symbol.asyncDispose]()
  })

  it('whose handover fails leaves the server and its apps at work', async () => {
    await using server = await serverProcess(data, { FAIRLEAD_HANDOVER_TIMEOUT: '0.01', FAIRLEAD_ON_STOP: 'server' })
    app = await deployApp(server.url, data)
    const before = await statusOf(data)
    server.child.kill('SIGHUP')
    await server.waitForLog(({ msg }) => msg === 'the handover failed; this server goes on')
    const after = await statusOf(data)
    expect(after.servers.map(({ pid }) => pid)).toEqual([server.child.pid])
    expect(after.apps.map(({ pid }) => pid)).toEqual(before.apps.map(({ pid }) => pid))
    expect(await (await fetch(app)).text()).toBe('here')
  })

  // A server that stops with its apps would take them along, if a handover were a stop.
  it('twice replaces the server once, and apps keep running', async () => {
    await using server = await serverProcess(data, { FAIRLEAD_ON_STOP: 'all' })
    await server.waitForLog(({ msg }) => msg === 'apps are reconciled')
    const before = await statusOf(data)
    expect(before.apps).toMatchObject([{ pid: expect.any(Number) }])
    const exited = once(server.child, 'exit')
    server.child.kill('SIGHUP')
    await server.waitForLog(({ msg }) => msg === 'handing over to a new server')
    server.child.kill('SIGHUP')
    await exited
    await expect.poll(async () => (await statusOf(data)).problems, { timeout: 60_000 }).toEqual([])
    const after = await statusOf(data)
    expect(after.servers).toHaveLength(1)
    expect(after.servers[0]?.pid).not.toBe(server.child.pid)
    expect(server.log.filter(({ msg }) => msg === 'ready')).toHaveLength(2)
    expect(after.apps.map(({ pid }) => pid)).toEqual(before.apps.map(({ pid }) => pid))
    expect(await (await fetch(app)).text()).toBe('here')
  })

  it('during a start is refused with a line of the log', async () => {
    await using folder = await temporaryDirectory()
    // The start waits for a database that takes connections and says nothing.
    const silent = createServer().listen(0, '127.0.0.1')
    await once(silent, 'listening')
    const waits = once(silent, 'connection')
    const { port } = silent.address() as AddressInfo
    const child = spawn(process.execPath, [command, 'serve', '--port', '0', '--data-dir', join(folder.path, 'data')], {
      env: { PATH: process.env['PATH'], DATABASE_URL: `postgres://a:b@127.0.0.1:${port}/a` },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const exited = once(child, 'exit')
    let output = ''
    child.stdout.on('data', (chunk) => {
      output += chunk
    })
    try {
      const [socket] = (await waits) as [Socket]
      child.kill('SIGHUP')
      await expect.poll(() => output).toContain('SIGHUP: no handover, because the server is still starting')
      expect(child).toMatchObject({ exitCode: null, signalCode: null })
      socket.destroy()
    } finally {
      child.kill('SIGKILL')
      await exited
      silent.close()
    }
  })
})
