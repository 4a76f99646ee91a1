import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { commandHere } from '../../harness/command-here.ts'
import { type TestDatabase, testDatabase } from '../../harness/database.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { command, fairlead, type ServerProcess, serverProcess } from '../../harness/process.ts'
import { nodeApp, repository } from '../../harness/repository.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

let directory: Awaited<ReturnType<typeof temporaryDirectory>>
let database: TestDatabase
let leader: ServerProcess
let follower: ServerProcess
let key: string
let params: { project_id: string; app_id: string }

beforeAll(async () => {
  directory = await temporaryDirectory()
  const data = join(directory.path, 'data')
  database = await testDatabase()
  const settings = { DATABASE_URL: database.url }
  leader = await serverProcess(data, settings)
  follower = await serverProcess(data, settings)
  key = (await commandHere(['keys', 'create', '--name', 'test', '--data-dir', data], settings)).stdout.trim()
  const client = leader.clientFor(key)
  const { id: project_id } = await client.projects.create({ body: { name: 'p' } })
  await using source = await repository(nodeApp('here'))
  await deployAndSettle(client, project_id, { name: 'shop', git_url: source.url })
  const { apps } = await client.apps.list({ params: { project_id } })
  params = { project_id, app_id: apps[0]?.id ?? '' }
}, 120_000)
afterAll(async () => {
  await follower?.[Symbol.asyncDispose]()
  await leader?.[Symbol.asyncDispose]()
  await database?.[Symbol.asyncDispose]()
  await directory?.[Symbol.asyncDispose]()
})

const settings = (url: string) => ({ FAIRLEAD_URL: url, FAIRLEAD_API_KEY: key })
const waiting = ['node', '-e', 'console.log("up"); setInterval(() => 0, 1000)']
const newest = async (server: ServerProcess) => (await server.clientFor(key).runs.list({ params })).runs[0]

/** Starts `fairlead run` and resolves once its command has printed its first line. */
async function started(url: string) {
  const env = { PATH: process.env['PATH'], XDG_CONFIG_HOME: '/nonexistent', ...settings(url) }
  const child = spawn(process.execPath, [command, 'run', 'shop', '--', ...waiting], { env })
  const ended = once(child, 'exit')
  let errors = ''
  child.stderr.on('data', (chunk) => {
    errors += chunk
  })
  await once(child.stdout, 'data')
  return { child, ended, errors: () => errors }
}

describe('fairlead run', () => {
  it('passes input and output on, and ends with the status of the command', async () => {
    const code =
      'process.stdin.on("data", d => process.stdout.write(String(d).toUpperCase())).on("end", () => { console.error("e"); process.exitCode = 3 })'
    const ran = await fairlead(['run', 'shop', '--', 'node', '-e', code], settings(leader.url), { input: 'hello\n' })
    expect(ran).toEqual({ code: 3, stdout: 'HELLO\n', stderr: 'e\n' })
  })

  it('passes on all output of a command', async () => {
    const code = 'process.stdout.write("x".repeat(1_000_000))'
    const { stdout } = await fairlead(['run', 'shop', '--', 'node', '-e', code], settings(leader.url))
    expect(stdout).toHaveLength(1_000_000)
  })

  it('waits for a slow reader of the command’s output', async () => {
    const code = 'process.stdout.write("x".repeat(70_000))'
    // The reader begins on request. A pipe of the shell holds 65,536 bytes.
    const script = '"$0" "$@" | { read -r _ <&3; wc -c; }'
    const words = [process.execPath, command, 'run', 'shop', '--', 'node', '-e', code]
    const child = spawn('sh', ['-c', script, ...words], {
      env: { PATH: process.env['PATH'], XDG_CONFIG_HOME: '/nonexistent', ...settings(leader.url) },
      stdio: ['ignore', 'pipe', 'inherit', 'pipe'],
    })
    const counted = text(child.stdout as Readable)
    const before = (await newest(leader))?.id
    await expect
      .poll(async () => {
        const run = await newest(leader)
        return run?.id === before ? null : run?.status
      })
      .toBe('succeeded')
    ;(child.stdio[3] as Writable).end('go\n')
    expect(Number(await counted)).toBe(70_000)
  })

  it('ends the command at Ctrl+C, and when it is killed itself', async () => {
    for (const [signal, code] of [['SIGINT', 130] as const, ['SIGKILL', null] as const]) {
      const { child, ended } = await started(leader.url)
      child.kill(signal)
      expect((await ended)[0]).toBe(code)
      await expect.poll(async () => (await newest(leader))?.status, { timeout: 15_000 }).toBe('canceled')
    }
  })

  it('gives the command this terminal', async () => {
    const inside = 'test -t 0 && echo "a terminal" && stty size && exit 4'
    const words = [process.execPath, command, 'run', 'shop', '--tty', '--', 'sh', '-c', inside]
    const line = `stty rows 31 cols 97; ${words.map((word) => `'${word}'`).join(' ')}`
    // `script` creates a terminal, and ends with the status of its command.
    const child = spawn('script', ['--quiet', '--return', '--command', line, '/dev/null'], {
      env: { PATH: process.env['PATH'], SHELL: '/bin/sh', XDG_CONFIG_HOME: '/nonexistent', ...settings(leader.url) },
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    const shown = text(child.stdout)
    expect((await once(child, 'exit'))[0]).toBe(4)
    expect(await shown).toBe('a terminal\r\n31 97\r\n')
  })

  it('works on every server, and the command ends when its server is killed', async () => {
    expect((await fairlead(['run', 'shop', '--', 'echo', 'hi'], settings(follower.url))).stdout).toBe('hi\n')
    const { ended, errors } = await started(follower.url)
    await leader.kill()
    expect((await ended)[0]).toBe(1)
    expect(errors()).toContain('the connection to the server was lost')
    await expect
      .poll(async () => newest(follower), { timeout: 30_000 })
      .toMatchObject({
        status: 'failed',
        problem:
          'Nobody knows how the command ended, because the server or its database was not available at that time.',
      })
    expect((await fairlead(['run', 'shop', '--', 'echo', 'again'], settings(follower.url))).stdout).toBe('again\n')
  }, 60_000)
})
