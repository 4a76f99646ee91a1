import { execFile } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { deflateSync } from 'node:zlib'
import { type Repository, repository } from '../../harness/repository.ts'

/*
 * Small repositories that expand to very much memory or disk. They are served unchanged; the tests never unpack them.
 */

interface GitObject {
  readonly type: 'commit' | 'tree' | 'blob'
  readonly content: Buffer
}

interface TreeEntry {
  readonly mode: string
  readonly name: string
  readonly hash: string
}

const kinds = { commit: 1, tree: 2, blob: 3 } as const
const commitOf = (tree: string): GitObject => {
  const by = 'Test <test@example.com> 1700000000 +0000'
  return { type: 'commit', content: Buffer.from(`tree ${tree}\nauthor ${by}\ncommitter ${by}\n\nbomb\n`) }
}
const treeOf = (entries: readonly TreeEntry[]): GitObject => ({
  type: 'tree',
  content: Buffer.concat(
    entries.flatMap(({ mode, name, hash }) => [Buffer.from(`${mode} ${name}\0`), Buffer.from(hash, 'hex')]),
  ),
})
const hashOf = ({ type, content }: GitObject): string =>
  createHash('sha1').update(`${type} ${content.length}\0`).update(content).digest('hex')

/** A blob of zeros, stored in some hundred bytes as a delta that copies from a small blob. */
interface Zeros {
  readonly bytes: number
}
const chunkBytes = 0xffffff

/** A blob that consists of one delta: copies of `base` (gitformat-pack(5)). */
function deltaOfZeros(bytes: number): Buffer {
  const copies = bytes / chunkBytes
  const copy = Buffer.from([0x80 | 0x70, 0xff, 0xff, 0xff])
  return Buffer.concat([variable(chunkBytes), variable(bytes), ...Array.from({ length: copies }, () => copy)])
}

function variable(value: number): Buffer {
  const bytes: number[] = []
  let rest = value
  do {
    const low = rest % 128
    rest = Math.floor(rest / 128)
    bytes.push(rest > 0 ? low | 0x80 : low)
  } while (rest > 0)
  return Buffer.from(bytes)
}

function header(kind: number, size: number): Buffer {
  const first = (kind << 4) | (size & 15)
  const rest = Math.floor(size / 16)
  return rest === 0 ? Buffer.from([first]) : Buffer.concat([Buffer.from([first | 0x80]), variable(rest)])
}

/** Writes objects as one pack and its index, and points `main` to the commit. */
async function packed(
  objects: readonly GitObject[],
  commit: string,
  delta?: { base: string } & Zeros,
): Promise<Repository> {
  const made = await repository({})
  const entries = objects.map(({ type, content }) =>
    Buffer.concat([header(kinds[type], content.length), deflateSync(content)]),
  )
  if (delta !== undefined) {
    const content = deltaOfZeros(delta.bytes)
    entries.push(Buffer.concat([header(7, content.length), Buffer.from(delta.base, 'hex'), deflateSync(content)]))
  }
  const start = Buffer.alloc(12)
  start.write('PACK')
  start.writeUInt32BE(2, 4)
  start.writeUInt32BE(entries.length, 8)
  const body = Buffer.concat([start, ...entries])
  const folder = join(made.path, '.git', 'objects', 'pack')
  await mkdir(folder, { recursive: true })
  const file = join(folder, 'pack-bomb.pack')
  await writeFile(file, Buffer.concat([body, createHash('sha1').update(body).digest()]))
  await promisify(execFile)('git', ['-c', 'core.bigFileThreshold=2g', 'index-pack', file], { cwd: made.path })
  await made.git('update-ref', 'refs/heads/main', commit)
  return made
}

/** A blob of this many zero bytes in a repository of some kilobytes. */
export async function memoryBomb(wanted: number): Promise<Repository> {
  const bytes = Math.floor(wanted / chunkBytes) * chunkBytes
  const base: GitObject = { type: 'blob', content: Buffer.alloc(chunkBytes) }
  const large = createHash('sha1').update(`blob ${bytes}\0`)
  for (let at = 0; at < bytes; at += chunkBytes) large.update(base.content)
  const root = treeOf([
    { mode: '100644', name: 'base', hash: hashOf(base) },
    { mode: '100644', name: 'large', hash: large.digest('hex') },
  ])
  const commit = commitOf(hashOf(root))
  return packed([base, root, commit], hashOf(commit), { base: hashOf(base), bytes })
}

/** A tree of identical folders, so that `width ** depth` files of `bytes` take some kilobytes. */
export async function treeBomb(width: number, depth: number, bytes: number): Promise<Repository> {
  const file: GitObject = { type: 'blob', content: randomBytes(bytes) }
  const objects: GitObject[] = [file]
  let below: Omit<TreeEntry, 'name'> = { mode: '100644', hash: hashOf(file) }
  for (let level = 0; level < depth; level += 1) {
    const { mode, hash } = below
    const names = Array.from({ length: width }, (_, at) => String(at).padStart(5, '0'))
    const tree = treeOf(names.map((name) => ({ mode, name, hash })))
    objects.push(tree)
    below = { mode: '40000', hash: hashOf(tree) }
  }
  const commit = commitOf(below.hash)
  return packed([...objects, commit], hashOf(commit))
}
