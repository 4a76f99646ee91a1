import { buffer } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import { createDiskStore } from '../../../server/src/features/storage/disk-store.ts'
import type { FileStore } from '../../../server/src/features/storage/store.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'
import { createMemoryStore } from './memory-store.ts'

/** Makes a store with some files. Add your own store as one more entry here. */
const stores: readonly (readonly [
  name: string,
  open: () => Promise<AsyncDisposable & { readonly store: FileStore }>,
])[] = [
  [
    'disk',
    async () => {
      const directory = await temporaryDirectory()
      const store = await createDiskStore({ directory: directory.path })
      return { store, [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose]() }
    },
  ],
  ['memory', async () => ({ store: createMemoryStore(), [Symbol.asyncDispose]: async () => undefined })],
]

const key = 'file_01h455vb4pex5vsknk084sn02q'

async function put(store: FileStore, text: string): Promise<void> {
  const writer = await store.create(key)
  await writer.write(Buffer.from(text))
  await writer.finish()
}

const readText = async (store: FileStore, start: number, end: number) =>
  (await buffer(await store.read(key, { start, end }))).toString()

describe.each(stores)('the store on %s', (_, open) => {
  it('reads any range of a finished file, its ends included', async () => {
    await using opened = await open()
    await put(opened.store, '0123456789')
    expect(await readText(opened.store, 0, 9)).toBe('0123456789')
    expect(await readText(opened.store, 3, 3)).toBe('3')
    expect(await readText(opened.store, 8, 9)).toBe('89')
    expect(await readText(opened.store, 4, 3)).toBe('')
  })

  it('keeps the bytes in write order, and does not keep the caller’s buffer', async () => {
    await using opened = await open()
    const writer = await opened.store.create(key)
    const reused = Buffer.alloc(100_000)
    for (const letter of ['a', 'b', 'c']) await writer.write(reused.fill(letter))
    await writer.finish()
    expect(await readText(opened.store, 99_999, 100_000)).toBe('ab')
    expect(await readText(opened.store, 299_999, 299_999)).toBe('c')
  })

  it('has an empty file, but rejects for a missing file, even when no bytes are requested', async () => {
    await using opened = await open()
    await expect(opened.store.read(key, { start: 0, end: -1 })).rejects.toThrow()
    await put(opened.store, '')
    expect(await readText(opened.store, 0, -1)).toBe('')
  })

  it('hides a file before it is finished, and after its abort and removal', async () => {
    await using opened = await open()
    const writer = await opened.store.create(key)
    await writer.write(Buffer.from('half'))
    await expect(opened.store.read(key, { start: 0, end: 3 })).rejects.toThrow()
    await writer.abort()
    await expect(opened.store.read(key, { start: 0, end: 3 })).rejects.toThrow()
    await opened.store.remove(key)
    await put(opened.store, 'whole')
    expect(await readText(opened.store, 0, 4)).toBe('whole')
  })

  it('never restores a file that was removed during a write', async () => {
    await using opened = await open()
    const writer = await opened.store.create(key)
    await opened.store.remove(key)
    await expect(writer.finish()).rejects.toThrow()
    await expect(opened.store.read(key, { start: 0, end: -1 })).rejects.toThrow()
  })

  it('removes a file, even twice', async () => {
    await using opened = await open()
    await put(opened.store, 'x')
    await opened.store.remove(key)
    await opened.store.remove(key)
    await expect(opened.store.read(key, { start: 0, end: 0 })).rejects.toThrow()
  })
})
