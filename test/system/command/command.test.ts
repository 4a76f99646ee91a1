import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { freePort, portSettings } from '../../harness/ports.ts'
import { command, fairlead, processesIn, serverProcess } from '../../harness/process.ts'
import { isRoot, temporaryDirectory } from '../../harness/temporary.ts'

const keyForm = /^fl_[0-9A-Za-z]{36}\n$/

let shared: Awaited<ReturnType<typeof temporaryDirectory>>
beforeAll(async () => {
  shared = await temporaryDirectory()
})
afterAll(() => shared[Symbol.asyncDispose]())

describe('fairlead keys create', () => {
  it('prints the key and only the key, without a server and beside one, and the keys work', async () => {
    await using directory = await temporaryDirectory()
    const data = join(directory.path, 'data')
    const before = await fairlead(['keys', 'create', '--new', '--name', 'before', '--data-dir', data])
    expect(before.code).toBe(0)
    expect(before.stderr).toContain(`no data in ${data} yet`)
    expect(before.stdout).toMatch(keyForm)

    await using server = await serverProcess(data)
    const beside = await fairlead(['keys', 'create', '--name', 'beside', '--preset', 'read', '--data-dir', data])
    expect(beside).toMatchObject({ code: 0, stderr: '' })
    const full = server.clientFor(before.stdout.trim())
    const read = server.clientFor(beside.stdout.trim())
    const { id } = await full.projects.create({ body: { name: 'p' } })
    expect((await read.projects.list()).total).toBe(1)
    await expect(read.projects.create({ body: { name: 'q' } })).rejects.toMatchObject({ code: 'forbidden' })

    const bound = await fairlead(['keys', 'create', '--name', 'bound', '--project', id, '--data-dir', data])
    const project = await server.clientFor(bound.stdout.trim()).projects.get({ params: { project_id: id } })
    expect(project.name).toBe('p')

    const listed = await fairlead(['keys', 'list', '--data-dir', data])
    const boundId = /(key_\w+) .* bound$/m.exec(listed.stdout)?.[1] ?? ''
    expect(await fairlead(['keys', 'revoke', boundId, '--data-dir', data])).toMatchObject({ code: 0 })
    await expect(server.clientFor(bound.stdout.trim()).projects.list()).rejects.toMatchObject({ code: 'unauthorized' })
  })

  it.each([
    [['keys', 'create'], '--name'],
    [['keys', 'create', '--name', 'a'], 'No server has been started'],
    [['keys', 'create', '--name', 'a', '--preset', 'god'], 'full, read, deploy'],
    [['keys', 'create', '--new', '--name', 'a', '--project', 'proj_x'], 'proj_x'],
    [['keys', 'create', '--new', '--name', 'a', '--account', 'acct_x'], 'acct_x'],
    [['keys', 'revoke', 'key_x'], 'key_x'],
    [['accounts', 'update', 'acct_x', '--plan', 'pro'], 'acct_x'],
    [['accounts', 'create', '--name', 'a', '--plan', 'gold'], 'free, pro, enterprise'],
    [['nonsense'], 'nonsense'],
  ])('%j fails and names what is wrong', async (args, named) => {
    const result = await fairlead(args, { FAIRLEAD_DATA_DIR: join(shared.path, 'data') })
    expect(result.code).toBe(1)
    expect(result.stdout).toBe('')
    expect(result.stderr).toContain(named)
  })
})

it('the help of an operation lists the fields of its body', async () => {
  const { stdout } = await fairlead(['api', 'deployments.create', '--help'])
  expect(stdout).toMatch(/^ {2}name \(string, required\)\n {6}Names the app/m)
  expect(stdout).toMatch(/^ {2}keep_env_vars \(array of string\)$/m)
  expect((await fairlead(['api', 'deployments.get', '--help'])).stdout).not.toContain('Fields of the body')
})

describe('fairlead accounts', () => {
  it('creates, changes and lists accounts, and keys can belong to them', async () => {
    const environment = { FAIRLEAD_DATA_DIR: join(shared.path, 'data') }
    const created = await fairlead(['accounts', 'create', '--name', 'Small shop'], environment)
    const id = created.stdout.trim()
    expect(id).toMatch(/^acct_/)
    await fairlead(['accounts', 'update', id, '--plan', 'pro', '--name', 'Big shop'], environment)
    expect((await fairlead(['accounts', 'list'], environment)).stdout).toMatch(new RegExp(`${id} +pro +plan +Big shop`))
    const key = await fairlead(['keys', 'create', '--name', 'a', '--account', id], environment)
    expect(key.stdout).toMatch(keyForm)
    expect((await fairlead(['keys', 'list'], environment)).stdout).toContain(id)
  })
})

