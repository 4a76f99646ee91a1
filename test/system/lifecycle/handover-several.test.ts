import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import type { VersionDescription } from '../../../server/src/platform/versions/versions.ts'
import { command, fairlead } from '../../harness/process.ts'
import { type ServerProcesses, serverProcesses } from '../../harness/server-processes.ts'
import { packedVersion } from '../../harness/versions.ts'

const version = '9.0.0'
const own = JSON.parse((await fairlead(['self-check'])).stdout) as VersionDescription
const repository = fileURLToPath(new URL('../../../', import.meta.url))

/** Packs this version under another number. Its program first runs `before`. */
async function otherVersion(directory: string, before: string): Promise<string> {
  const copy = join(directory, 'copy')
  for (const part of ['bin', 'dist', 'assets']) {
    await cp(join(repository, 'server', part), join(copy, part), { recursive: true })
  }
  const manifest = JSON.parse(await readFile(join(repository, 'server/package.json'), 'utf8')) as object
  await writeFile(join(copy, 'package.json'), JSON.stringify({ ...manifest, version }))
  await symlink(join(repository, 'node_modules'), join(copy, 'node_modules'))
  const program = `${before}\nvoid import(${JSON.stringify(join(copy, 'bin/fairlead.js'))})\n`
  return packedVersion(directory, { ...own, version }, { program })
}

/** Returns the versions of the servers, and whether everything runs that should. */
async function running(servers: ServerProcesses) {
  const { code, stdout } = await servers.command('status', '--json')
  const status = JSON.parse(stdout) as { servers: { version: string }[] }
  return { code, versions: status.servers.map((server) => server.version) }
}

it('when one of several servers cannot be replaced, the replaced ones return to the previous version', async () => {
  await using servers = await serverProcesses()
  await using _first = await servers.start()
  await using second = await servers.start()
  const port = new URL(second.url).port
  const breaks = `if (process.argv[2] === 'serve' && process.env.FAIRLEAD_PORT === '${port}') throw new Error('upside down')`
  const update = await servers.command('update', await otherVersion(servers.directory, breaks))
  expect(update.stderr).toContain(`Version ${version} does not take over`)
  expect(update.stderr).toContain(`Version ${own.version} goes on`)
  expect(update.code).toBe(1)
  await expect
    .poll(() => running(servers), { timeout: 30_000 })
    .toEqual({
      code: 0,
      versions: [own.version, own.version],
    })
  expect((await servers.command('stop')).code).toBe(0)
})

it('Ctrl+C of an update that waits for the new server leaves the links and the server with the same version', async () => {
  await using servers = await serverProcesses()
  await using server = await servers.start()
  const waits = "if (process.argv[2] === 'serve') await new Promise((done) => setTimeout(done, 3000))"
  const archive = await otherVersion(servers.directory, waits)
  const update = spawn(process.execPath, [command, 'update', archive, '--data-dir', servers.data], {
    env: { ...process.env, ...servers.environment },
    stdio: 'ignore',
  })
  const ended = once(update, 'exit')
  await server.waitForLog(({ msg }) => msg === 'handing over to a new server')
  update.kill('SIGINT')
  expect(await ended).toEqual([0, null])
  await expect.poll(() => running(servers), { timeout: 30_000 }).toEqual({ code: 0, versions: [version] })
  const next = JSON.parse(await readFile(join(servers.data, 'versions/current/package.json'), 'utf8')) as {
    version: string
  }
  expect(next.version).toBe(version)
  expect((await servers.command('stop')).code).toBe(0)
})
