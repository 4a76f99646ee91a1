import { unlinkSync, writeFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { detectors } from '../../../server/src/builds/detectors/index.ts'
import { readSourceTree } from '../../../server/src/builds/read-tree.ts'
import { prefix } from '../../harness/temporary.ts'

const names = detectors.flatMap(({ files }) => files)
const read = (root: string) => readSourceTree(root, names)

describe('the source tree', () => {
  let directory: string
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), prefix))
  })
  afterAll(() => rm(directory, { recursive: true, force: true }))

  const write = async (name: string, files: Record<string, string>): Promise<string> => {
    const root = join(directory, name)
    await mkdir(root)
    for (const [path, text] of Object.entries(files)) {
      await mkdir(dirname(join(root, path)), { recursive: true })
      await writeFile(join(root, path), text)
    }
    return root
  }

  test('includes the folder that fairlead.json names, unless it lies outside', async () => {
    const outside = await write('elsewhere', { 'package.json': '{}' })
    const root = await write('monorepo', {
      'fairlead.json': '{"root":"apps/web"}',
      'apps/web/package.json': '{"a":1}',
      'apps/web/public/index.html': '',
      'yarn.lock': `__metadata:\n${' '.repeat(1024 * 1024)}`,
    })
    const files = await read(root)
    expect(
      ['apps/web', 'apps/web/package.json', 'apps/web/public/index.html', 'yarn.lock'].filter(files.has).length,
    ).toBe(4)
    expect(files.read('apps/web/package.json')).toBe('{"a":1}')
    expect(files.read('yarn.lock')).toMatch(/^__metadata:/)

    await writeFile(join(root, 'fairlead.json'), '{"root":"link"}')
    await symlink(outside, join(root, 'link'))
    expect((await read(root)).has('link')).toBe(false)
    await writeFile(join(root, 'fairlead.json'), '{"root":"yarn.lock"}')
    expect((await read(root)).has('yarn.lock/package.json')).toBe(false)
  })

  test('includes the names in its folders, and the texts that detectors read', async () => {
    const root = await write('plain', {
      'package.json': '{}',
      'src/index.html': '',
      'public/index.html': '',
      'dist/a': '',
      'cmd/one/main.go': 'package main',
      'cmd/one/two/main.go': '',
      'a/b/c/d/e': '',
      'node_modules/x/index.js': '',
    })
    const files = await read(root)
    expect(['package.json', 'src', 'public/index.html', 'dist/a', 'cmd/one/two/main.go'].filter(files.has).length).toBe(
      5,
    )
    expect(['dist/index.html', 'Procfile', 'node_modules/x', 'a/b/c/d/e'].filter(files.has)).toEqual([])
    expect(files.list('.')).toEqual(['a', 'cmd', 'dist', 'node_modules', 'package.json', 'public', 'src'])
    expect(files.list('cmd/one')).toEqual(['main.go', 'two'])
    expect(files.list('nowhere')).toEqual([])
    expect(files.read('package.json')).toBe('{}')
    expect(files.read('Procfile')).toBeUndefined()
  })

  test('includes the other folders beside a folder with very many files', async () => {
    const root = await write('pictures', { 'cmd/server/main.go': 'package main', 'b/c/main.go': '' })
    await mkdir(join(root, 'assets'))
    for (let at = 0; at < 20_001; at += 1) writeFileSync(join(root, 'assets', `${at}.png`), '')
    const files = await readSourceTree(root, ['cmd/*/main.go'])
    expect(files.read('cmd/server/main.go')).toBe('package main')
    expect(files.has('assets')).toBe(true)
    expect(files.list('assets')).toEqual([])
    for (let at = 0; at < 15_000; at += 1) unlinkSync(join(root, 'assets', `${at}.png`))
    const fewer = await read(root)
    expect(fewer.list('assets')).toHaveLength(5_001)
    expect(fewer.list('b/c')).toEqual(['main.go'])
  })

  test('has texts without the byte order mark', async () => {
    const root = await write('mark', { 'requirements.txt': '\ufeffflask\n', 'go.sum': '\ufeffx' })
    const files = await readSourceTree(root, ['requirements.txt', 'go.sum'])
    expect([files.read('requirements.txt'), files.read('go.sum')]).toEqual(['flask\n', 'x'])
  })

  test('has the texts of all files that match a pattern, up to a limit', async () => {
    const many = Object.fromEntries(Array.from({ length: 70 }, (_, at) => [`many/${at}/main.go`, String(at)]))
    const root = await write('patterns', { 'cmd/one/main.go': '1', 'cmd/one/two/main.go': '2', ...many })
    const files = await readSourceTree(root, ['cmd/*/main.go', 'many/*/main.go'])
    expect(files.read('cmd/one/main.go')).toBe('1')
    expect(files.read('cmd/one/two/main.go')).toBeUndefined()
    expect(Object.keys(many).filter((path) => files.read(path) !== undefined)).toHaveLength(64)
  })

  test('follows links within the tree, and no link that leads out', async () => {
    const outside = await write('outside', { 'package.json': '{"name":"secret"}', 'index.html': '' })
    const root = await write('linked', { 'config/Procfile': 'web: a' })
    await symlink('config/Procfile', join(root, 'Procfile'))
    await symlink(join(outside, 'package.json'), join(root, 'package.json'))
    await symlink(outside, join(root, 'public'))
    await symlink('nowhere', join(root, '.npmrc'))
    const files = await read(root)
    expect(files.read('Procfile')).toBe('web: a')
    expect(files.read('package.json')).toBeUndefined()
    expect(files.has('public/index.html')).toBe(false)
    expect(files.read('.npmrc')).toBeUndefined()
  })

  test('does not read folders or files that are too large', async () => {
    const root = await write('large', { 'package.json': ' '.repeat(1024 * 1024 + 1), 'Procfile/web': 'a' })
    const files = await read(root)
    expect(files.has('package.json') && files.has('Procfile')).toBe(true)
    expect(files.read('package.json')).toBeUndefined()
    expect(files.read('Procfile')).toBeUndefined()
  })
})
