import { execFileSync } from 'node:child_process'
import { cp, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect } from 'vitest'
import { sizeOf } from '../../../server/src/platform/disk/tree-size.ts'
import { attacks } from '../../harness/attacks/attack.ts'
import type { HostileServer, Tenant } from '../../harness/attacks/server.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { gitServer } from '../../harness/git-server.ts'
import { ordinaryUser } from '../../harness/ordinary-user.ts'
import { nodeApp, type Repository, repository } from '../../harness/repository.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'
import { memoryBomb, treeBomb } from './bombs.ts'
import { watchGit } from './watch-git.ts'

const deploy = ({ client, project }: Tenant, git_url: string) =>
  deployAndSettle(client, project, { name: 'attack', git_url })

/** Makes a bare repository whose tip needs a missing object, so that git searches for it everywhere. */
async function bareWithoutTree(path: string): Promise<void> {
  await using source = await repository(nodeApp('x'))
  await cp(join(source.path, '.git'), path, { recursive: true })
  const tree = await source.git('rev-parse', 'HEAD^{tree}')
  await rm(join(path, 'objects', tree.slice(0, 2), tree.slice(2)))
  await mkdir(join(path, 'objects', 'info'), { recursive: true })
}

/** Gives files to the user of the server, as if a tenant's app had written them. */
const giveAway = (mode: HostileServer['mode'], path: string): void => {
  if (mode === 'root' || ordinaryUser === null) return
  execFileSync('chown', ['-R', '-h', `${ordinaryUser.uid}:${ordinaryUser.gid}`, path])
}

/** Deploys in every way that a key could try; returns all messages. */
async function told(tenant: Tenant, url: string): Promise<string> {
  return JSON.stringify(
    await deploy(tenant, url).catch((error: unknown) => ({ ...(error as object), text: String(error) })),
  )
}

const secretOf = async ({ data }: HostileServer) => (await readFile(join(data, 'secret.key'), 'utf8')).trim()
const logOf = ({ server }: HostileServer) => JSON.stringify(server.log)

attacks({}, (attack) => {
  attack(
    { id: 'file-source', topic: 'Files', held: 'A key of a tenant deploys no repository of the machine' },
    async ({ attacker, mode }) => {
      await using source = await repository(nodeApp('x'))
      giveAway(mode, source.path)
      await expect(deploy(attacker, source.url)).rejects.toMatchObject({
        code: 'invalid_request',
        details: { field: 'git_url' },
      })
    },
  )

  attack(
    {
      id: 'file-alternates',
      topic: 'Files',
      held: "Git's messages about a repository show nothing of the server's files",
    },
    async (server) => {
      await using folder = await temporaryDirectory()
      const secret = await secretOf(server)
      for (const [name, parent] of [
        ['inside', server.data],
        ['outside', folder.path],
      ] as const) {
        const path = join(parent, `${name}.git`)
        await bareWithoutTree(path)
        await symlink(join(server.data, 'secret.key'), join(path, 'objects', 'info', 'alternates'))
        giveAway(server.mode, path)
        for (const tenant of [server.attacker, server.operator]) {
          expect(await told(tenant, pathToFileURL(path).href)).not.toContain(secret)
        }
      }
      expect(logOf(server)).not.toContain(secret)
    },
  )

  attack(
    { id: 'file-packed-refs', topic: 'Files', held: 'A link in a repository leads git to no file of the machine' },
    async (server) => {
      await using folder = await temporaryDirectory()
      const canary = `canary-${crypto.randomUUID()}`
      await writeFile(join(folder.path, 'private'), `${canary}\n`, { mode: 0o644 })
      for (const link of ['packed-refs', 'config', 'objects/info/alternates', 'shallow', 'HEAD']) {
        const path = join(folder.path, `${link.replaceAll('/', '-')}.git`)
        await bareWithoutTree(path)
        await rm(join(path, link), { force: true })
        await symlink(join(folder.path, 'private'), join(path, link))
        giveAway(server.mode, folder.path)
        for (const tenant of [server.attacker, server.operator]) {
          expect(await told(tenant, pathToFileURL(path).href), link).not.toContain(canary)
        }
      }
      expect(logOf(server)).not.toContain(canary)
    },
  )

  attack(
    { id: 'file-inside', topic: 'Files', held: 'No repository inside the data directory is deployed, by any path' },
    async (server) => {
      const path = join(server.data, 'apps', 'hidden.git')
      await using source = await repository(nodeApp('x'))
      await cp(join(source.path, '.git'), path, { recursive: true })
      giveAway(server.mode, path)
      await using folder = await temporaryDirectory()
      const link = join(folder.path, 'link.git')
      await symlink(path, link)
      for (const each of [path, link]) {
        expect(await told(server.operator, pathToFileURL(each).href)).not.toContain('"running"')
      }
      await rm(path, { recursive: true })
    },
  )

  attack(
    {
      id: 'file-submodule',
      topic: 'Files',
      held: 'A repository of the network names no repository of the machine as its submodule',
    },
    async ({ operator, mode }) => {
      await using secret = await repository({ 'a.txt': 'private' })
      giveAway(mode, secret.path)
      await using source = await repository({
        ...nodeApp('x'),
        '.gitmodules': `[submodule "a"]\n\tpath = a\n\turl = ${secret.url}\n`,
      })
      await addSubmodule(source, 'a', await secret.git('-c', 'safe.directory=*', 'rev-parse', 'HEAD'))
      await using remote = await gitServer(source)
      expect((await deploy(operator, remote.url)).failure).toMatchObject({ code: 'submodule_refused' })
    },
  )

  attack(
    { id: 'git-memory', topic: 'Limits', held: 'A repository cannot make git take the memory of the machine' },
    async ({ attacker }) => {
      await using source = await memoryBomb(1_600_000_000)
      await using remote = await gitServer(source)
      let failure: unknown
      const peak = await watchGit(async () => {
        failure = (await deploy(attacker, remote.url)).failure
      })
      expect(failure).toMatchObject({ stage: 'fetch', code: 'too_large' })
      expect(peak.memoryBytes).toBeLessThan(1_000_000_000)
    },
  )

  attack({ id: 'git-disk', topic: 'Limits', held: 'A repository cannot make git fill the disk' }, async (server) => {
    // 4 GB in 4,096 files, and then more files than anything could hold.
    for (const bomb of [await treeBomb(64, 2, 1_000_000), await treeBomb(100, 6, 1)]) {
      await using source = bomb
      await using remote = await gitServer(source)
      const { id } = await server.attacker.client.deployments.create({
        params: { project_id: server.attacker.project },
        body: { name: 'attack', git_url: remote.url },
      })
      let most = 0
      for (;;) {
        const params = { project_id: server.attacker.project, id }
        const { status, failure } = await server.attacker.client.deployments.get({ params })
        if (status !== 'building') {
          expect(failure).toMatchObject({ stage: 'fetch', code: 'too_large' })
          break
        }
        most = Math.max(most, await sizeOf([join(server.data, 'apps')], 200_000_000))
      }
      expect(most).toBeLessThan(100_000_000)
    }
  })
})

async function addSubmodule(source: Repository, path: string, commit: string): Promise<void> {
  await source.git('update-index', '--add', '--cacheinfo', `160000,${commit},${path}`)
  await source.git('commit', '--quiet', '--message', 'submodule')
}
