import { tmpdir } from 'node:os'
import { expect } from 'vitest'
import { attacks } from '../../harness/attacks/attack.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { nodeApp, repository } from '../../harness/repository.ts'

/** Six uids: two for PostgreSQL, and one for git. */
const settings = { FAIRLEAD_UIDS: '61000-61005', FAIRLEAD_FILE_SOURCES: tmpdir() }

attacks({ settings }, (attack) => {
  attack(
    {
      id: 'used-up-uids',
      topic: 'Limits',
      held: 'Apps that are created and deleted again do not use up the users that apps run as',
      // All apps of an ordinary user run as that user.
      modes: ['root'],
    },
    async ({ attacker: { client } }) => {
      await using source = await repository(nodeApp('fine'))
      for (let at = 0; at < 5; at += 1) {
        const { id } = await client.projects.create({ body: { name: 'short-lived' } })
        const made = await deployAndSettle(client, id, { name: 'a', git_url: source.url })
        expect(made.failure, `app ${at}`).toBeNull()
        await client.projects.delete({ params: { project_id: id } })
        await expect
          .poll(async () => (await client.projects.list()).projects.some((project) => project.id === id), {
            timeout: 60_000,
          })
          .toBe(false)
      }
    },
  )
})
