import { expect, it } from 'vitest'
import { removeLeftGroups } from '../../../server/src/runtimes/process/tool-runner.ts'

const log = () => {
  const lines: object[] = []
  return { lines, logger: { warn: (line: object) => void lines.push(line) } as never }
}

it('a group whose processes cannot be ended is reported and returned for a retry, and the others are removed', async () => {
  const removed: string[] = []
  const groups = {
    async remove(name: string) {
      if (name === 'blocked') throw new Error('the processes 7 of the group blocked survive SIGKILL')
      removed.push(name)
    },
  }
  const { lines, logger } = log()
  const left = ['blocked', 'tool.1', 'tool.2'].map((name) => ({ groups, name }))
  expect(await removeLeftGroups(left, () => undefined, logger)).toEqual([{ groups, name: 'blocked' }])
  expect(removed).toEqual(['tool.1', 'tool.2'])
  expect(lines).toEqual([expect.objectContaining({ group: 'blocked' })])
})

it('a server that no longer leads removes no group', async () => {
  const removed: string[] = []
  const groups = { remove: async (name: string) => void removed.push(name) }
  const fence = () => {
    throw new Error('another server leads')
  }
  await expect(removeLeftGroups([{ groups, name: 'tool.1' }], fence, log().logger)).rejects.toThrow('another server')
  expect(removed).toEqual([])
})
