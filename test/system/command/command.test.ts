import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmod, chown, cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { commandHere } from '../../harness/command-here.ts'
import { testDatabase } from '../../harness/database.ts'
import { command, fairlead, processesIn, serverProcess } from '../../harness/process.ts'
import { serverProcesses } from '../../harness/server-processes.ts'
import { isRoot, temporaryDirectory } from '../../harness/temporary.ts'

const keyForm = /^fl_[0-9A-Za-z]{36}\n$/

it('a mistake in the arguments ends the process with status 1, and names what is wrong', async () => {
  const result = await fairlead(['nonsense'])
  expect(result).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('nonsense') })
})

describe('fairlead serve', () => {
  it('accepts a key that was created before its first start, and stops on SIGTERM with status 0 without leftovers', async () => {
    await using directory = await temporaryDirectory()
    const data = join(directory.path, 'data')
    const before = await fairlead(['keys', 'create', '--new', '--name', 'before', '--data-dir', data])
    expect(before.code).toBe(0)
    expect(before.stderr).toContain(`no data in ${data} yet`)
    expect(before.stdout).toMatch(keyForm)
    const server = await serverProcess(data)
    const beside = await fairlead(['keys', 'create', '--name', 'beside', '--preset', 'read', '--data-dir', data])
    expect(beside).toMatchObject({ code: 0, stdout: expect.stringMatching(keyForm), stderr: '' })
    for (const { stdout } of [before, beside]) {
      expect((await server.clientFor(stdout.trim()).projects.list()).projects).toEqual([])
    }
    const pid = Number((await readFile(join(data, 'postgres/data/postmaster.pid'), 'utf8')).split('\n')[0])
    for (const path of ['healthz', 'readyz']) expect((await fetch(`${server.url}/${path}`)).status).toBe(200)
    expect(await server.stop()).toBe(0)
    expect(() => process.kill(pid, 0)).toThrow('ESRCH')
    expect(await readFile(join(data, 'postgres/postgres.log'), 'utf8')).toMatch(/is shut down\n$/)
    expect(await readdir(join(data, 'run'))).toEqual([])

    // Only root can change the folder's owner.
    if (isRoot) await chown(data, 12_345, 12_345)
    const otherKey = await fairlead(['serve', '--port', '0', '--data-dir', data], {
      FAIRLEAD_SECRET_KEY: Buffer.alloc(32, 7).toString('base64'),
    })
    expect(otherKey.code).toBe(1)
    expect(otherKey.stderr).toContain('FAIRLEAD_SECRET_KEY')
    expect(otherKey.stdout.includes(`${data} belongs to user id 12345`)).toBe(isRoot)
  })

  it('reports that the port is taken', async () => {
    await using directory = await temporaryDirectory()
    const other = createServer().listen(0, '127.0.0.1')
    await once(other, 'listening')
    const { port } = other.address() as AddressInfo
    await using database = await testDatabase()
    const result = await fairlead(['serve', '--port', String(port), '--data-dir', join(directory.path, 'data')], {
      DATABASE_URL: database.url,
    })
    other.close()
    expect(result.code).toBe(1)
    expect(result.stderr).toContain(`127.0.0.1:${port} is taken`)
    expect(result.stderr).toContain('--port')
  })

  it('reports that the data directory cannot be written', async () => {
    await using directory = await temporaryDirectory()
    const file = join(directory.path, 'file')
    await writeFile(file, '')
    const result = await fairlead(['serve', '--port', '0', '--data-dir', join(file, 'data')])
    expect(result.code).toBe(1)
    expect(result.stderr).toContain('cannot be written')
    expect(result.stderr).toContain('--data-dir')
  })

  it('lets a second server follow the first and lead after it, and treats two SIGINTs at once as one Ctrl+C', async () => {
    await using servers = await serverProcesses()
    await using first = await servers.start()
    await using second = await servers.start()
    expect(second.log.find(({ msg }) => msg === 'ready')).toMatchObject({ leader: false })
    for (const { url } of [first, second]) expect((await fetch(`${url}/readyz`)).status).toBe(200)
    await first.stop()
    await second.waitForLog(({ msg }) => msg === 'apps are reconciled')
    await expect.poll(async () => (await fetch(`${second.url}/readyz`)).status).toBe(200)

    const exited = once(second.child, 'close')
    second.child.kill('SIGINT')
    second.child.kill('SIGINT')
    expect(await exited).toEqual([0, null])
    expect(second.log.at(-1)).toMatchObject({ msg: 'stopped' })
    expect(await processesIn(servers.directory)).toEqual([])
  })
})

