import { execFile } from 'node:child_process'
import { lstat, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { volumeFiles, volumesIn } from '../../../server/src/platform/disk/volumes.ts'
import type { Claim } from '../../harness/attacks/claim.ts'
import { type Containers, image, openContainers } from '../../harness/attacks/containers.ts'
import { noDocker } from '../../harness/docker.ts'
import { noNetworks, noReach } from '../../harness/networks.ts'
import { skipped } from '../../harness/ordinary-user.ts'

/*
 * Volumes of hostile images, whose programs run as root in the container. A volume's folder belongs to the server's
 * data directory, and its content to the app.
 */

const why = (await noDocker()) ?? (await noNetworks())
if (why !== null) skipped('attacks by volumes', why)

const attack = (claim: Omit<Claim, 'topic' | 'modes'>, body: () => Promise<void>): void => {
  const meta = {
    attack: { claim: { ...claim, topic: 'Containers' as const, modes: ['root' as const] }, mode: 'root' as const },
  }
  it(claim.held, { meta, timeout: 60_000 }, body)
}

const prepared = 'hostile/volumes:latest'

/** Makes folders and links in an image. `secret` is a folder of the machine. */
const preparation = (
  secret: string,
) => `const { chownSync, chmodSync, mkdirSync, symlinkSync, writeFileSync } = require('node:fs')
mkdirSync('/keep')
writeFileSync('/keep/notes', 'of the image')
chownSync('/keep/notes', 1000, 1001)
chmodSync('/keep/notes', 0o640)
chownSync('/keep', 1000, 1001)
chmodSync('/keep', 0o750)
symlinkSync('${secret}', '/keep/away')
symlinkSync('/keep', '/linked')
symlinkSync('../../../../../../..${secret}', '/outside')
writeFileSync('/file', '')`

describe.skipIf(why !== null)('volumes', () => {
  let containers: Containers
  let secret: string
  const filesOf = (appId: string, name: string) =>
    volumeFiles(volumesIn(join(containers.bench.dockerd.directory, 'apps', appId)), name)

  beforeAll(async () => {
    containers = await openContainers(noReach)
    const { engine, directory } = containers.bench.dockerd
    secret = join(directory, 'secret')
    await mkdir(secret)
    await writeFile(join(secret, 'key'), Buffer.alloc(2_000_000, 1))
    const body = { Image: image, Cmd: ['node', '-e', preparation(secret)], HostConfig: { NetworkMode: 'none' } }
    const { Id } = await engine.call<{ Id: string }>({ method: 'POST', path: ['containers', 'create'], body })
    await engine.call({ method: 'POST', path: ['containers', Id, 'start'] })
    expect(await engine.call({ method: 'POST', path: ['containers', Id, 'wait'] })).toMatchObject({ StatusCode: 0 })
    const changes = ['CMD ["node", "/app/app.js"]']
    const query = { container: Id, repo: 'hostile/volumes', tag: 'latest', changes }
    await engine.call({ method: 'POST', path: ['commit'], query, body: {} })
    await engine.call({ method: 'DELETE', path: ['containers', Id] })
  }, 120_000)
  afterAll(() => containers?.[Symbol.asyncDispose](), 60_000)

  attack(
    {
      id: 'volume-links-of-image',
      held: 'A volume that begins as a link in its image is filled with what the image has there, never with files of the server',
    },
    async () => {
      const volumes = { keep: '/keep', linked: '/linked', outside: '/outside', none: '/srv/none' }
      const { release, run, end } = await containers.start({ from: prepared, volumes })
      for (const name of ['keep', 'linked']) {
        const files = filesOf(release.appId, name)
        expect(await readFile(join(files, 'notes'), 'utf8')).toBe('of the image')
        expect(await lstat(join(files, 'notes'))).toMatchObject({ uid: 1000, gid: 1001, mode: 0o100640 })
        expect(await lstat(files)).toMatchObject({ uid: 1000, gid: 1001, mode: 0o40750 })
        expect((await lstat(join(files, 'away'))).isSymbolicLink()).toBe(true)
      }
      expect(await readdir(filesOf(release.appId, 'outside'))).toEqual([])
      expect(await run(`return require('node:fs').readdirSync('/srv/none')`)).toEqual([])
      await end()
    },
  )

  attack(
    {
      id: 'volume-links',
      held: 'Links in a volume lead the server nowhere: not as it measures, fills or removes it',
    },
    async () => {
      const { release, run, end } = await containers.start({ volumes: { data: '/srv/data' } })
      const { releases } = containers.docker.runtime
      const before = await releases.diskUsage(release, 'shared')
      await run(`const { symlinkSync, mkdirSync } = require('node:fs')
        for (const [at, to] of [['a', ${JSON.stringify(secret)}], ['b', '/'], ['c', '..'], ['d', '../../../../..']]) symlinkSync(to, '/srv/data/' + at)
        mkdirSync('/srv/data/e')
        symlinkSync(${JSON.stringify(secret)}, '/srv/data/e/f')`)
      expect((await releases.diskUsage(release, 'shared')) - before).toBeLessThan(100_000)
      await end()
      await releases.removeApp(release.appId)
      await expect(stat(filesOf(release.appId, 'data'))).rejects.toMatchObject({ code: 'ENOENT' })
      expect((await stat(join(secret, 'key'))).size).toBe(2_000_000)
    },
  )

  attack(
    {
      id: 'volume-setuid',
      held: 'A file of root in a volume gives nobody its rights, in no container and not on the machine, and no device can be made',
    },
    async () => {
      const appId = 'app_setuid'
      const volumes = { data: '/srv/data' }
      const made = await containers.start({ appId, volumes })
      const copied = `const { copyFileSync, chmodSync } = require('node:fs')
        copyFileSync('/bin/id', '/srv/data/id')
        chmodSync('/srv/data/id', 0o4755)`
      await made.run(copied)
      const mknod = `require('node:child_process').spawnSync('perl', ['-e', 'my $path = "/srv/data/disk"; exit(syscall(133, $path, 0060666, 0x0800) == -1 ? 7 : 0)']).status`
      expect(process.arch === 'x64' ? await made.run(`return ${mknod}`) : 7).toBe(7)
      const user = await containers.start({ appId, volumes, changes: ['USER 1000'] })
      const id = `require('node:child_process').execFileSync('/srv/data/id', ['-u']).toString().trim()`
      expect(await user.run(`return ${id}`)).toBe('1000')

      const program = join(filesOf(appId, 'data'), 'id')
      expect((await stat(program)).mode & 0o4000).toBe(0o4000)
      const nobody = { uid: 65_534, gid: 65_534, cwd: '/' }
      await expect(promisify(execFile)(program, [], nobody)).rejects.toMatchObject({ code: 'EACCES' })
      for (const app of [made, user]) await app.end()
    },
  )

  attack(
    { id: 'volume-of-another', held: 'An app sees its own volumes alone, and no folder of the server above them' },
    async () => {
      const volumes = { data: '/srv/data' }
      const [victim, attacker] = await Promise.all([containers.start({ volumes }), containers.start({ volumes })])
      await victim.run(`require('node:fs').writeFileSync('/srv/data/secret', 'of the victim')`)
      const seen = `const { existsSync, readdirSync } = require('node:fs')
        return [readdirSync('/srv/data'), existsSync('/srv/data/../secret'), existsSync(${JSON.stringify(filesOf(victim.release.appId, 'data'))})]`
      expect(await attacker.run(seen)).toEqual([[], false, false])
      for (const app of [victim, attacker]) await app.end()
    },
  )

  it('a volume at the path of a file of the image fails with the reason', async () => {
    const { output } = await containers.startOnly({ from: prepared, volumes: { data: '/file' } })
    expect(await output()).toContain('the image has a file at the path of a volume')
  })
})
