import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from '@fairlead/server/client'
import { familyOf, readStat, ticksPerSecond } from '../../server/src/platform/processes.ts'
import { deployAndSettle } from '../harness/deployments.ts'
import { buildEnvironment } from '../harness/environment.ts'
import { freePort, portSettings } from '../harness/ports.ts'
import { command } from '../harness/process.ts'
import { repository } from '../harness/repository.ts'
import { temporaryDirectory } from '../harness/temporary.ts'
import type { Bench, Row } from './row.ts'

const full = {
  /** Each figure is the minimum of this many: other work of the machine only adds time. */
  rounds: 3,
  /** Runs of a command that are measured together: Linux reports CPU time in hundredths of a second. */
  runsEach: 5,
  apps: 10,
  /** Time after the last deployment until its follow-up work is over. */
  settlingSeconds: 10,
}
const brief: typeof full = { rounds: 1, runsEach: 1, apps: 1, settlingSeconds: 0 }
const commandMs = 60_000
/** The aims apply to a machine on which `node -e 0` takes this long. */
const nodeSeconds = 0.04

/** Measures the CPU time and the memory that commands and a server need until they are ready. */
export const benchStart: Bench = async ({ signal, short }) => {
  const length = short ? brief : full
  const { rounds, apps, settlingSeconds } = length
  await using directory = await temporaryDirectory()
  const data = (name: string) => join(directory.path, name)
  const started: { readonly cpu: number; readonly megabytes: number }[] = []
  const first: number[] = []
  for (let round = 0; round < rounds; round += 1) {
    await using server = await startServer(data(`new ${round}`), signal)
    first.push(server.cpu)
  }
  for (let round = 1; round < rounds; round += 1) {
    await using server = await startServer(data('new 0'), signal)
    started.push(server)
  }
  await using server = await startServer(data('new 0'), signal)
  started.push(server)
  const node = cpuOf(['-e', '0'], length)
  const help = cpuOf([command, '--help'], length)
  const keys = cpuOf([command, 'keys', 'create', '--name', 'bench', '--data-dir', data('new 0')], length)
  const idle = await megabytesWithApps(server, data('new 0'), { ...length, signal })
  const cpu = (name: string, seconds: number, aim: number): Row => ({
    name: `start: CPU of ${name}`,
    measured: `${seconds.toFixed(3)} s, ${(seconds / node).toFixed(1)} × node -e 0`,
    aim: { text: `≤ ${aim} s, ${aim / nodeSeconds} ×`, met: seconds / node <= aim / nodeSeconds },
  })
  const memory = (name: string, megabytes: number, aim: number): Row => ({
    name: `start: memory of ${name}`,
    measured: `${megabytes.toFixed(0)} MB`,
    aim: { text: `≤ ${aim} MB`, met: megabytes <= aim },
  })
  return {
    rows: [
      { name: 'start: CPU of node -e 0', measured: `${node.toFixed(3)} s` },
      cpu('fairlead --help', help, 0.12),
      cpu('fairlead keys create', keys, 0.4),
      cpu('fairlead serve', Math.min(...started.map((each) => each.cpu)), 0.9),
      cpu('fairlead serve, new folder', Math.min(...first), 2),
      memory('a server that is ready', Math.min(...started.map((each) => each.megabytes)), 110),
      memory(`server and gateway, ${apps} static apps`, idle, 180),
    ],
    notes: [
      `Start: CPU time of the processes and all that they have started, PostgreSQL among it, until the command ends or the server is ready; the least of ${rounds} measurements. The aims count for a machine on which node -e 0 takes ${nodeSeconds} s, and are compared as multiples of it. keys create runs beside a server. Memory is the resident part of the processes, ${settlingSeconds} s after the last deployment for the apps.`,
    ],
  }
}