/* Servers and commands open a data directory by the same functions. */
describe('a data directory', () => {
  const open = (data: string, environment: Readonly<Record<string, string>> = {}) =>
    commandHere(['keys', 'create', '--new', '--name', 'a', '--data-dir', data], environment)

  it('with another database: the command reports what is wrong with DATABASE_URL, without its password', async () => {
    await using directory = await temporaryDirectory()
    const result = await open(join(directory.path, 'data'), {
      DATABASE_URL: 'postgres://user:hunter2@127.0.0.1:9/none',
    })
    expect(result.code).toBe(1)
    expect(result.stderr).toContain('DATABASE_URL')
    expect(result.stderr + result.stdout).not.toContain('hunter2')
  })

  // Only a server that runs as root has processes of other users.
  it.runIf(isRoot)('that other users cannot reach is not created; the error names the closed folder', async () => {
    await using directory = await temporaryDirectory()
    const closed = join(directory.path, 'closed')
    await mkdir(closed)
    await chmod(closed, 0o700)
    const result = await open(join(closed, 'data'))
    expect(result.code).toBe(1)
    expect(result.stderr).toContain(closed)
    expect(result.stderr).toContain('--data-dir, for example /var/lib/fairlead')
    expect(await readdir(closed)).toEqual([])
  })

  // Only root runs PostgreSQL as another user.
  it.runIf(isRoot)('works with other uids than at its first start', async () => {
    await using directory = await temporaryDirectory()
    const FAIRLEAD_DATA_DIR = join(directory.path, 'data')
    const make = (environment: Record<string, string>) =>
      commandHere(['keys', 'create', '--new', '--name', 'a'], { FAIRLEAD_DATA_DIR, ...environment })
    expect(await make({ FAIRLEAD_UIDS: '47000-47999' })).toMatchObject({ code: 0 })
    // PostgreSQL continues as the owner of its cluster.
    expect(await make({})).toMatchObject({ code: 0, stderr: '' })
    await chown(FAIRLEAD_DATA_DIR, 12_345, 12_345)
    const asRoot = await commandHere(['keys', 'list'], { FAIRLEAD_DATA_DIR })
    expect(asRoot.stderr).toContain('belongs to user id 12345, and this is user id 0')
  })

  it.each([['users', 'list'], ['users', 'setup-link'], ['accounts', 'list'], ['keys', 'list'], ['status'], ['stop']])(
    'is not created by %s %s',
    async (...args) => {
      await using directory = await temporaryDirectory()
      const given = { FAIRLEAD_DATA_DIR: join(directory.path, 'data') }
      await commandHere(args, given)
      expect(await readdir(directory.path)).toEqual([])
    },
  )
})

it('an unbuilt checkout says how to build it', async () => {
  await using directory = await temporaryDirectory()
  const copy = join(directory.path, 'bin', 'fairlead.js')
  await cp(command, copy)
  await writeFile(join(directory.path, 'package.json'), '{"type":"module"}')
  const result = spawnSync(process.execPath, [copy, 'status'], { encoding: 'utf8' })
  expect(result.status).toBe(1)
  expect(result.stderr).toMatch(/^fairlead: this checkout is not built yet\. Run npm run build .*\n$/)
})

it.each(['20.1.0', '24.8.0'])('reports that Node %s is too old, and how to get another version', async (version) => {
  const text = await readFile(command, 'utf8')
  // Runs the version check with an old version.
  const versions = JSON.stringify({ value: { node: version } })
  const script = `Object.defineProperty(process, 'versions', ${versions});${text.replace(/^#!.*/, '')}`
  let stderr = ''
  try {
    execFileSync(process.execPath, ['--input-type=commonjs', '--eval', script], { stdio: ['ignore', 'pipe', 'pipe'] })
  } catch (error) {
    stderr = String((error as { stderr: Buffer }).stderr)
  }
  expect(stderr).toMatch(/^fairlead: needs Node 24\.9 or newer, and this is v/)
  expect(stderr).toContain('npm install node@24')
  expect(stderr.trim().split('\n')).toHaveLength(3)
})

it('ends in silence when the reader of its output has ended', async () => {
  const child = spawn(process.execPath, [command, '--help'], { stdio: ['ignore', 'pipe', 'pipe'] })
  child.stdout.destroy()
  let errors = ''
  child.stderr.on('data', (chunk) => {
    errors += chunk
  })
  expect(await once(child, 'close')).toEqual([0, null])
  expect(errors).toBe('')
})
