import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { cp, mkdir, readdir, symlink } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { clock, isGitEnough } from '../../../server/src/doctor.ts'
import { commandHere } from '../../harness/command-here.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

let directory: Awaited<ReturnType<typeof temporaryDirectory>>
beforeAll(async () => {
  directory = await temporaryDirectory()
})
afterAll(() => directory[Symbol.asyncDispose]())

/** Runs the command with a free port and a data directory that does not exist yet. */
const doctor = (environment: Readonly<Record<string, string>> = {}) =>
  commandHere(['doctor', '--data-dir', join(directory.path, 'none', 'data')], { FAIRLEAD_PORT: '0', ...environment })

/** Returns the line about one check. */
const lineOf = (stdout: string, subject: string): string =>
  stdout.split('\n').find((line) => line.includes(` ${subject} `)) ?? ''

describe('fairlead doctor', () => {
  it('on a suitable machine: status 0, a line for each check, and nothing changed', async () => {
    const { code, stdout, stderr } = await doctor()
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    for (const subject of ['git', 'data directory', 'disk', 'API port', 'clock'])
      expect(lineOf(stdout, subject)).toMatch(/^ok /)
    for (const subject of ['isolation', 'networks', 'prlimit', 'control groups'])
      expect(lineOf(stdout, subject)).toMatch(/^(ok|missing) /)
    for (const language of ['ruby', 'php', 'java', 'elixir', 'python', 'go', 'rust'])
      expect(lineOf(stdout, `apps in ${language}`)).toMatch(/^(ok|-) .*\S/)
    expect(lineOf(stdout, 'control groups')).not.toMatch(/:\s*$/)
    expect(stdout).not.toContain('BROKEN')
    expect(await readdir(directory.path)).toEqual([])
  })

  it('says how to turn containers on, and whether their engine can be used', async () => {
    const { stdout } = await doctor({ DOCKER_HOST: '' })
    expect(lineOf(stdout, 'containers')).toMatch(/^- .*no Docker engine is configured/)
    expect(stdout).toContain('FAIRLEAD_RUNTIME=process,docker')
    const none = join(directory.path, 'none.sock')
    const away = await doctor({ DOCKER_HOST: `unix://${none}` })
    expect(away.code).toBe(1)
    expect(lineOf(away.stdout, 'containers')).toMatch(/^BROKEN .*ENOENT/)
    expect(away.stdout).toContain('start Docker, or set FAIRLEAD_RUNTIME=process')
    expect(away.stdout).not.toContain('base of containers')
    const alone = await doctor({ FAIRLEAD_RUNTIME: 'docker', FAIRLEAD_DOCKER_BASE: 'debian:12' })
    expect(lineOf(alone.stdout, 'base of containers')).toMatch(/^ok .*debian:12/)
  })

  it('runs in an unbuilt checkout', async () => {
    await using checkout = await temporaryDirectory()
    const modules = join(checkout.path, 'node_modules')
    await mkdir(join(checkout.path, 'server'), { recursive: true })
    for (const part of ['src', 'bin', 'assets', 'package.json']) {
      await cp(join('server', part), join(checkout.path, 'server', part), { recursive: true })
    }
    await mkdir(modules)
    // The packages of the workspace are not built, either.
    for (const name of await readdir('node_modules')) {
      if (name !== '@fairlead') await symlink(resolve('node_modules', name), join(modules, name))
    }
    const program = join(checkout.path, 'server/bin/fairlead.js')
    const run = (...args: string[]) => promisify(execFile)(process.execPath, [program, ...args], { timeout: 60_000 })
    const { stdout } = await run('doctor', '--port', '0', '--data-dir', join(checkout.path, 'data'))
    expect(lineOf(stdout, 'git')).toMatch(/^ok /)
    await expect(run('serve')).rejects.toMatchObject({ stderr: expect.stringContaining('npm run build') })
  })

  it('without git: status 1, and what to do', async () => {
    const empty = join(directory.path, 'empty')
    await mkdir(empty)
    const { code, stdout } = await doctor({ PATH: empty })
    expect(code).toBe(1)
    expect(lineOf(stdout, 'git')).toMatch(/^BROKEN .*not on PATH/)
    expect(stdout).toMatch(/^git: install git 2\.37 or newer: nothing can be deployed without it\.$/m)
    // A missing optional program is reported with its consequences.
    expect(lineOf(stdout, 'prlimit')).toMatch(/^missing /)
    expect(stdout).toMatch(/^prlimit: install util-linux/m)
  })

  it('with too little disk space: status 1, and where to free some', async () => {
    const { code, stdout } = await doctor({ FAIRLEAD_RESERVE_MB: '999999999' })
    expect(code).toBe(1)
    expect(lineOf(stdout, 'disk')).toMatch(/^BROKEN .*MB free/)
    expect(stdout).toMatch(
      /^disk: nothing is deployed below 999999999 MB \(FAIRLEAD_RESERVE_MB\)\. Make room for .*data\.$/m,
    )
  })

  it.skipIf(process.getuid?.() !== 0)(
    'with a data directory that its apps cannot reach: status 1, and the closed folder',
    async () => {
      const closed = join(directory.path, 'closed')
      await mkdir(closed, { mode: 0o700 })
      const { code, stdout } = await commandHere(['doctor', '--data-dir', join(closed, 'data')], { FAIRLEAD_PORT: '0' })
      expect(code).toBe(1)
      expect(lineOf(stdout, 'data directory')).toMatch(/^BROKEN /)
      expect(stdout).toMatch(/^data directory: .* the folder .*closed does not let that user in\./m)
      expect(stdout).not.toContain('chmod')
    },
  )

  it('with a port of another program: status 1, and the port', async () => {
    const other = createServer().listen(0, '127.0.0.1')
    await once(other, 'listening')
    const port = String((other.address() as AddressInfo).port)
    const taken = await doctor({ FAIRLEAD_PORT: port })
    const gateway = await doctor({ FAIRLEAD_APPS_DOMAIN: 'apps.example.com', FAIRLEAD_GATEWAY_PORT: port })
    other.close()
    expect(taken.code).toBe(1)
    expect(lineOf(taken.stdout, 'API port')).toMatch(new RegExp(`^BROKEN .*127.0.0.1:${port}`))
    expect(taken.stdout).toMatch(/^API port: another program listens there.* Choose another port\.$/m)
    expect(gateway.code).toBe(1)
    expect(lineOf(gateway.stdout, 'gateway port')).toMatch(/^BROKEN /)
    expect(lineOf(gateway.stdout, 'API port')).toMatch(/^ok /)
  })

  it('with a mistake in the configuration: status 1, and the variable', async () => {
    const { code, stdout, stderr } = await doctor({ FAIRLEAD_RESERVE_MB: 'much' })
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toContain('FAIRLEAD_RESERVE_MB')
  })

  it('shows no secret of the configuration', async () => {
    const secretKey = randomBytes(32).toString('base64')
    const { code, stdout, stderr } = await doctor({
      DATABASE_URL: 'postgresql://admin:hunter2@127.0.0.1:1/fairlead',
      FAIRLEAD_DATABASES_URL: 'postgresql://admin:hunter2@127.0.0.1:1/postgres',
      FAIRLEAD_SECRET_KEY: secretKey,
      FAIRLEAD_METRICS_TOKEN: 'hunter2-of-the-metrics',
      FAIRLEAD_BUILD_ENV: JSON.stringify({ REGISTRY_TOKEN: 'hunter2-of-the-registry' }),
    })
    // The state database's address has no listener.
    expect(code).toBe(1)
    expect(stdout + stderr).not.toContain('hunter2')
    expect(stdout + stderr).not.toContain(secretKey)
  })
})

it.each([
  ['git version 2.37.0', true],
  ['git version 2.39.5 (Apple Git-154)', true],
  ['git version 3.0.0', true],
  ['git version 2.36.9', false],
  ['git version 1.99.0', false],
  ['', false],
])('judges %j', (text, isEnough) => {
  expect(isGitEnough(text)).toBe(isEnough)
})

it('recognises a clock that was never set', () => {
  expect(clock(0)).toMatchObject({ state: 'broken', cost: expect.stringContaining('NTP') })
  expect(clock(Date.UTC(2030, 0, 1))).toMatchObject({ state: 'ok' })
})
