import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const directory = new URL('../../../action/dist/', import.meta.url)
const read = (name: string) => readFileSync(new URL(name, directory), 'utf8')
const names = readdirSync(directory)
const code = names.filter((name) => name.endsWith('.js'))

test('the bundle contains no path of the machine that built it and nothing of the server’s validation', () => {
  const root = new URL('../../../', import.meta.url).pathname
  for (const name of code) {
    expect(read(name)).not.toContain(root)
    expect(read(name)).not.toMatch(/\bzod\b/)
  }
})

test('GitHub’s API is in a separate file, and the whole code is small', () => {
  expect(code).toHaveLength(2)
  expect(read('index.js')).not.toContain('restEndpointMethods')
  expect(code.reduce((sum, name) => sum + read(name).length, 0)).toBeLessThanOrEqual(1_450_000)
})

test('every package in the bundle has its licence beside it', () => {
  const packages = new Set<string>()
  for (const name of code) {
    // The bundler names each module by its path.
    for (const [, place = ''] of read(name).matchAll(
      /^;?\/\/ (?:CONCATENATED|EXTERNAL) MODULE: (\S*node_modules\S*)/gm,
    )) {
      packages.add(/.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(place)?.[1] ?? place)
    }
  }
  const licences = names
    .filter((name) => name.endsWith('.licenses.txt'))
    .map(read)
    .join('\n')
  const listed = new Set(licences.split('\n'))
  expect([...packages]).toEqual(expect.arrayContaining(['@actions/core', '@octokit/core']))
  expect([...packages].filter((name) => !listed.has(name))).toEqual([])
})
