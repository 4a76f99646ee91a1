import { execFileSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core'
import { publint } from 'publint'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { temporaryDirectory } from '../../harness/temporary.ts'
import { filesOf, type Packages, packInto, root } from './installation.ts'

let directory: Awaited<ReturnType<typeof temporaryDirectory>>
let packages: Packages
beforeAll(async () => {
  directory = await temporaryDirectory()
  packages = await packInto(directory.path)
})
afterAll(() => directory[Symbol.asyncDispose]())

describe.each(['receiver', 'server', 'cli'] as const)('the package of the %s', (name) => {
  it('has nothing that publint would change', async () => {
    const { buffer } = new Uint8Array(await readFile(packages[name]))
    const { messages } = await publint({ pack: { tarball: buffer }, strict: true })
    expect(messages).toEqual([])
  })

  it('has no sources, tests and compiler notes, and only the programs’ maps', () => {
    const unexpected = /(?<!\/programs\/.*)\.map$|\.tsbuildinfo$|(^|[/.])test\b|\/src\/|(?<!\.d)\.[cm]?tsx?$/
    expect(filesOf(packages[name]).filter((file) => unexpected.test(file))).toEqual([])
  })

  it('has its licence and its manual', () => {
    expect(filesOf(packages[name])).toEqual(expect.arrayContaining(['package/LICENSE', 'package/README.md']))
  })
})

describe.each(['receiver', 'server', 'cli'] as const)('the package of the %s', (name) => {
  it('has types that every resolution finds, and that match the loaded module', async () => {
    const analysis = await checkPackage(createPackageFromTarballData(new Uint8Array(await readFile(packages[name]))))
    expect(analysis.types).toEqual({ kind: 'included' })
    expect(analysis).toHaveProperty('problems', [])
  })
})

it('the command and its client have everything in one file each, and no part of a server', async () => {
  const files = filesOf(packages.cli)
  expect(files).toEqual(expect.arrayContaining(['package/bin/fairlead.js', 'package/dist/licenses.txt']))
  expect(files.filter((file) => file.endsWith('.js'))).toHaveLength(3)
  const { dependencies } = JSON.parse(await readFile(join(root, 'cli/package.json'), 'utf8')) as {
    dependencies?: object
  }
  expect(dependencies).toBeUndefined()
  const bundle = await readFile(join(root, 'cli/dist/index.js'), 'utf8')
  for (const part of ['kysely', '@koa/router', 'graphile', 'argon2', 'bubblewrap']) expect(bundle).not.toContain(part)
  expect(bundle.length).toBeLessThan(1_400_000)
})

it('the server has all of its programs and served files, and the receiver', () => {
  expect(filesOf(packages.server)).toEqual(
    expect.arrayContaining([
      'package/bin/fairlead.js',
      'package/dist/programs/cli.mjs',
      'package/dist/cli.tgz',
      'package/dist/dashboard/index.html',
      'package/dist/programs/gateway.mjs',
      'package/dist/programs/planner.mjs',
      'package/dist/programs/terminal.mjs',
      'package/dist/programs/licenses.txt',
      'package/assets/enter/arm64',
      'package/assets/enter/x64',
      'package/node_modules/@fairlead/receiver/dist/index.js',
    ]),
  )
})

it('the server needs no package that its programs contain', async () => {
  const { dependencies } = JSON.parse(await readFile(join(root, 'server/package.json'), 'utf8')) as {
    dependencies: object
  }
  const contained = await readFile(join(root, 'server/dist/programs/licenses.txt'), 'utf8')
  const names = Object.keys(dependencies).filter((name) => new RegExp(`^${name} \\d`, 'm').test(contained))
  // The typed client of the package also imports it.
  expect(names).toEqual(['zod'])
})

it('the receiver in the package of the server names no dependencies, because npm 9 would treat them as bundled', () => {
  const file = 'package/node_modules/@fairlead/receiver/package.json'
  const manifest = execFileSync('tar', ['-xzOf', packages.server, file], { encoding: 'utf8' })
  expect(JSON.parse(manifest)).not.toHaveProperty('dependencies')
})
