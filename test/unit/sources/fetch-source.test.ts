import { chmod, cp, readdir, readFile, rename, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { createOutbound } from '../../../server/src/platform/outbound.ts'
import { createGit } from '../../../server/src/sources/git.ts'
import { createGitCache } from '../../../server/src/sources/git-cache.ts'
import { fetchSource } from '../../../server/src/sources/sources.ts'
import { type Repository, repository } from '../../harness/repository.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'
import { confined } from './confined.ts'

async function fetcher() {
  const directory = await temporaryDirectory()
  const inside = (name: string) => join(directory.path, name)
  const cache = createGitCache({
    directory: inside('caches'),
    user: null,
    caches: { use: (_path, _signal, work) => work() },
  })
  const dependencies = {
    git: await createGit({ directory: inside('git'), confined, environment: {}, sshAgent: null, mostFileBytes: 1e9 }),
    cache,
    outbound: createOutbound({ mode: 'any', allow: [], ports: [] }),
    checkOut: { user: null, mostBytes: 1e9 },
  }
  return {
    ...directory,
    cache,
    /** Returns the folder of the only cached repository. */
    async folder() {
      const [name = ''] = await readdir(inside('caches/proj_1'))
      return inside(`caches/proj_1/${name}`)
    },
    /** Fetches the branch `main`, or another revision, and returns a file. */
    async fetch(
      { url }: Pick<Repository, 'url'>,
      revision: { branch?: string | null; commit?: string } = {},
      file = 'server.js',
    ) {
      await rm(inside('files'), { recursive: true, force: true })
      const request = {
        projectId: 'proj_1',
        gitUrl: url,
        branch: 'main',
        commit: null,
        ...revision,
        credentials: { token: null, sshKey: null },
        hostKeys: { keyOf: async () => null, keep: async () => true },
        files: { everywhere: true, below: [], dataDirectory: inside('git') },
        useAgent: false,
        directory: inside('files'),
      }
      await fetchSource(dependencies, request, AbortSignal.timeout(60_000))
      return readFile(inside(`files/${file}`), 'utf8')
    },
  }
}

const damages: Readonly<Record<string, (path: string, size: number) => Promise<void>>> = {
  'is gone': (path) => rm(path, { recursive: true, force: true }),
  'is empty': (path) => truncate(path, 0),
  'is zeros': (path, size) => writeFile(path, Buffer.alloc(size)),
  'is half': (path, size) => truncate(path, Math.floor(size / 2)),
}

it('finds the default branch among any number of references with the same ending', async () => {
  await using source = await repository({ 'server.js': 'one' })
  const commit = await source.git('rev-parse', 'HEAD')
  await writeFile(
    join(source.path, '.git/packed-refs'),
    Array.from({ length: 2_000 }, (_, at) => `${commit} refs/x/${String(at).padStart(30, '0')}/HEAD\n`).join(''),
  )
  await using first = await fetcher()
  expect(await first.fetch(source, { branch: null })).toBe('one')
  expect(await first.fetch(source, { branch: null, commit })).toBe('one')
  await source.git('branch', 'grün')
  expect(await first.fetch(source, { branch: 'grün', commit })).toBe('one')
})

it('finds submodules in a .gitmodules of any length', async () => {
  await using library = await repository({ 'server.js': 'of the library' })
  const hash = await library.git('rev-parse', 'HEAD')
  const entry = (path: string) => `[submodule "${path}"]\n\tpath = ${path}\n\turl = ${library.url}\n`
  const others = Array.from({ length: 2_000 }, (_, at) => entry(`gone/${at}`)).join('')
  await using source = await repository({ 'server.js': 'one', '.gitmodules': `${entry('lib')}${others}` })
  await source.git('update-index', '--add', '--cacheinfo', `160000,${hash},lib`)
  await source.git('commit', '--quiet', '--message', 'lib')
  await using first = await fetcher()
  expect(await first.fetch(source, {}, 'lib/server.js')).toBe('of the library')
})

it('rebuilds a damaged cache after any damage', async () => {
  await using source = await repository({ 'server.js': 'one', same: 'x'.repeat(1000) })
  await using first = await fetcher()
  await first.fetch(source)
  const folder = await first.folder()
  await cp(folder, `${first.path}/pristine`, { recursive: true })
  await source.commit({ 'server.js': 'two' })
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const cases = entries.flatMap((entry) => {
    const path = join(entry.parentPath, entry.name)
    const kinds = entry.isFile() ? Object.keys(damages) : ['is gone']
    return kinds.map((kind) => ({ path, kind, isFile: entry.isFile() }))
  })
  const locks = ['HEAD', 'config', 'shallow', 'packed-refs', 'refs/fairlead/last'].map((name) =>
    join(folder, `${name}.lock`),
  )
  const fetched = async (where: string) => [where, await first.fetch(source).catch((error: Error) => error.message)]
  for (const { path, kind, isFile } of cases) {
    await rm(folder, { recursive: true })
    await cp(`${first.path}/pristine`, folder, { recursive: true })
    // Packs are read-only.
    await chmod(path, isFile ? 0o600 : 0o700)
    await damages[kind]?.(path, isFile ? (await readFile(path)).length : 0)
    const where = `${path.slice(folder.length)} ${kind}`
    expect(await fetched(where)).toEqual([where, 'two'])
  }
  for (const path of locks) {
    await rm(folder, { recursive: true })
    await cp(`${first.path}/pristine`, folder, { recursive: true })
    await writeFile(path, '')
    expect(await fetched(path)).toEqual([path, 'two'])
  }
  expect(cases.length).toBeGreaterThan(25)
})

it('an unreachable repository leaves the cache unchanged', async () => {
  await using source = await repository({ 'server.js': 'one' })
  await using first = await fetcher()
  await first.fetch(source)
  const files = async () => (await readdir(await first.folder(), { recursive: true })).sort()
  const before = await files()
  await rename(join(source.path, '.git/objects'), join(source.path, '.git/away'))
  await expect(first.fetch(source)).rejects.toMatchObject({ name: 'SourceError' })
  expect(await files()).toEqual(before)
})

it('an incomplete pack is removed', async () => {
  await using first = await fetcher()
  const remote = { url: 'https://git.test/a.git', format: 'sha1' } as const
  const half = (path: string) => writeFile(join(path, 'objects/pack/tmp_pack_x'), '')
  const use = (work: (path: string) => Promise<unknown>) =>
    first.cache.use('proj_1', remote, AbortSignal.timeout(60_000), ({ path }) => work(path))
  const failed = use(async (path) => {
    await half(path)
    throw new Error('too large')
  })
  await expect(failed).rejects.toThrow('too large')
  const packs = async () => readdir(join(await first.folder(), 'objects/pack'))
  expect(await packs()).toEqual([])
  await half(await first.folder())
  let used: readonly string[] | undefined
  await use(async () => {
    used = await packs()
  })
  expect(used).toEqual([])
})
