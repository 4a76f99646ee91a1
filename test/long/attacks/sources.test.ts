import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import { expect } from 'vitest'
import { sizeOf } from '../../../server/src/platform/disk/tree-size.ts'
import { attacks } from '../../harness/attacks/attack.ts'
import type { Tenant } from '../../harness/attacks/server.ts'
import { bundleOf, uploadBundle } from '../../harness/bundle.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { nodeApp, type Repository, repository } from '../../harness/repository.ts'
import { memoryBomb, treeBomb } from './bombs.ts'
import { watchGit } from './watch-git.ts'

/** Returns a bundle with the unchanged pack; `git bundle create` would unpack it. */
async function bundleOfBomb({ path, git }: Repository): Promise<Buffer> {
  const pack = await readFile(join(path, '.git', 'objects', 'pack', 'pack-bomb.pack'))
  return Buffer.concat([Buffer.from(`# v2 git bundle\n${await git('rev-parse', 'main')} refs/heads/main\n\n`), pack])
}

async function deploy({ client, project }: Tenant, bundle: Uint8Array) {
  const { id: source_id } = await uploadBundle(client, project, bundle)
  return deployAndSettle(client, project, { name: 'attack', source_id })
}

attacks({}, (attack) => {
  attack(
    { id: 'source-heads', topic: 'Limits', held: 'A bundle with ten million heads is refused by its first bytes' },
    async ({ attacker, server }) => {
      const path = `/v1/projects/${attacker.project}/sources`
      const sent = request({ port: new URL(server.url).port, method: 'POST', path, agent: false })
      sent.setHeader('Authorization', `Bearer ${attacker.key}`)
      sent.setHeader('Content-Type', 'application/x-git-bundle')
      sent.on('error', () => undefined)
      const answered = once(sent, 'response') as Promise<[IncomingMessage]>
      let isAnswered = false
      void answered.then(() => {
        isAnswered = true
      })
      const heads = `${'a'.repeat(40)} refs/heads/x\n`.repeat(10_000)
      sent.write('# v2 git bundle\n')
      let written = 0
      for (; written < 1_000 && !isAnswered; written += 1) {
        if (!sent.write(heads)) await Promise.race([once(sent, 'drain'), answered])
      }
      const [response] = await answered
      expect(await json(response)).toMatchObject({ error: { message: expect.stringContaining('exactly one head') } })
      expect(written).toBeLessThan(200)
      sent.destroy()
    },
  )

  attack(
    { id: 'source-memory', topic: 'Limits', held: 'An uploaded source cannot make git take the memory of the machine' },
    async ({ attacker }) => {
      await using bomb = await memoryBomb(1_600_000_000)
      const bundle = await bundleOfBomb(bomb)
      let failure: unknown
      const peak = await watchGit(async () => {
        failure = (await deploy(attacker, bundle)).failure
      })
      expect(failure).toMatchObject({ stage: 'fetch', code: 'too_large' })
      expect(peak.memoryBytes).toBeLessThan(1_000_000_000)
    },
  )

  attack(
    { id: 'source-disk', topic: 'Limits', held: 'An uploaded source cannot make git fill the disk' },
    async ({ attacker, data }) => {
      for (const made of [await treeBomb(64, 2, 1_000_000), await treeBomb(100, 6, 1)]) {
        await using bomb = made
        expect((await deploy(attacker, await bundleOfBomb(bomb))).failure).toMatchObject({ code: 'too_large' })
        expect(await sizeOf([join(data, 'apps')], 200_000_000)).toBeLessThan(100_000_000)
      }
    },
  )

  attack(
    {
      id: 'source-submodule',
      topic: 'Files',
      held: 'An uploaded source names no repository of the machine as its submodule, and none relative to itself',
    },
    async ({ operator }) => {
      await using secret = await repository({ 'a.txt': 'private' })
      const commit = await secret.git('rev-parse', 'HEAD')
      for (const url of [secret.url, secret.path, `../../../..${secret.path}`, './a']) {
        await using source = await repository({
          ...nodeApp('x'),
          '.gitmodules': `[submodule "a"]\n\tpath = a\n\turl = ${url}\n`,
        })
        await source.git('update-index', '--add', '--cacheinfo', `160000,${commit},a`)
        await source.git('commit', '--quiet', '--message', 'submodule')
        const { failure } = await deploy(operator, await bundleOf(source, 'main'))
        expect(failure, url).toMatchObject({ stage: 'fetch', code: 'submodule_refused' })
      }
    },
  )

  attack(
    { id: 'source-tenant', topic: 'Files', held: 'A source of another account is deployed by nobody else' },
    async ({ attacker, victim }) => {
      await using source = await repository(nodeApp('private'))
      const { id } = await uploadBundle(victim.client, victim.project, await bundleOf(source, 'main'))
      const told = async (source_id: string) => {
        const params = { project_id: attacker.project }
        const create = attacker.client.deployments.create({ params, body: { name: 'a', source_id } })
        return create.catch(({ code, message, details }) => ({ code, message, details }))
      }
      const missing = await told('src_01h455vb4pex5vsknk084sn02q')
      expect(missing).toMatchObject({ code: 'invalid_request', details: { field: 'source_id' } })
      expect(await told(id)).toEqual(missing)
      const foreign = uploadBundle(attacker.client, victim.project, await bundleOf(source, 'main'))
      await expect(foreign).rejects.toMatchObject({ code: 'not_found' })
    },
  )
})