describe('fairlead serve', () => {
  it('is one process that stops on SIGTERM with status 0 and leaves nothing running', async () => {
    await using directory = await temporaryDirectory()
    const server = await serverProcess(join(directory.path, 'data'))
    const pid = Number(
      (await readFile(join(directory.path, 'data/postgres/data/postmaster.pid'), 'utf8')).split('\n')[0],
    )
    expect((await fetch(`${server.url}/healthz`)).status).toBe(200)
    expect((await fetch(`${server.url}/readyz`)).status).toBe(200)
    expect(await server.stop()).toBe(0)
    expect(() => process.kill(pid, 0)).toThrow('ESRCH')
  })

  it('treats two SIGINTs at once as one Ctrl+C, and stops in order', async () => {
    await using directory = await temporaryDirectory()
    const server = await serverProcess(join(directory.path, 'data'))
    const exited = once(server.child, 'exit')
    server.child.kill('SIGINT')
    server.child.kill('SIGINT')
    expect(await exited).toEqual([0, null])
    expect(server.log.at(-1)).toMatchObject({ msg: 'stopped' })
    expect(await processesIn(directory.path)).toEqual([])
  })

  it('stops everything when its terminal is closed', async () => {
    await using directory = await temporaryDirectory()
    const serve = `exec ${process.execPath} ${command} serve --data-dir ${directory.path}`
    // The program `script` is a terminal, which is closed when it ends.
    const terminal = spawn('script', ['--quiet', '--return', '--command', serve, '/dev/null'], {
      env: { PATH: process.env['PATH'], FAIRLEAD_PORT: String(await freePort()), ...portSettings },
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    let shown = ''
    terminal.stdout.on('data', (chunk) => {
      shown += chunk
    })
    await expect.poll(() => shown, { timeout: 60_000 }).toContain('"leader":true')
    terminal.kill('SIGKILL')
    await expect.poll(() => processesIn(directory.path), { timeout: 60_000 }).toEqual([])
    expect(await readdir(join(directory.path, 'run'))).toEqual([])
    expect(await readFile(join(directory.path, 'postgres', 'postgres.log'), 'utf8')).toMatch(/is shut down\n$/)
  })

  it('reports that the port is taken', async () => {
    await using directory = await temporaryDirectory()
    const other = createServer().listen(0, '127.0.0.1')
    await once(other, 'listening')
    const { port } = other.address() as AddressInfo
    const result = await fairlead(['serve', '--port', String(port), '--data-dir', join(directory.path, 'data')])
    other.close()
    expect(result.code).toBe(1)
    expect(result.stderr).toContain(`127.0.0.1:${port} is taken`)
    expect(result.stderr).toContain('--port')
  })

  it('reports what is wrong with DATABASE_URL, without its password', async () => {
    await using directory = await temporaryDirectory()
    const result = await fairlead(['serve', '--port', '0', '--data-dir', join(directory.path, 'data')], {
      DATABASE_URL: 'postgres://user:hunter2@127.0.0.1:9/none',
    })
    expect(result.code).toBe(1)
    expect(result.stderr).toContain('DATABASE_URL')
    expect(result.stderr + result.stdout).not.toContain('hunter2')
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

  // Only a server that runs as root has processes of other users.
  if (isRoot) {
    it('reports which folder keeps other users out of the data directory', async () => {
      await using directory = await temporaryDirectory()
      const closed = join(directory.path, 'closed')
      await mkdir(closed)
      await chmod(closed, 0o700)
      const result = await fairlead(['serve', '--port', '0', '--data-dir', join(closed, 'data')])
      expect(result.code).toBe(1)
      expect(result.stderr).toContain(closed)
      expect(result.stderr).toContain('chmod o+x')
      expect(await readdir(closed)).toEqual([])
    })
  }

  it('names every wrong variable', async () => {
    const result = await fairlead(['serve'], { FAIRLEAD_PORT: 'x', FAIRLEAD_REGIONS: 'Eu West' })
    expect(result.code).toBe(1)
    expect(result.stderr).toContain('FAIRLEAD_PORT')
    expect(result.stderr).toContain('FAIRLEAD_REGIONS')
  })

  it('lets a second server on the same data directory follow the first, and lead when that has gone', async () => {
    await using directory = await temporaryDirectory()
    const data = join(directory.path, 'data')
    await using first = await serverProcess(data)
    await using second = await serverProcess(data)
    expect(second.log.find(({ msg }) => msg === 'ready')).toMatchObject({ leader: false })
    for (const { url } of [first, second]) expect((await fetch(`${url}/readyz`)).status).toBe(200)
    await first.stop()
    await expect.poll(() => second.log.map(({ msg }) => msg), { timeout: 60_000 }).toContain('apps are reconciled')
    await expect.poll(async () => (await fetch(`${second.url}/readyz`)).status).toBe(200)
  })

  it('refuses to start with another secret key', async () => {
    await using directory = await temporaryDirectory()
    const data = join(directory.path, 'data')
    await (await serverProcess(data)).stop()
    const result = await fairlead(['serve', '--port', '0', '--data-dir', data], {
      FAIRLEAD_SECRET_KEY: Buffer.alloc(32, 7).toString('base64'),
    })
    expect(result.code).toBe(1)
    expect(result.stderr).toContain('FAIRLEAD_SECRET_KEY')
  })
})

it.each(['20.1.0', '24.8.0'])('reports that Node %s is too old, and how to get another one', async (version) => {
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
