import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, mkdir, rm, statfs } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { createClient } from '@fairlead/server/client'
import { describe, expect } from 'vitest'
import { attacks } from '../../harness/attacks/attack.ts'
import type { HostileServer, Tenant } from '../../harness/attacks/server.ts'
import { deployAndSettle, settled } from '../../harness/deployments.ts'
import { gitServer } from '../../harness/git-server.ts'
import { skipped } from '../../harness/ordinary-user.ts'
import { nodeApp, repository } from '../../harness/repository.ts'
import { isRoot, temporaryDirectory } from '../../harness/temporary.ts'

const megabyte = 1_000_000

/** An app that writes to its HOME until the disk is full, and after each restart, once `/write` was requested. */
const writer = {
  ...nodeApp('here'),
  'server.js': `const { appendFileSync } = require('node:fs')
    const write = () => { try { appendFileSync(process.env.HOME + '/large', Buffer.alloc(2e6)) } catch {} setTimeout(write, 20) }
    require('node:http').createServer((request, response) => { if (request.url === '/write') write(); response.end('here') })
      .listen(process.env.PORT)\n`,
}

const noRoot = isRoot && existsSync('/dev/loop-control') ? null : 'only root can mount a disk'
if (noRoot !== null) skipped('a full disk', noRoot)

/** Mounts a disk of a gigabyte and a half from a file. */
async function smallDisk() {
  await using cleanup = new AsyncDisposableStack()
  const { path } = cleanup.use(await temporaryDirectory())
  const image = join(path, 'image')
  const mounted = join(path, 'disk')
  await mkdir(mounted)
  execFileSync('fallocate', ['--length', '1500M', image])
  execFileSync('mkfs.ext4', ['-q', '-m', '0', image])
  execFileSync('mount', ['-o', 'loop', image, mounted])
  cleanup.defer(() => void execFileSync('umount', ['--lazy', mounted]))
  await chmod(mounted, 0o711)
  const owned = cleanup.move()
  return { path: mounted, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

const free = async (path: string) => {
  const { bavail, bsize } = await statfs(path)
  return bavail * bsize
}

async function readiness({ server }: HostileServer) {
  const response = await fetch(`${server.url}/readyz`)
  const { reason } = (await response.json()) as { reason?: string }
  return { status: response.status, reason }
}

async function deploy({ client, project }: Tenant, name: string, files: Readonly<Record<string, string>>) {
  await using source = await repository(files)
  await using git = await gitServer(source)
  // Awaited here, or the repository would be gone before the fetch.
  return await deployAndSettle(client, project, { name, git_url: git.url })
}

/** Writes a file on the server's disk, of this many megabytes, or until no block of the disk is free. */
function fill(file: string, megabytes?: number): void {
  const count = megabytes === undefined ? [] : [`count=${megabytes * 256}`]
  spawnSync('dd', ['if=/dev/zero', `of=${file}`, 'bs=4K', ...count])
}

// Between the reserve and a full disk the app writes for some seconds: enough for a check on a slow machine.
const settings = { FAIRLEAD_RESERVE_MB: '500' }
describe.skipIf(noRoot !== null)('a full disk', () => {
  attacks({ settings, folder: smallDisk }, (attack) => {
    attack(
      {
        id: 'full-disk',
        topic: 'Limits',
        held: 'An app that fills the disk is stopped before others are harmed, and starts again when there is room',
      },
      async (server) => {
        const { attacker, victim, data } = server
        const client = createClient({ baseUrl: `${server.server.url}/v1`, apiKey: attacker.key, retries: 0 })
        const bystander = await deploy(victim, 'other', nodeApp('other'))
        const { id, url } = await deploy(attacker, 'writer', writer)
        await fetch(`${url}/write`)
        const params = { project_id: attacker.project, id }
        const state = async () => (await client.deployments.get({ params })).status
        await expect.poll(state, { timeout: 60_000, interval: 250 }).toBe('failed')
        expect((await client.deployments.get({ params })).failure).toMatchObject({ stage: 'run', code: 'no_space' })
        expect(await free(data)).toBeGreaterThan(64 * megabyte)
        expect(await readiness(server)).toMatchObject({ status: 200 })
        expect(await (await fetch(bystander.url)).text()).toBe('other')
        await expect(client.deployments.restart({ params })).rejects.toMatchObject({ code: 'server_error' })
        execFileSync('find', [data, '-name', 'large', '-delete'])
        await client.deployments.restart({ params })
        expect((await settled(client, attacker.project, id)).status).toBe('running')
      },
    )

    attack(
      {
        id: 'full-disk-start',
        topic: 'Recovery',
        held: 'On a full disk the server starts, says so, refuses changes, and goes on when there is room',
      },
      async (server) => {
        const { data } = server
        const filler = join(dirname(data), 'filler')
        const ballast = join(data, 'ballast')
        await expect.poll(() => existsSync(ballast), { timeout: 90_000 }).toBe(true)
        await server.stop()
        fill(filler)
        expect(await free(data)).toBeLessThan(megabyte)
        await server.restart()
        expect(existsSync(ballast)).toBe(false)
        fill(`${filler}.2`, 80)
        expect(await readiness(server)).toEqual({ status: 503, reason: 'the disk is full' })
        const { key } = server.operator
        const client = createClient({ baseUrl: `${server.server.url}/v1`, apiKey: key, retries: 0 })
        expect((await client.projects.list()).total).toBe(1)
        await expect(client.projects.create({ body: { name: 'q' } })).rejects.toMatchObject({
          code: 'server_error',
          message: expect.stringContaining('The disk of the server is full'),
        })
        await rm(filler)
        await rm(`${filler}.2`)
        await expect.poll(() => readiness(server)).toMatchObject({ status: 200 })
        expect(await client.projects.create({ body: { name: 'q' } })).toMatchObject({ name: 'q' })
      },
    )
  })
})
