import { Readable } from 'node:stream'
import type { FileStore } from '../../../server/src/features/storage/store.ts'

/** Keeps files in memory. */
export function createMemoryStore(): FileStore {
  const files = new Map<string, { readonly chunks: Uint8Array[]; finished: boolean }>()
  return {
    async create(key) {
      if (files.has(key)) throw new Error(`There is a file ${key} already.`)
      const file = { chunks: [] as Uint8Array[], finished: false }
      files.set(key, file)
      return {
        write: async (bytes) => void file.chunks.push(Uint8Array.from(bytes)),
        async finish() {
          if (files.get(key) !== file) throw new Error(`The file ${key} was removed.`)
          file.finished = true
        },
        abort: async () => undefined,
      }
    },
    async read(key, { start, end }) {
      const file = files.get(key)
      if (file?.finished !== true) throw new Error(`There is no file ${key}.`)
      return Readable.from([Buffer.concat(file.chunks).subarray(start, end + 1)])
    },
    remove: async (key) => void files.delete(key),
  }
}
