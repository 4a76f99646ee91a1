import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm, symlink } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test, vi } from 'vitest'
import {
  familyOf,
  findProcesses,
  isRunning,
  killAll,
  listeningPorts,
  startTimeOf,
  userOf,
} from '../../../server/src/platform/processes.ts'
import { prefix } from '../../harness/temporary.ts'

const started: ChildProcess[] = []
afterEach(() => {
  for (const child of started.splice(0)) child.kill('SIGKILL')
})

/** Starts a program with this source text and waits for its first output. */
async function run(program: string, options: { env?: Record<string, string>; file?: string; detached?: boolean } = {}) {
  const child = spawn(options.file ?? process.execPath, ['-e', program], {
    env: options.env ?? {},
    detached: options.detached ?? false,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  started.push(child)
  const [output] = (await once(child.stdout, 'data')) as [Buffer]
  const pid = child.pid ?? 0
  return { child, pid, output: output.toString(), identity: { pid, startTime: startTimeOf(pid) ?? '' } }
}

const STAY = 'setInterval(() => {}, 60000); console.log(process.pid);'
const STUBBORN = `process.on("SIGTERM", () => {}); ${STAY}`
const marker = () => ({ name: 'TEST_MARK', value: randomUUID() })
const marked = ({ name, value }: { name: string; value: string }) => ({ env: { [name]: value } })

/** Returns a program that starts another program as a daemon: in a new session, through a process that ends at once. */
const daemonise = (program: string, env = 'process.env') => {
  const spawnDetached = (text: string, environment: string) =>
    `require("child_process").spawn(process.execPath, ["-e", ${JSON.stringify(text)}], { detached: true, stdio: "inherit", env: ${environment} }).unref();`
  return spawnDetached(spawnDetached(program, env), 'process.env')
}

describe('a process', () => {
  test('keeps its start time, which identifies it', async () => {
    const { pid, identity, child } = await run(STAY)
    expect(startTimeOf(pid)).toBe(identity.startTime)
    expect(Number(identity.startTime)).toBeGreaterThanOrEqual(Number(startTimeOf(process.pid)))
    expect(isRunning(identity)).toBe(true)
    expect(isRunning({ pid, startTime: '1' })).toBe(false)
    expect(userOf(pid)).toBe(process.getuid?.())
    child.kill('SIGKILL')
    await once(child, 'exit')
    expect(isRunning(identity)).toBe(false)
    expect(startTimeOf(pid)).toBeNull()
    expect(userOf(pid)).toBeNull()
  })

  test('is parsed correctly when its name holds spaces and parentheses', async () => {
    const directory = await mkdtemp(join(tmpdir(), prefix))
    await symlink(process.execPath, join(directory, 'a) R 1 (b'))
    const { identity } = await run(`process.title = ") S 2 ("; ${STAY}`, { file: join(directory, 'a) R 1 (b') })
    expect(Number(identity.startTime)).toBeGreaterThanOrEqual(Number(startTimeOf(process.pid)))
    await rm(directory, { recursive: true })
  })

  test('that never existed is no error', async () => {
    expect(startTimeOf(2 ** 30)).toBeNull()
    expect(await listeningPorts([2 ** 30])).toEqual([])
    expect(await familyOf(2 ** 30)).toEqual([2 ** 30])
    await killAll({ leaders: [{ pid: 0, startTime: '' }] }, { graceMs: 0 })
  })
})

describe('a marker', () => {
  test('finds exactly the processes that carry the marker', async () => {
    const mark = marker()
    const { pid } = await run(STAY, marked(mark))
    await run(STAY, {
      env: { [mark.name]: `${mark.value}x`, [`X${mark.name}`]: mark.value, OTHER: `${mark.name}=${mark.value}` },
    })
    expect(await findProcesses(mark)).toEqual([pid])
  })

  test('finds a daemon whose parents have ended', async () => {
    const mark = marker()
    const { child, output } = await run(daemonise(STAY), marked(mark))
    if (child.exitCode === null) await once(child, 'exit')
    await vi.waitFor(async () => expect(await findProcesses(mark)).toEqual([Number(output)]), 30_000)
    await killAll({ marker: mark }, { graceMs: 0 })
    expect(await findProcesses(mark)).toEqual([])
  })
})

describe('listening ports', () => {
  test('belong to the given processes, with their addresses', async () => {
    const servers = await Promise.all(
      ['127.0.0.1', '0.0.0.0', '::', '::1'].map(async (host) => {
        const server = createServer().listen({ port: 0, host })
        await once(server, 'listening')
        return server
      }),
    )
    const expected = servers.map((server) => {
      const address = server.address()
      if (typeof address !== 'object' || address === null) throw new Error('no address')
      return { port: address.port, address: address.address }
    })
    const { pid, output } = await run(
      'const s = require("net").createServer().listen(0, "127.0.0.1", () => console.log(s.address().port))',
    )
    const held = (await listeningPorts([process.pid])).map(({ port, address }) => ({ port, address }))
    for (const each of expected) expect(held).toContainEqual(each)
    expect(held).not.toContainEqual({ port: Number(output), address: '127.0.0.1' })
    expect(await listeningPorts([pid])).toMatchObject([
      { port: Number(output), address: '127.0.0.1', uid: process.getuid?.() },
    ])
    for (const server of servers) server.close()
  })
})

describe('killAll', () => {
  test('returns at once on an abort, and the remaining processes survive', async () => {
    const { child, identity } = await run(`process.on('SIGTERM', () => console.log('told')); ${STAY}`)
    const told = once(child.stdout, 'data')
    const controller = new AbortController()
    const ending = killAll({ leaders: [identity] }, { graceMs: 2 ** 30, signal: controller.signal })
    await told
    controller.abort()
    await ending
    expect(isRunning(identity)).toBe(true)
    await killAll({ leaders: [identity] }, { graceMs: 0 })
  })

  test('lets a process end by itself, and sends it one SIGTERM', async () => {
    const { identity, child } = await run(
      `let asked = 0; process.on("SIGTERM", () => { asked += 1; setTimeout(() => process.exit(asked), 50) }); ${STAY}`,
    )
    const [exit] = await Promise.all([once(child, 'exit'), killAll({ leaders: [identity] }, { graceMs: 30_000 })])
    expect(exit).toEqual([1, null])
  })

  test('kills a process that ignores SIGTERM after the grace period', async () => {
    const { identity, child } = await run(STUBBORN)
    const [exit] = await Promise.all([once(child, 'exit'), killAll({ leaders: [identity] }, { graceMs: 100 })])
    expect(exit).toEqual([null, 'SIGKILL'])
  })

  test('kills children that hide the marker, in and out of the session', async () => {
    const mark = marker()
    const hide = (detached: boolean) =>
      `require("child_process").spawn(process.execPath, ["-e", ${JSON.stringify(STUBBORN)}], { detached: ${detached}, stdio: "inherit", env: {} });`
    const { child, pid } = await run(`${hide(true)} ${hide(false)} setInterval(() => {}, 60000)`, {
      ...marked(mark),
      detached: true,
    })
    const family = await vi.waitFor(async () => {
      const members = await familyOf(pid)
      expect(members.length).toBe(3)
      return members
    }, 30_000)
    const identities = family.map((member) => ({ pid: member, startTime: startTimeOf(member) ?? '' }))
    await Promise.all([once(child, 'exit'), killAll({ marker: mark }, { graceMs: 100 })])
    expect(identities.filter(isRunning)).toEqual([])
  })

  test('ends processes that restart themselves', async () => {
    const mark = marker()
    // The program ends by itself after a thousand generations, in case killAll fails.
    const program =
      'const n = Number(process.env.N ?? 0); console.log(n);' +
      'for (let i = 0; n < 1000 && i < 2 - Math.min(n, 1); i++) require("child_process").spawn(process.execPath, ["-e", process.env.P], { detached: true, stdio: "ignore", env: { ...process.env, N: n + 1 } }).unref();'
    await run(program, { env: { [mark.name]: mark.value, P: program } })
    await killAll({ marker: mark }, { graceMs: 0 })
    expect(await findProcesses(mark)).toEqual([])
  })

  test('spares an unrelated process with the same pid', async () => {
    const { identity, child } = await run(STAY, { detached: true })
    await killAll({ leaders: [{ ...identity, startTime: '1' }] }, { graceMs: 0 })
    expect(isRunning(identity)).toBe(true)
    expect(child.exitCode).toBeNull()
  })

  test('spares a session with an unmarked leader, even when one of its processes is marked', async () => {
    const mark = marker()
    const guest = `require("child_process").spawn(process.execPath, ["-e", ${JSON.stringify(STAY)}], { stdio: "inherit", env: ${JSON.stringify(marked(mark).env)} }); setInterval(() => {}, 60000)`
    const { identity } = await run(guest, { detached: true })
    await vi.waitFor(async () => expect((await findProcesses(mark)).length).toBe(1), 30_000)
    await killAll({ marker: mark }, { graceMs: 0 })
    expect(await findProcesses(mark)).toEqual([])
    expect(isRunning(identity)).toBe(true)
  })
})

test('inherited descriptors are closed before children could inherit them', async () => {
  const source = new URL('../../../server/src/platform/processes/stat.ts', import.meta.url).href
  // The shell leaves 40 open. Node itself hides only the first sixteen from its children.
  const listed =
    "require('node:child_process').execFileSync('ls', ['/proc/self/fd'], { encoding: 'utf8' }).split('\\n')"
  const program = `import(process.argv[1]).then(({ closeInheritedDescriptors }) => {
    const before = ${listed}
    closeInheritedDescriptors()
    console.log(JSON.stringify([before.includes('40'), (${listed}).includes('40')]))
  })`
  const shell = ['-c', 'exec 40</dev/null; exec "$@"', 'sh', process.execPath, '--no-warnings', '-e', program, source]
  const child = spawn('bash', shell, { stdio: ['ignore', 'pipe', 'inherit'] })
  started.push(child)
  const [output] = (await once(child.stdout, 'data')) as [Buffer]
  expect(JSON.parse(output.toString())).toEqual([true, false])
})

test('a process without free descriptors does not take unreadable processes for ended', () => {
  const of = (path: string) => new URL(`../../../server/src/${path}`, import.meta.url).href
  const script = `
import { openSync, writeFileSync } from 'node:fs'
import { processesOf } from '${of('platform/cgroups/groups.ts')}'
import { listeningSockets } from '${of('platform/processes.ts')}'
import { isServed } from '${of('runtimes/process/site-record.ts')}'
const seen = []
try { for (;;) openSync('/', 'r') } catch {}
const layout = { folders: new Map([['pids', '/proc']]) }
for (const read of [
  () => listeningSockets(),
  () => isServed({ id: 'a', record: '/etc/hostname', folder: '/' }),
  () => processesOf(layout, 'self'),
]) seen.push(await read().then(() => 'read', (error) => error.code))
process.stdout.write(seen.join())`
  const argv = ['-c', 'ulimit -n 64; exec "$0" --input-type=module -e "$1"', process.execPath, script]
  const { stdout } = spawnSync('/bin/sh', argv, { encoding: 'utf8' })
  expect(stdout).toBe('EMFILE,EMFILE,EMFILE')
})
