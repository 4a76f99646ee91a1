import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Bundle, createBundleReader } from '../../../server/src/sources/bundle.ts'
import { bundleOf } from '../../harness/bundle.ts'
import { type Repository, repository } from '../../harness/repository.ts'

let source: Repository
let whole: Buffer
let commit: string
beforeAll(async () => {
  source = await repository({ 'a.txt': '1' })
  commit = await source.commit({ 'b.txt': '2' })
  await source.git('branch', 'other')
  await source.git('tag', '--annotate', '--message', 'x', 'v1')
  whole = await bundleOf(source, 'main')
})
afterAll(() => source[Symbol.asyncDispose]())

/** Reads a bundle in parts of this size, and returns its header's content and the pack. */
function read(bundle: Buffer, size = bundle.length): Bundle & { readonly pack: Buffer } {
  const reader = createBundleReader()
  const parts: Buffer[] = []
  for (let at = 0; at < bundle.length; at += size) parts.push(reader.read(bundle.subarray(at, at + size)))
  return { ...reader.end(), pack: Buffer.concat(parts) }
}

const pack = () => whole.subarray(whole.indexOf('\n\n') + 2)
const withHeader = (...lines: string[]) => Buffer.concat([Buffer.from(`${lines.join('\n')}\n\n`), pack()])
const head = () => `${commit} refs/heads/main`

describe('a bundle', () => {
  it.each([1, 7, 64, 100_000])('is read in parts of %i bytes', (size) => {
    expect(read(whole, size)).toEqual({ commit, branch: 'main', pack: pack() })
  })

  it('of HEAD has no branch', async () => {
    expect(read(await bundleOf(source, 'HEAD'))).toMatchObject({ commit, branch: null })
  })

  it('of version 3 and of names in SHA-256 is read', () => {
    expect(read(withHeader('# v3 git bundle', '@object-format=sha1', head()))).toMatchObject({ commit })
    const long = `${'a'.repeat(64)} HEAD`
    expect(() => read(withHeader('# v3 git bundle', '@object-format=sha256', long))).toThrow('is not complete')
    expect(() => read(withHeader('# v3 git bundle', '@object-format=sha256', head()))).toThrow('without a commit')
  })

  it('keeps the name of its branch', async () => {
    await source.git('branch', '--force', 'feature/größe')
    expect(read(await bundleOf(source, 'feature/größe'))).toMatchObject({ branch: 'feature/größe' })
  })
})

describe('a refused bundle', () => {
  it.each<[string, () => Buffer | Promise<Buffer>, string]>([
    ['nothing', () => Buffer.alloc(0), 'is not a git bundle'],
    ['another file', () => Buffer.from('PK\x03\x04\n\n'), 'is not a git bundle'],
    ['a header without an end', () => Buffer.alloc(100_000, 'a'), 'is not a git bundle'],
    ['several heads', () => bundleOf(source, 'main', 'other'), 'must have exactly one head'],
    ['no head', () => withHeader('# v2 git bundle'), 'must have exactly one head'],
    ['a tag', () => bundleOf(source, 'v1'), 'not a branch'],
    ['missing prerequisites', () => bundleOf(source, 'main~1..main'), 'builds on commits'],
    ['a filter', () => withHeader('# v3 git bundle', '@filter=blob:none', head()), 'capability'],
    ['an option', () => withHeader('# v2 git bundle', `${commit} refs/heads/--upload-pack=x`), 'not a branch'],
    ['a path', () => withHeader('# v2 git bundle', `${commit} refs/heads/../../x`), 'not a branch'],
    ['a short name', () => withHeader('# v2 git bundle', 'abcdef HEAD'), 'without a commit'],
    ['no pack', () => Buffer.from(`# v2 git bundle\n${head()}\n\nPUCK00000000`), 'no pack'],
    ['a truncated pack', () => whole.subarray(0, -1), 'is not complete'],
    ['a truncation before its pack', () => whole.subarray(0, whole.indexOf('\n\n') + 2), 'is not complete'],
    ['bytes behind its end', () => Buffer.concat([whole, Buffer.from('x')]), 'is not complete'],
  ])('is one with %s', async (_, bundle, message) => {
    const given = await bundle()
    expect(() => read(given)).toThrow(message)
    expect(() => read(given, 5)).toThrow(message)
  })

  it('is one of ten million heads, as soon as its first bytes arrive', () => {
    const reader = createBundleReader()
    const lines = `# v2 git bundle\n${`${'a'.repeat(40)} refs/heads/x\n`.repeat(200)}`
    expect(() => reader.read(Buffer.from(lines))).toThrow('exactly one head')
  })

  it('is one with more objects than git may hold', () => {
    const many = Buffer.from(pack())
    many.writeUInt32BE(2_000_001, 8)
    const given = Buffer.concat([Buffer.from(`# v2 git bundle\n${head()}\n\n`), many])
    expect(() => read(given, 50)).toThrow('more than 2000000 objects')
  })
})
