import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { VersionDescription } from '../../../server/src/platform/versions/versions.ts'
import { fairlead, type ServerProcess } from '../../harness/process.ts'
import { type ServerProcesses, serverProcesses } from '../../harness/server-processes.ts'
import { packedVersion } from '../../harness/versions.ts'

const own = JSON.parse((await fairlead(['self-check'])).stdout) as VersionDescription

/** Returns a program that passes the check of an update, and runs `serve` to take over. */
const programWith = (description: VersionDescription, serve: string) =>
  `if (process.argv[2] === 'self-check') console.log(${JSON.stringify(JSON.stringify(description))})\nelse { ${serve} }\n`

describe('a new version whose start', () => {
  let servers: ServerProcesses
  let server: ServerProcess
  let patch = 0
  beforeAll(async () => {
    servers = await serverProcesses({ FAIRLEAD_HANDOVER_TIMEOUT: '10' })
    server = await servers.start()
  })
  afterAll(async () => {
    await server?.[Symbol.asyncDispose]()
    await servers?.[Symbol.asyncDispose]()
  })

  it.each<[string, RegExp, string]>([
    ['throws', /ended before it was ready \(exit status 1\)/, "throw new Error('upside down')"],
    [
      'exits',
      /ended before it was ready \(exit status 3\)\.\nopening the database/,
      "process.send({ type: 'log', line: 'opening the database' }, () => process.exit(3))",
    ],
    [
      'hangs',
      /did not become ready within 10 s\.\nopening the database/,
      "process.send({ type: 'log', line: 'opening the database' }); setInterval(() => undefined, 1000)",
    ],
    [
      'fails with a message',
      /cannot start: no room left/,
      "process.send({ type: 'failed', reason: 'no room left' }); setInterval(() => undefined, 1000)",
    ],
  ])('%s leaves the previous server running, which says why', async (_, reason, serve) => {
    const description = { ...own, version: `9.0.${patch++}` }
    const archive = await packedVersion(servers.directory, description, { program: programWith(description, serve) })
    const update = await servers.command('update', archive)
    expect(update).toMatchObject({ code: 1, stderr: expect.stringMatching(reason) })
    const failed = ({ msg, err }: Record<string, unknown>) =>
      msg === 'the handover failed; this server continues' && reason.test(JSON.stringify(err).replaceAll('\\n', '\n'))
    await server.waitForLog(failed)
    expect((await fetch(`${server.url}/readyz`)).status).toBe(200)
  })
})

it('the previous server ends only when the service manager knows the next one', async () => {
  await using servers = await serverProcesses()
  const heard = join(servers.directory, 'heard')
  // Delays the notification of the main process, and then records the live servers.
  const program = `#!/bin/sh
case "$*" in
  *MAINPID=*) sleep 2; for pid in $(cat '${heard}' 2>/dev/null); do kill -0 "$pid" && echo "$pid" >> '${heard}.alive'; done
    echo "$*" | sed 's/.*MAINPID=\\([0-9]*\\).*/\\1/' >> '${heard}' ;;
esac
`
  await writeFile(join(servers.directory, 'systemd-notify'), program, { mode: 0o755 })
  const PATH = `${servers.directory}:${process.env['PATH']}`
  await using server = await servers.start({ PATH, NOTIFY_SOCKET: '/run/systemd/notify' })
  await expect.poll(() => readFile(heard, 'utf8').catch(() => ''), { timeout: 60_000 }).toBe(`${server.child.pid}\n`)
  expect(await servers.command('reload')).toMatchObject({ code: 0 })
  expect(await servers.command('stop')).toMatchObject({ code: 0 })
  expect((await readFile(heard, 'utf8')).trim().split('\n')).toHaveLength(2)
  expect(await readFile(`${heard}.alive`, 'utf8')).toBe(`${server.child.pid}\n`)
})
