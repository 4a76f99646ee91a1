import { expect } from 'vitest'
import { attacks } from '../../harness/attacks/attack.ts'
import { bundleOf, uploadBundle } from '../../harness/bundle.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { repository } from '../../harness/repository.ts'

/** An expression with quadratic time in a text's length would take hours for each of these. */
const million = 1_000_000
const slow = {
  'go.mod': '\n'.repeat(million),
  Gemfile: '\n'.repeat(million),
  'requirements.txt': 'flask',
  'app.py': `${'from a import *\n'.repeat(8_000)}def create_app():\n ${'b() '.repeat(30_000)}`,
  'package.json': JSON.stringify({
    scripts: Object.fromEntries(
      ['start', 'a', 'b', 'c', 'd', 'e', 'f'].map((name, at, all) => [name, `npm run ${all[at + 1]};`.repeat(100)]),
    ),
  }),
  '.npmrc': '\n'.repeat(million),
  // Read last, so that nothing is built in the end.
  'Cargo.toml': 'no TOML',
}

attacks({}, (attack) => {
  attack(
    {
      id: 'plan-time',
      topic: 'Limits',
      held: 'Files of a repository that would take hours to read hold up no request, and their deployment alone fails',
    },
    async ({ attacker, server }) => {
      await using source = await repository(slow)
      const { client, project } = attacker
      const { id: source_id } = await uploadBundle(client, project, await bundleOf(source, 'main'))
      let isOver = false
      const deployed = deployAndSettle(client, project, { name: 'slow', source_id }).finally(() => {
        isOver = true
      })
      let longestMs = 0
      while (!isOver) {
        const begun = performance.now()
        expect((await fetch(`${server.url}/readyz`)).status).toBe(200)
        longestMs = Math.max(longestMs, performance.now() - begun)
      }
      expect((await deployed).failure).toMatchObject({ stage: 'plan' })
      expect(longestMs).toBeLessThan(10_000)
    },
  )
})
