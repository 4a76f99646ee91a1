import { readFile } from 'node:fs/promises'
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core'
import { publint } from 'publint'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { temporaryDirectory } from '../harness/temporary.ts'
import { filesOf, type Packages, packInto } from './installation.ts'

let directory: Awaited<ReturnType<typeof temporaryDirectory>>
let packages: Packages
beforeAll(async () => {
  directory = await temporaryDirectory()
  packages = await packInto(directory.path)
})
afterAll(() => directory[Symbol.asyncDispose]())

describe.each(['receiver', 'server'] as const)('the package of the %s', (name) => {
  it('has nothing that publint would change', async () => {
    const { buffer } = new Uint8Array(await readFile(packages[name]))
    const { messages } = await publint({ pack: { tarball: buffer }, strict: true })
    expect(messages).toEqual([])
  })

  it('has types that every resolution finds, and that say what is loaded', async () => {
    const analysis = await checkPackage(createPackageFromTarballData(new Uint8Array(await readFile(packages[name]))))
    expect(analysis.types).toEqual({ kind: 'included' })
    expect(analysis).toHaveProperty('problems', [])
  })

  it('has no sources, tests, maps and notes of the compiler', () => {
    const unexpected = /\.map$|\.tsbuildinfo$|(^|[/.])test\b|\/src\/|(?<!\.d)\.[cm]?tsx?$/
    expect(filesOf(packages[name]).filter((file) => unexpected.test(file))).toEqual([])
  })

  it('has its licence and its manual', () => {
    expect(filesOf(packages[name])).toEqual(expect.arrayContaining(['package/LICENSE', 'package/README.md']))
  })
})

it('the server has everything that it starts or serves, and the receiver', () => {
  expect(filesOf(packages.server)).toEqual(
    expect.arrayContaining([
      'package/bin/fairlead.js',
      'package/dist/cli.js',
      'package/dist/dashboard/index.html',
      'package/dist/static-server/index.js',
      'package/dist/runtimes/process/launch/enter.js',
      'package/node_modules/@fairlead/receiver/dist/index.js',
    ]),
  )
})
