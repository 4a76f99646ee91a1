import { expect } from 'vitest'
import { attacks } from './attack.ts'

attacks({}, (attack) => {
  attack(
    { id: 'other-project', topic: 'Files', held: 'A key reads no project of another account' },
    async ({ attacker, victim }) => {
      await expect(attacker.client.projects.get({ params: { project_id: victim.project } })).rejects.toMatchObject({
        code: 'not_found',
      })
    },
  )
})
