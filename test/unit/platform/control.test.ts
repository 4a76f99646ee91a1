import { once } from 'node:events'
import { chmod, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ControlError, controlsOf } from '../../../server/src/platform/control/client.ts'
import { type ControlHandlers, openControl } from '../../../server/src/platform/control/server.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const logger = pino({ level: 'silent' })
const startedAt = '2026-01-01T00:00:00.000Z'
const identity = (letter: string) => ({ id: letter.repeat(8), version: '1.2.3', startedAt })
const soon = () => AbortSignal.timeout(20_000)

let directory: Awaited<ReturnType<typeof temporaryDirectory>>
let folder: string
beforeEach(async () => {
  directory = await temporaryDirectory()
  folder = join(directory.path, 'run')
})
afterEach(() => directory[Symbol.asyncDispose]())

const open = (letter: string, handlers: ControlHandlers = {}, path = folder) =>
  openControl({ folder: path, identity: identity(letter), handlers, logger })

describe('the control socket', () => {
  it('runs its handlers, and passes on their refusals', async () => {
    const control = await open('a', {
      'POST /echo': async (body) => body,
      'POST /refuse': async () => {
        throw new ControlError(409, 'not now')
      },
    })
    const [server] = await controlsOf(folder)
    expect(server?.record).toMatchObject({ pid: process.pid, version: '1.2.3', isStopping: false })
    expect(await server?.send('POST', '/echo', { a: 1 }, soon())).toEqual({ a: 1 })
    await expect(server?.send('POST', '/refuse', {}, soon())).rejects.toMatchObject({ status: 409, message: 'not now' })
    await expect(server?.send('GET', '/constructor', undefined, soon())).rejects.toMatchObject({ status: 404 })
    await expect(server?.send('POST', '/echo', 'x'.repeat(100_000), soon())).rejects.toThrow()
    expect(await server?.send('POST', '/echo', { b: 2 }, soon())).toEqual({ b: 2 })
    await control.close()
    expect(await readdir(folder)).toEqual([])
    expect(await controlsOf(folder)).toEqual([])
  })

  it('is only for its user, and refuses requests from browsers', async () => {
    const control = await open('a', { 'GET /status': async () => 'secret' })
    const socket = (await controlsOf(folder))[0]?.record.socket ?? ''
    expect((await stat(folder)).mode & 0o777).toBe(0o700)
    expect((await stat(socket)).mode & 0o777).toBe(0o600)
    for (const headers of [{ host: 'localhost' }, { host: 'fairlead.control', origin: 'http://localhost:3000' }]) {
      const sent = request({ socketPath: socket, path: '/status', headers, agent: false }).end()
      const [response] = (await once(sent, 'response')) as [IncomingMessage]
      expect(response.statusCode).toBe(403)
      response.resume()
    }
    await control.close()
  })

  it('has another place when the path of the data directory is too long for a socket', async () => {
    const { mkdir } = await import('node:fs/promises')
    const deep = join(directory.path, 'd'.repeat(90))
    await mkdir(deep)
    const control = await open('a', { 'GET /ping': async () => 'pong' }, join(deep, 'run'))
    const [server] = await controlsOf(join(deep, 'run'))
    expect(server?.record.socket).not.toContain(deep)
    expect(await server?.send('GET', '/ping', undefined, soon())).toBe('pong')
    await control.close()
  })

  it('does not open in a folder that others may enter', async () => {
    await (await open('a')).close()
    await chmod(folder, 0o755)
    await expect(open('b')).rejects.toThrow('private folder')
  })
})

describe('the servers of a data directory', () => {
  it('are empty where no server ever ran', async () => {
    expect(await controlsOf(join(directory.path, 'nowhere'))).toEqual([])
  })

  it('exclude dead servers, and remove their files', async () => {
    const control = await open('a')
    const record = { id: 'b'.repeat(8), pid: process.pid, boot: null, version: '1', startedAt, isStopping: false }
    // The pid exists, but began at another time: another program has it now.
    const dead = { ...record, processStart: '1', socket: join(folder, `${process.pid}-bbbbbbbb.sock`) }
    await writeFile(join(folder, `${process.pid}-bbbbbbbb.json`), JSON.stringify(dead))
    // The same pid and start time from before a power failure: another program may have it now.
    const own = (await controlsOf(folder))[0]?.record
    const before = {
      ...own,
      id: 'd'.repeat(8),
      boot: '00000000-0000-4000-8000-000000000000',
      socket: join(folder, `${process.pid}-dddddddd.sock`),
    }
    await writeFile(join(folder, `${process.pid}-dddddddd.json`), JSON.stringify(before))
    await writeFile(join(folder, '4194999-cccccccc.sock'), '')
    await writeFile(join(folder, '4194999-cccccccc.json'), '{"half')
    expect((await controlsOf(folder)).map((server) => server.record.id)).toEqual(['a'.repeat(8)])
    expect((await readdir(folder)).sort()).toEqual([`${process.pid}-aaaaaaaa.json`, `${process.pid}-aaaaaaaa.sock`])
    await control.close()
  })

  it('include a server with another boot id, as in containers of systemd-nspawn, that accepts connections', async () => {
    const control = await open('a')
    const [found] = await controlsOf(folder)
    const moved = { ...found?.record, boot: '00000000-0000-4000-8000-000000000000' }
    await writeFile(join(folder, `${process.pid}-aaaaaaaa.json`), JSON.stringify(moved))
    expect((await controlsOf(folder)).map(({ record }) => record.id)).toEqual(['a'.repeat(8)])
    await control.close()
  })

  it('exclude a record that names another file, and keep that file', async () => {
    await mkdir(folder, { mode: 0o700 })
    const socket = join(directory.path, 'letter.txt')
    await writeFile(socket, 'of somebody')
    const record = {
      id: 'b'.repeat(8),
      pid: 4_194_999,
      processStart: '1',
      boot: null,
      version: '1',
      startedAt,
      isStopping: false,
    }
    await writeFile(join(folder, '4194999-bbbbbbbb.json'), JSON.stringify({ ...record, socket }))
    expect(await controlsOf(folder)).toEqual([])
    expect(await readFile(socket, 'utf8')).toBe('of somebody')
  })

  it('that leave at the same time agree on the last one', async () => {
    const [first, second] = [await open('a'), await open('b')]
    expect(await first.leave()).toBe(false)
    expect(await second.leave()).toBe(true)
    expect((await controlsOf(folder)).every(({ record }) => record.isStopping)).toBe(true)
    await first.close()
    await second.close()
  })
})