/** Returns the CPU time of a Node command, in seconds. */
function cpuOf(args: readonly string[], { rounds, runsEach }: typeof full): number {
  const samples = Array.from({ length: rounds }, () => {
    const before = ticksOfEndedChildren()
    for (let run = 0; run < runsEach; run += 1) {
      const { status, stderr } = spawnSync(process.execPath, args, { timeout: commandMs, encoding: 'utf8' })
      if (status !== 0) throw new Error(`${args.join(' ')} has ended with ${status}: ${stderr}`)
    }
    return (ticksOfEndedChildren() - before) / ticksPerSecond / runsEach
  })
  return Math.min(...samples)
}

/** Fields 16 and 17 of proc(5). Field 3 follows the name. */
function ticksOfEndedChildren(): number {
  const text = readFileSync('/proc/self/stat', 'utf8')
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return Number(fields[13]) + Number(fields[14])
}

interface Started extends AsyncDisposable {
  readonly pid: number
  readonly url: string
  /** At the time when it was ready. */
  readonly cpu: number
  readonly megabytes: number
}

async function startServer(dataDirectory: string, signal: AbortSignal): Promise<Started> {
  const port = String(await freePort())
  const child = spawn(process.execPath, ['--max-semi-space-size=2', command, 'serve', '--data-dir', dataDirectory], {
    env: {
      PATH: process.env['PATH'],
      FAIRLEAD_PORT: port,
      FAIRLEAD_STABLE_TIME: '0.1',
      ...portSettings,
      FAIRLEAD_BUILD_ENV: JSON.stringify(buildEnvironment()),
    },
    stdio: ['ignore', 'pipe', 'ignore'],
    signal,
    killSignal: 'SIGKILL',
  })
  // An abort. The callers that check the signal report its reason.
  child.on('error', () => undefined)
  const ended = new Promise((done) => child.once('close', done))
  const stop = async () => {
    child.kill('SIGTERM')
    await ended
    // Also removes what a killed server has left behind.
    spawnSync(process.execPath, [command, 'stop', '--data-dir', dataDirectory], { timeout: commandMs })
  }
  try {
    await untilReady(child)
    signal.throwIfAborted()
    const pid = child.pid ?? 0
    const family = await familyOf(pid)
    const ticks = family.reduce((sum, member) => sum + (readStat(member)?.cpuTicks ?? 0), 0)
    return {
      pid,
      url: `http://127.0.0.1:${port}`,
      cpu: ticks / ticksPerSecond,
      megabytes: megabytesOf(pid),
      [Symbol.asyncDispose]: stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Rejects when the server ends, which the deadline ensures. */
async function untilReady(child: ChildProcess): Promise<void> {
  if (child.stdout === null) throw new Error('the server has no output')
  for await (const line of createInterface({ input: child.stdout })) {
    if (!line.includes('"msg":"ready"')) continue
    // It must not wait for a reader.
    child.stdout.resume()
    return
  }
  throw new Error('the server has ended before it was ready')
}

async function megabytesWithApps(
  { pid, url }: Started,
  dataDirectory: string,
  { apps, settlingSeconds, signal }: typeof full & { readonly signal: AbortSignal },
): Promise<number> {
  const args = [command, 'keys', 'create', '--name', 'apps', '--data-dir', dataDirectory]
  const { stdout } = spawnSync(process.execPath, args, { timeout: commandMs, encoding: 'utf8' })
  const client = createClient({ baseUrl: `${url}/v1`, apiKey: stdout.trim() })
  const project = await client.projects.create({ body: { name: 'Start', plan: 'enterprise' } })
  await using source = await repository({ 'index.html': 'idle' })
  for (let app = 0; app < apps; app += 1) {
    signal.throwIfAborted()
    const made = await deployAndSettle(client, project.id, { name: `app ${app}`, git_url: source.url })
    if (made.status !== 'running') throw new Error(`an app is ${made.status}: ${made.failure?.message}`)
  }
  await sleep(settlingSeconds * 1000, undefined, { signal })
  const gateway = JSON.parse(readFileSync(join(dataDirectory, 'gateway', 'gateway.json'), 'utf8')) as { pid: number }
  return megabytesOf(pid) + megabytesOf(gateway.pid)
}

function megabytesOf(pid: number): number {
  const [, kilobytes] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return (Number(kilobytes) * 1024) / 1e6
}
