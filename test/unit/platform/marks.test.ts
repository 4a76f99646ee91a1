import { expect, it } from 'vitest'
import { createMarks } from '../../../server/src/platform/marks.ts'

/** Rows with marks, and a way to pause a search or a release. */
function rows(...ids: string[]) {
  const marked = new Set(ids)
  const gates: { search?: Promise<void>; release?: Promise<void> } = {}
  const released: string[] = []
  const marks = createMarks({
    async marked() {
      const found = [...marked]
      await gates.search
      return found
    },
    async release(lost) {
      await gates.release
      for (const id of lost) marked.delete(id)
      released.push(...lost)
    },
  })
  return { marked, gates, released, marks }
}

it('marks without work are released, and marks with work are kept', async () => {
  const { marked, marks } = rows('lost')
  await marks.during('held', async () => {
    marked.add('held')
    await marks.sweep()
    expect([...marked]).toEqual(['held'])
  })
  await marks.sweep()
  expect([...marked]).toEqual([])
})

it('a mark is kept when its work has ended, or begun, during the search', async () => {
  const { marked, gates, released, marks } = rows('ending')
  const search = Promise.withResolvers<void>()
  const work = Promise.withResolvers<void>()
  const ending = marks.during('ending', () => work.promise)
  gates.search = search.promise
  const sweep = marks.sweep()
  await Promise.resolve()
  work.resolve()
  await ending
  await marks.during('begun', async () => void marked.add('begun'))
  search.resolve()
  await sweep
  expect(released).toEqual([])
})

it('work that begins during a mark’s release waits for the end of the release', async () => {
  const { marked, gates, marks } = rows('again')
  const release = Promise.withResolvers<void>()
  gates.release = release.promise
  const sweep = marks.sweep()
  await new Promise(setImmediate)
  const work = marks.during('again', async () => void marked.add('again'))
  release.resolve()
  await Promise.all([sweep, work])
  expect([...marked]).toEqual(['again'])
})

it('a search that fails rejects, and the next one releases', async () => {
  const { gates, released, marks } = rows('lost')
  gates.search = Promise.reject(new Error('away'))
  await expect(marks.sweep()).rejects.toThrow('away')
  delete gates.search
  await marks.sweep()
  expect(released).toEqual(['lost'])
})
