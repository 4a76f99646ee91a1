import { spawnSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { temporaryDirectory } from '../harness/temporary.ts'

/*
 * Follows each page that shows TypeScript: installs exactly the packages that the page names, and compiles its code as
 * it says.
 */

const root = fileURLToPath(new URL('../..', import.meta.url))
const modules = join(root, 'node_modules')

/** `unit/extending` shows that this page's code is part of tests, which are compiled. */
const ofTests = 'docs/extending.md'

const pages = globSync(['*.md', '{action,cli,demo,receiver,server}/*.md', 'docs/**/*.md'], { cwd: root })
  .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }))
  .map(({ path, text }) => ({ path, text, snippets: blocks(text, 'ts|tsx|typescript') }))
  .filter(({ path, snippets }) => path !== ofTests && snippets.length > 0)

function blocks(text: string, languages: string): string[] {
  return [...text.matchAll(new RegExp(`^\`\`\`(?:${languages})\\n(.*?)^\`\`\``, 'gms'))].map(([, code = '']) => code)
}

/**
 * Returns the packages that a page tells its readers to install, in commands and in the sentence about further
 * packages.
 */
function packagesOf(text: string): string[] {
  const installed = blocks(text, 'sh').flatMap((commands) =>
    [...commands.matchAll(/^npm install (?!--global)(.+)$/gm)].flatMap(([, given = '']) => given.split(' ')),
  )
  const [further = ''] = /need further packages that they import: .*?\./s.exec(text) ?? []
  return [
    ...installed.filter((each) => !each.startsWith('--')),
    ...[...further.matchAll(/`([^`]+)`/g)].map(([, each = '']) => each),
  ]
}

/** Our packages are named by their files. */
function nameOf(given: string): string {
  const [, ours = given.endsWith('/cli.tgz') ? 'cli' : undefined] = /fairlead-(\w+)-\S*\.tgz$/.exec(given) ?? []
  return ours === undefined ? given : `@fairlead/${ours}`
}

/** Creates a project with exactly these packages. */
async function project(packages: readonly string[], snippets: readonly string[]) {
  const directory = await temporaryDirectory()
  await writeFile(join(directory.path, 'package.json'), '{ "type": "module" }')
  for (const name of new Set(packages.map(nameOf))) {
    const path = join(directory.path, 'node_modules', name)
    await mkdir(dirname(path), { recursive: true })
    await symlink(join(modules, name), path)
  }
  const files = snippets.map((_, index) => `snippet-${index}.ts`)
  for (const [index, code] of snippets.entries()) await writeFile(join(directory.path, `snippet-${index}.ts`), code)
  return {
    ...directory,
    files,
    tsc(args: readonly string[]) {
      const tsc = join(directory.path, 'node_modules/typescript/bin/tsc')
      const { status, stdout, stderr } = spawnSync(process.execPath, [tsc, ...args], {
        cwd: directory.path,
        encoding: 'utf8',
      })
      return [status, `${stdout}${stderr}`]
    },
  }
}

it('finds the pages', () => {
  expect(pages.map(({ path }) => path).sort()).toEqual(
    expect.arrayContaining(['README.md', 'cli/README.md', 'receiver/README.md', 'server/README.md']),
  )
})

describe.each(pages)('$path', ({ text, snippets }) => {
  // One by one, as readers do: some packages declare the same names differently.
  it.each(snippets)('has code that compiles with the command of the page: %#', async (code) => {
    const [, options = ''] = /`npx tsc ([^`]+?)\s+app\.ts`/.exec(text) ?? []
    await using directory = await project(packagesOf(text), [code])
    expect(directory.tsc([...options.split(/\s+/), '--noEmit', ...directory.files])).toEqual([0, ''])
  })

  it('has code that compiles with tsc --init’s file, with the types of Node', async () => {
    await using directory = await project(packagesOf(text), snippets)
    directory.tsc(['--init'])
    const file = join(directory.path, 'tsconfig.json')
    const made = await readFile(file, 'utf8')
    expect(made).toContain('"types": []')
    await writeFile(file, made.replace('"types": []', '"types": ["node"]'))
    expect(directory.tsc(['--noEmit'])).toEqual([0, ''])
  })
})
