import { type ChildProcess, spawn } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Status } from '../../../server/src/commands/machine-status.ts'
import { bootId, startTimeOf } from '../../../server/src/platform/processes.ts'
import { markVariable, openMarks } from '../../../server/src/runtimes/process/marks.ts'
import { commandHere } from '../../harness/command-here.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

/* A data directory without a server, with processes that belong to it or only seem to. */

let directory: Awaited<ReturnType<typeof temporaryDirectory>>
let data: string
const started: ChildProcess[] = []
beforeEach(async () => {
  directory = await temporaryDirectory()
  data = join(directory.path, 'data')
})
afterEach(async () => {
  for (const child of started.splice(0)) child.kill('SIGKILL')
  await directory[Symbol.asyncDispose]()
})

/** Starts an idle process in a new session, like an app. */
function idle(environment: Readonly<Record<string, string>> = {}): ChildProcess & { readonly pid: number } {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], {
    env: environment,
    detached: true,
    stdio: 'ignore',
  })
  started.push(child)
  if (child.pid === undefined) throw new Error('the process could not be started')
  return Object.assign(child, { pid: child.pid })
}

const lives = ({ exitCode, signalCode }: ChildProcess): boolean => exitCode === null && signalCode === null
const run = (...args: string[]) => commandHere([...args, '--data-dir', data])
const nothing = () => `nothing was running with the data directory ${data}\n`
const statusOf = async () => {
  const { code, stdout } = await run('status', '--json')
  return { code, ...(JSON.parse(stdout) as Status) }
}

async function recordGateway(record: { readonly pid: number; readonly startTime: string }): Promise<void> {
  await mkdir(join(data, 'gateway'), { recursive: true })
  await writeFile(
    join(data, 'gateway', 'gateway.json'),
    JSON.stringify({ ...record, boot: bootId(), version: '1.2.3' }),
  )
}

describe('fairlead stop', () => {
  it('finds nothing in a missing data directory, and does not create it', async () => {
    expect(await run('stop')).toEqual({ code: 3, stdout: expect.stringContaining(nothing()), stderr: '' })
    expect(await statusOf()).toMatchObject({ code: 3, servers: [], gateways: [], clusters: [], apps: [], problems: [] })
    await expect(mkdir(data)).resolves.toBeUndefined()
  })

  it('ends the processes of the releases in the directory, and no others', async () => {
    await mkdir(join(data, 'apps/app_one/releases/dep_ours'), { recursive: true })
    // Its owner is the user of the app.
    await mkdir(join(data, 'apps/app_one/home'))
    const { markOf } = await openMarks(join(data, 'process-marks'))
    const ours = idle({ [markVariable]: markOf('dep_ours') })
    const foreign = idle({ [markVariable]: markOf('dep_theirs') })
    await expect.poll(async () => (await statusOf()).apps).toMatchObject([{ deployment_id: 'dep_ours', pid: ours.pid }])
    const { code, stdout } = await run('stop')
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'stopped one app: dep_ours\n' })
    await expect.poll(() => lives(ours)).toBe(false)
    expect(lives(foreign)).toBe(true)
  })

  it('ends the recorded gateway, unless its pid belongs to another program now', async () => {
    const gateway = idle()
    await recordGateway({ pid: gateway.pid, startTime: '1' })
    expect(await statusOf()).toMatchObject({
      gateways: [{ version: '1.2.3', pid: null, since: null }],
      problems: ['the gateway does not run'],
    })
    expect((await run('stop')).stdout).toContain(nothing())
    expect(lives(gateway)).toBe(true)

    await recordGateway({ pid: gateway.pid, startTime: startTimeOf(gateway.pid) ?? '' })
    expect(await statusOf()).toMatchObject({ gateways: [{ version: '1.2.3', pid: gateway.pid }], problems: [] })
    expect((await run('stop')).stdout).toBe(`stopped the gateway 1.2.3 (pid ${gateway.pid})\n`)
    await expect.poll(() => lives(gateway)).toBe(false)
  })

  it('ends the engine that builds a Dockerfile, and lists it before', async () => {
    const engine = idle()
    await mkdir(join(data, 'image-builds/app_one'), { recursive: true })
    const startTime = startTimeOf(engine.pid)
    const record = { pid: engine.pid, startTime, boot: bootId(), deploymentId: 'dep_one' }
    await writeFile(join(data, 'image-builds/app_one/daemon.json'), JSON.stringify(record))
    expect(await statusOf()).toMatchObject({
      builds: [{ app_id: 'app_one', deployment_id: 'dep_one', pid: engine.pid }],
    })
    expect((await run('stop')).stdout).toBe(`stopped the build of the Dockerfile of dep_one (pid ${engine.pid})\n`)
    await expect.poll(() => lives(engine)).toBe(false)
    expect((await statusOf()).builds).toEqual([])
  })

  it('does not end a process that has a dead server’s pid', async () => {
    const innocent = idle()
    await mkdir(join(data, 'run'), { recursive: true, mode: 0o700 })
    const record = {
      id: 'a'.repeat(8),
      pid: innocent.pid,
      processStart: '1',
      boot: null,
      version: '1.2.3',
      startedAt: new Date().toISOString(),
      socket: join(data, 'run', 'none.sock'),
      isStopping: false,
    }
    await writeFile(join(data, 'run', `${innocent.pid}-aaaaaaaa.json`), JSON.stringify(record))
    expect((await run('stop', '--timeout', '1')).stdout).toContain(nothing())
    expect(lives(innocent)).toBe(true)
  })

  it('refuses an invalid timeout', async () => {
    const { code, stderr } = await run('stop', '--timeout', '0')
    expect(code).toBe(1)
    expect(stderr).toContain('--timeout')
  })
})
