import { spawn, spawnSync } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { expect, it } from 'vitest'
import { perlCommand, perlEntrance } from '../../../server/src/runtimes/process/enter-perl.ts'

const hasPerl = spawnSync('/usr/bin/perl', ['-v']).status === 0

/** Runs a command by Perl, as sandboxes start it. */
async function enter(argv: readonly string[], env: Readonly<Record<string, string>>) {
  const [perl, ...args] = perlCommand('/usr/bin/perl')
  const child = spawn(perl, args, { env: { OUTER: '1' }, stdio: ['ignore', 'pipe', 'pipe', 'pipe'] })
  const [, stdout, stderr, instructions] = child.stdio as unknown as [null, Readable, Readable, Writable]
  instructions.end(perlEntrance(argv, env))
  const code = new Promise<number | null>((resolve) => child.once('exit', resolve))
  return { stdout: await text(stdout), stderr: await text(stderr), code: await code }
}

it.skipIf(!hasPerl)('a command has exactly its arguments and its variables, with any content', async () => {
  const program = 'const { argv, env } = process; process.stdout.write(JSON.stringify({ args: argv.slice(1), env }))'
  const args = ['', 'two words', '$HOME `id` ; \'"\\', 'line\nline', 'ü', '--', '-e']
  const env = { EMPTY: '', EQUALS: 'a=b=c', LINES: 'a\nb\n', 'odd-name.1': '$PATH', LD_X: 'ü', PATH: '/nowhere' }
  const { stdout, code } = await enter([process.execPath, '-e', program, '--', ...args], env)
  expect(JSON.parse(stdout)).toEqual({ args, env })
  expect(code).toBe(0)
})

it.skipIf(!hasPerl)('a command has the default signals and no descriptor of its start', async () => {
  const program = '[ -e /proc/self/fd/3 ] || grep SigIgn /proc/self/status'
  const { stdout } = await enter(['/bin/sh', '-c', program], { PATH: '/usr/bin:/bin' })
  expect(stdout).toMatch(/^SigIgn:\s+0000000000000000\n$/)
})

it.skipIf(!hasPerl)('an unrunnable file is named, with the shell’s exit code', async () => {
  const { stderr, code } = await enter(['/nowhere/app', 'x'], {})
  expect(stderr).toBe('/nowhere/app: No such file or directory\n')
  expect(code).toBe(126)
})
