import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { beyondCaps, createCaches, type FoundCache } from '../../../server/src/platform/disk/caches.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const cache = (path: string, bytes: number, usedAt: number, inUse = false): FoundCache => ({
  path,
  bytes,
  usedAt,
  inUse,
})

describe('removal beyond the caps', () => {
  const caps = { mostEachBytes: 10, mostAllBytes: 20 }

  it.each([
    ['empty, while all is within them', [cache('a', 10, 1), cache('b', 10, 2)], []],
    ['every cache that is too large by itself', [cache('a', 11, 2), cache('b', 9, 1)], ['a']],
    [
      'the least recently used cache, when all are too large together',
      [cache('a', 8, 3), cache('b', 8, 1), cache('c', 8, 2)],
      ['b'],
    ],
    [
      'as many caches as necessary',
      [cache('a', 10, 3), cache('b', 10, 4), cache('c', 3, 1), cache('d', 3, 2)],
      ['c', 'd'],
    ],
    ['empty for caches in use', [cache('a', 30, 1, true), cache('b', 5, 2)], ['b']],
  ])('is %s', (_, found, expected) => {
    expect(beyondCaps(found, caps)).toEqual(expected)
  })

  it('removes as little as possible, and leaves no more than the caps allow', () => {
    const caches = fc.array(fc.record({ bytes: fc.nat(15), usedAt: fc.nat(5), inUse: fc.boolean() }))
    fc.assert(
      fc.property(caches, (given) => {
        const found = given.map((each, n) => ({ ...each, path: String(n) }))
        const gone = new Set(beyondCaps(found, caps))
        const left = found.filter(({ path }) => !gone.has(path))
        const free = left.filter(({ inUse }) => !inUse)
        const bytes = left.reduce((sum, each) => sum + each.bytes, 0)
        expect(found.filter(({ path, inUse }) => inUse && gone.has(path))).toEqual([])
        expect(free.filter((each) => each.bytes > caps.mostEachBytes)).toEqual([])
        expect(bytes <= caps.mostAllBytes || free.length === 0).toBe(true)
        // A folder within the cap is removed only when all older folders are removed.
        const dropped = found.filter((each) => gone.has(each.path) && each.bytes <= caps.mostEachBytes)
        for (const each of dropped) for (const other of free) expect(each.usedAt).toBeLessThanOrEqual(other.usedAt)
      }),
    )
  })
})

describe('caches', () => {
  afterEach(() => void vi.useRealTimers())

  const signal = new AbortController().signal

  it('stay while they are in use', async () => {
    await using directory = await temporaryDirectory()
    const path = join(directory.path, 'a')
    const caches = createCaches({ mostEachBytes: 100_000, mostAllBytes: 1e9, list: async () => [path] })
    await caches.use(path, signal, async () => {
      await mkdir(path)
      await writeFile(join(path, 'large'), Buffer.alloc(200_000))
      expect(caches.isInUse(path)).toBe(true)
      await caches.trim()
      expect(await readdir(path)).toEqual(['large'])
    })
    expect(caches.isInUse(path)).toBe(false)
    await caches.trim()
    expect(await readdir(directory.path)).toEqual([])
  })

  it('have one user at a time, and none during their removal', async () => {
    await using directory = await temporaryDirectory()
    const path = join(directory.path, 'a')
    const caches = createCaches({ mostEachBytes: 1, mostAllBytes: 1, list: async () => [path] })
    let users = 0
    const use = () =>
      caches.use(path, signal, async () => {
        users += 1
        expect(users).toBe(1)
        await mkdir(path, { recursive: true })
        await writeFile(join(path, 'file'), 'x'.repeat(10_000))
        await new Promise((done) => setImmediate(done))
        expect(await readdir(path)).toEqual(['file'])
        users -= 1
      })
    await Promise.all(Array.from({ length: 20 }, (_, n) => (n % 2 === 0 ? use() : caches.trim())))
    await caches.trim()
    expect(await readdir(directory.path)).toEqual([])
  })

  it('that were used longest ago are removed first, even by a server that has just started', async () => {
    await using directory = await temporaryDirectory()
    const paths = ['a', 'b', 'c'].map((name) => join(directory.path, name))
    const list = async () => paths
    const before = createCaches({ mostEachBytes: 1e9, mostAllBytes: 1e9, list })
    for (const path of paths) {
      await mkdir(path)
      await writeFile(join(path, 'file'), Buffer.alloc(100_000))
    }
    vi.useFakeTimers({ toFake: ['Date'] })
    for (const path of [...paths].reverse()) {
      await before.use(path, signal, async () => undefined)
      vi.advanceTimersByTime(10)
    }
    await createCaches({ mostEachBytes: 1e9, mostAllBytes: 250_000, list }).trim()
    expect((await readdir(directory.path)).sort()).toEqual(['a', 'b'])
  })
})
