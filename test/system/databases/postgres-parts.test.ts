import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { chooseSocketDirectory } from '../../../server/src/platform/postgres/access.ts'
import { locateBinaries, majorVersion } from '../../../server/src/platform/postgres/binaries.ts'
import { nextPause } from '../../../server/src/platform/postgres/cluster.ts'
import { initdbArguments } from '../../../server/src/platform/postgres/initialise.ts'
import {
  holdsDirectory,
  parsePostmasterPid,
  postmasterArguments,
} from '../../../server/src/platform/postgres/postmaster.ts'
import { inspectProcess, parsePs } from '../../../server/src/platform/processes/find.ts'
import { parseStat } from '../../../server/src/platform/processes.ts'
import { makePrivateDirectory } from '../../../server/src/platform/socket-folder.ts'
import { prefix } from '../../harness/temporary.ts'
import { isRoot, user } from './fixtures/cluster-harness.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), prefix))
})
afterEach(() => rm(folder, { recursive: true, force: true }))

describe('the binaries', () => {
  it('are found for this platform', async () => {
    const { version, directory } = await locateBinaries()
    expect(majorVersion(version)).toBe(18)
    expect(await readdir(directory)).toEqual(expect.arrayContaining(['bin', 'lib', 'share']))
  })

  it('are reported missing with a remedy on other platforms', async () => {
    await expect(locateBinaries('win32', 'x64')).rejects.toThrow(/no embedded PostgreSQL for win32-x64.*DATABASE_URL/)
    const other = process.arch === 'x64' ? 'arm64' : 'x64'
    await expect(locateBinaries('linux', other)).rejects.toThrow(/npm install.*DATABASE_URL/)
  })
})

describe('postmaster.pid', () => {
  it('is read line by line', () => {
    const text =
      '6247\n/var/lib/fairlead/postgres/data\n1795223145\n5432\n/run/socket\n\n  2155153         9\nready   \n'
    expect(parsePostmasterPid(text)).toEqual({ pid: 6247, port: 5432, socketDirectory: '/run/socket', status: 'ready' })
  })

  it('may be truncated anywhere', () => {
    expect(parsePostmasterPid('')).toBeNull()
    expect(parsePostmasterPid('6247\n/var')).toEqual({ pid: 6247, port: 0, socketDirectory: '', status: '' })
    expect(parsePostmasterPid('-17\n')).toMatchObject({ pid: 17 })
  })

  it('is never misread as an unnamed holder', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        const lock = parsePostmasterPid(text)
        expect(lock === null || (Number.isInteger(lock.pid) && lock.pid > 0)).toBe(true)
      }),
    )
  })
})

describe('a process', () => {
  const info = {
    command: 'postgres',
    commandLine: '/x/postgres -D /data -c port=5432',
    directory: null,
    startedAt: '1',
  }

  it('holds a folder when it is PostgreSQL and works in the folder', () => {
    expect(holdsDirectory({ ...info, directory: '/data' }, '/data')).toBe(true)
    expect(holdsDirectory({ ...info, directory: '/other' }, '/data')).toBe(false)
    expect(holdsDirectory({ ...info, command: 'bash', directory: '/data' }, '/data')).toBe(false)
  })

  it('is judged by its command line where the system hides the working directory', () => {
    expect(holdsDirectory(info, '/data')).toBe(true)
    expect(holdsDirectory(info, '/dat')).toBe(false)
    expect(holdsDirectory({ ...info, commandLine: 'postgres -D /data' }, '/data')).toBe(true)
  })

  it('keeps its lock when its folder is unknown', () => {
    expect(holdsDirectory({ ...info, commandLine: 'postgres' }, '/data')).toBe(true)
  })

  it('is distinguished from a later one with the same pid', async () => {
    const self = await inspectProcess(process.pid)
    expect(self?.startedAt).toBe((await inspectProcess(process.pid))?.startedAt)
    expect(self?.startedAt).not.toBe((await inspectProcess(process.ppid))?.startedAt)
  })

  it('is unknown when it has ended', async () => {
    const child = spawn('sleep', ['0'])
    await once(child, 'exit')
    expect(await inspectProcess(child.pid as number)).toBeNull()
  })

  it('is read from /proc although its name has spaces and parentheses', () => {
    const fields = Array.from({ length: 40 }, (_, index) => index)
    const alive = parseStat(`12 (a) b (c) S ${fields.join(' ')}`)
    expect(alive).toMatchObject({ command: 'a) b (c', startTime: '18', ended: false })
    expect(parseStat(`12 (postgres) Z ${fields.join(' ')}`)).toMatchObject({ ended: true })
    expect(parseStat('')).toBeNull()
  })

  it('is read from ps', () => {
    expect(parsePs('Ss   Wed Nov 21 01:05:45 2026 postgres /x y/postgres -D /data\n')).toEqual({
      command: 'postgres',
      commandLine: '/x y/postgres -D /data',
      directory: null,
      startedAt: 'Wed Nov 21 01:05:45 2026',
    })
    expect(parsePs('Z    Wed Nov  1 01:05:45 2026 postgres (postgres)\n')).toBeNull()
    expect(parsePs('')).toBeNull()
  })
})

