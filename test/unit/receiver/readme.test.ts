import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { temporaryDirectory } from '../../harness/temporary.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const readme = readFileSync(join(root, 'receiver/README.md'), 'utf8')

/** The programs in the README, each with its heading. */
const snippets = readme.split(/^#+ /m).flatMap((section) => {
  const heading = section.slice(0, section.indexOf('\n'))
  return [...section.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = '']) => ({ heading, code }))
})

/** Creates a folder outside of the repository that can import the repository's packages. */
async function project() {
  const directory = await temporaryDirectory()
  await symlink(join(root, 'node_modules'), join(directory.path, 'node_modules'))
  await writeFile(join(directory.path, 'package.json'), '{ "type": "module" }')
  return directory
}

/** The programs that need no database, secret in the environment or open port. */
const runnable = snippets.filter(({ code }) => !/new Pool|process\.env|listen\(/.test(code))

describe('the README', () => {
  it('has a recipe for each of these', () => {
    expect(snippets.map(({ heading }) => heading)).toEqual(
      expect.arrayContaining(['Koa, after koa-body', 'Express', 'Hono, and others based on fetch', 'A queue', 'Tests']),
    )
    expect(runnable.length).toBeGreaterThanOrEqual(8)
  })

  it.each(runnable)('has a program that runs: $heading', async ({ code }) => {
    await using directory = await project()
    const program = join(directory.path, 'snippet.ts')
    await writeFile(program, code)
    const { status, stderr } = spawnSync(process.execPath, [program], { encoding: 'utf8', timeout: 60_000 })
    expect([status, stderr]).toEqual([0, ''])
  })
})
