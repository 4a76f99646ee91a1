import { spawn } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { beforeAll, describe, expect, it } from 'vitest'
import { copyEnter, type Entrance, entranceText } from '../../../server/src/runtimes/enter.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

describe.runIf(process.platform === 'linux')('a command that is entered', () => {
  let directory: string
  let program: string
  beforeAll(async () => {
    const folder = await temporaryDirectory()
    directory = folder.path
    program = await copyEnter(directory, 'enter')
    return () => folder[Symbol.asyncDispose]()
  })

  async function enter(instructions: string) {
    const child = spawn(program, { env: { OUTER: '1' }, stdio: ['ignore', 'pipe', 'pipe', 'pipe'] })
    const [, stdout, stderr, input] = child.stdio as unknown as [null, Readable, Readable, Writable]
    // A program that gives up may close the pipe first.
    input.on('error', () => undefined)
    input.end(instructions)
    const code = new Promise<number | null>((resolve) => child.once('exit', resolve))
    return { pid: child.pid, stdout: await text(stdout), stderr: await text(stderr), code: await code }
  }

  const enterCommand = (entrance: Pick<Entrance, 'argv'> & Partial<Entrance>) =>
    enter(entranceText({ groups: [], user: null, env: {}, ...entrance }))

  it('has its arguments and its variables, whatever is in them, and nothing else', async () => {
    const script = 'const { argv, env } = process; process.stdout.write(JSON.stringify({ args: argv.slice(1), env }))'
    const args = ['', 'two words', '$HOME `id` ; \'"\\', 'line\nline', 'ü', '--', '-e']
    const env = { EMPTY: '', EQUALS: 'a=b=c', LINES: 'a\nb\n', 'odd-name.1': '$PATH', LD_X: 'ü', PATH: '/nowhere' }
    const { stdout, code } = await enterCommand({ argv: [process.execPath, '-e', script, '--', ...args], env })
    expect(JSON.parse(stdout)).toEqual({ args, env })
    expect(code).toBe(0)
  })

  it('is refused with a zero byte, which would end a text early', () => {
    const entrance = { groups: [], user: null, argv: ['/bin/true'], env: {} } as const
    expect(() => entranceText({ ...entrance, argv: ['/bin/true', 'a\0b'] })).toThrow('a command contains a zero byte')
    expect(() => entranceText({ ...entrance, env: { A: 'a\0LD_PRELOAD=x' } })).toThrow('a command contains a zero byte')
  })

  it('has more variables than a pipe holds', async () => {
    const env = Object.fromEntries(Array.from({ length: 10 }, (_, at) => [`V${at}`, String(at).repeat(100_000)]))
    const script = 'process.stdout.write(JSON.stringify(process.env))'
    const { stdout } = await enterCommand({ argv: [process.execPath, '-e', script], env })
    expect(JSON.parse(stdout)).toEqual(env)
  })

  it('has the usual signals and no descriptor of its start', async () => {
    const script = '[ -e /proc/self/fd/3 ] || grep SigIgn /proc/self/status'
    const { stdout } = await enterCommand({ argv: ['/bin/sh', '-c', script], env: { PATH: '/usr/bin:/bin' } })
    expect(stdout).toMatch(/^SigIgn:\s+0000000000000000\n$/)
  })

  it('is in its control groups before it exists', async () => {
    const groups = ['one', 'two'].map((name) => join(directory, name))
    for (const group of groups) await writeFile(group, '')
    const { pid, stdout } = await enterCommand({ groups, argv: ['/bin/cat', ...groups] })
    expect(stdout).toBe(`${pid}${pid}`)
    for (const group of groups) expect(await readFile(group, 'utf8')).toBe(String(pid))
  })

  it('is not begun when it cannot join a control group', async () => {
    const group = join(directory, 'missing', 'cgroup.procs')
    const { stdout, stderr, code } = await enterCommand({ groups: [group], argv: ['/bin/echo', 'begun'] })
    expect({ stdout, stderr, code }).toEqual({
      stdout: '',
      stderr: `${group}: the control group cannot be joined\n`,
      code: 126,
    })
  })

  it.runIf(process.getuid?.() === 0)('has its user, and no group but that of the user', async () => {
    const user = { uid: 41_000, gid: 41_001 }
    const { stdout } = await enterCommand({ user, argv: ['/usr/bin/id'] })
    expect(stdout).toMatch(/^uid=41000\S* gid=41001\S* groups=41001\S*\n$/)
  })

  it('is named with the code that a shell gives when its file cannot be run', async () => {
    const { stderr, code } = await enterCommand({ argv: ['/nowhere/app', 'x'] })
    expect(stderr).toBe('/nowhere/app: No such file or directory\n')
    expect(code).toBe(126)
  })

  it('is not begun without instructions, or with half of them', async () => {
    const whole = entranceText({ groups: [], user: null, argv: ['/bin/echo', 'begun'], env: {} })
    for (const instructions of ['', whole.slice(0, whole.indexOf('/bin'))]) {
      const { stdout, stderr, code } = await enter(instructions)
      expect({ stdout, stderr, code }).toEqual({ stdout: '', stderr: '', code: 126 })
    }
  })
})