describe('the socket', () => {
  const choose = (parent: string, temporary = '/tmp', platform = 'linux') =>
    chooseSocketDirectory({ directory: `${parent}/data`, parent, temporary, platform })

  it('is beside the cluster up to the longest address, and in the temporary directory beyond', () => {
    const own = '/socket/.s.PGSQL.5432'.length
    for (const [platform, limit] of [
      ['linux', 107],
      ['darwin', 103],
    ] as const) {
      const parent = `/${'p'.repeat(limit - own - 1)}`
      expect(choose(parent, '/tmp', platform)).toBe(`${parent}/socket`)
      expect(choose(`${parent}p`, '/tmp', platform)).toMatch(/^\/tmp\/fairlead-[0-9a-f]{16}$/)
    }
  })

  it('counts bytes, not letters', () => {
    expect(choose(`/${'ä'.repeat(60)}`)).toMatch(/^\/tmp\//)
  })

  it('has the same path at every start, and another path for another cluster', () => {
    const long = `/${'p'.repeat(120)}`
    expect(choose(long)).toBe(choose(long))
    expect(choose(long)).not.toBe(choose(`${long}2`))
  })

  it('is refused when the temporary directory is too long as well', () => {
    const long = `/${'p'.repeat(120)}`
    expect(() => choose(long, long)).toThrow(/shorter --data-dir or set TMPDIR/)
  })

  it('has a private folder, created once', async () => {
    const path = join(folder, 'socket')
    await makePrivateDirectory(path, user)
    await makePrivateDirectory(path, user)
    const info = await stat(path)
    expect([info.mode & 0o777, info.uid]).toEqual([0o700, user?.uid ?? process.getuid?.()])
  })

  it('is not placed in a folder that others can enter, nor through a link', async () => {
    const open = join(folder, 'open')
    await mkdir(open)
    await chmod(open, 0o755)
    await expect(makePrivateDirectory(open, user)).rejects.toThrow(/something else is there \(owner \d+, mode 755\)/)
    await chmod(open, 0o700)
    await symlink(open, join(folder, 'link'))
    await expect(makePrivateDirectory(join(folder, 'link'), user)).rejects.toThrow(/something else is there/)
    await writeFile(join(folder, 'file'), '', { mode: 0o700 })
    await expect(makePrivateDirectory(join(folder, 'file'), user)).rejects.toThrow(/something else is there/)
  })

  it(isRoot ? 'does not go into a folder of another user' : 'is made for the server itself', async () => {
    const path = join(folder, 'foreign')
    await makePrivateDirectory(path, isRoot ? { uid: 40_123, gid: 40_123 } : null)
    const again = makePrivateDirectory(path, user)
    await (isRoot ? expect(again).rejects.toThrow(/something else is there/) : again)
  })
})

describe('the arguments', () => {
  it('name a locale that each platform knows', () => {
    expect(initdbArguments('linux', 18)).toContain('--lc-ctype=C.UTF-8')
    expect(initdbArguments('darwin', 18)).toContain('--lc-ctype=en_US.UTF-8')
  })

  it('quote the folder of the socket as a list with one element', () => {
    expect(postmasterArguments('/data', '/a, "b"')).toContain('unix_socket_directories="/a, ""b"""')
    expect(postmasterArguments('/data', '/s')).toContain('listen_addresses=')
  })
})

it('pauses grow after each failure, up to half a minute', () => {
  const pauses = [0]
  for (let i = 0; i < 7; i++) pauses.push(nextPause(pauses[i] ?? 0))
  expect(pauses).toEqual([0, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000])
})
