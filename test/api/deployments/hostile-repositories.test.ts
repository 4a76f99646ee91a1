import { chmod, mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Repository } from '../../harness/repository.ts'
import { type ServerWithTrap, secretText, serverWithTrap } from '../../harness/server-with-trap.ts'

let given: ServerWithTrap
beforeAll(async () => {
  given = await serverWithTrap()
})
afterAll(() => given?.[Symbol.asyncDispose]())

/** The paths that the test requests from each running app: none may answer with the secret or a system file. */
const paths = ['/', '/secret', '/folder/secret.txt', '/page.html', '/passwd', '/..%2f..%2fsecret.txt', '/.git/config']

const contents: [string, (source: Repository) => Promise<unknown>][] = [
  ['a link to a secret', ({ path }) => link(path, 'secret', given.secret)],
  ['a link to a folder outside', ({ path }) => link(path, 'folder', given.trap)],
  ['a link that climbs out', ({ path }) => link(path, 'passwd', '../../../../../../../../../../etc/passwd')],
  ['a page that is a link', ({ path }) => link(path, 'page.html', '/etc/passwd')],
  ['an index that is a link', ({ path }) => symlink(given.secret, join(path, 'index.html'))],
  ['a manifest that is a link', ({ path }) => link(path, 'package.json', given.secret)],
  ['a Procfile that is a link', ({ path }) => link(path, 'Procfile', given.secret)],
  ['a lock file that is a link', ({ path }) => link(path, 'package-lock.json', given.secret)],
  ['a circular link', ({ path }) => link(path, 'ring', 'ring')],
  ['a manifest that is a folder', (source) => source.commit({ 'package.json/x': '' })],
  ['an endless manifest', (source) => source.commit({ 'package.json': '['.repeat(100_000) })],
  ['an empty manifest', (source) => source.commit({ 'package.json': 'null' })],
  [
    'a manifest with a prototype',
    (source) => source.commit({ 'package.json': '{"__proto__":{"scripts":{"start":"x"}}}' }),
  ],
  ['a manifest with scripts of the wrong kind', (source) => source.commit({ 'package.json': '{"scripts":[1,{}]}' })],
  ['a Procfile of control characters', (source) => source.commit({ Procfile: 'web: \u0000\u001b[2J' })],
  ['a file that is small only in git', (source) => source.commit({ 'index.html': '\n'.repeat(24_000_000) })],
  [
    'hooks',
    async (source) => {
      await mkdir(join(source.path, '.git', 'hooks'))
      for (const hook of ['post-checkout', 'post-merge', 'pre-commit', 'reference-transaction', 'post-index-change']) {
        const file = join(source.path, '.git', 'hooks', hook)
        await writeFile(file, `#!/bin/sh\n[ -e ${given.secret} ] && touch ${given.trace}-$FAIRLEAD_NONE || exit 0\n`)
        if (hook === 'post-checkout') await chmod(file, 0o755)
      }
      await source.commit({ 'index.html': 'hooks' })
    },
  ],
  [
    'filters in attributes',
    (source) =>
      source.commit({
        '.gitattributes': '* filter=evil diff=evil merge=evil\n',
        '.gitconfig': `[filter "evil"]\n\tsmudge = touch ${given.trace}\n`,
        'index.html': 'filters',
      }),
  ],
  [
    'a file monitor in the settings',
    async (source) => {
      await source.commit({ 'index.html': 'monitor' })
      await source.git('config', 'core.sshCommand', `touch ${given.trace}`)
      await source.git('config', 'uploadpack.packObjectsHook', `touch ${given.trace}`)
    },
  ],
  ['a submodule with a command for an address', (source) => submodule(source, `ext::touch ${given.trace}`)],
  ['a submodule with an option for an address', (source) => submodule(source, `--upload-pack=touch ${given.trace}`)],
  ['a submodule at a secret', (source) => submodule(source, `file://${given.trap}`)],
  ['a submodule outside', (source) => submodule(source, './x', '../outside')],
  ['a submodule in .git', (source) => submodule(source, './x', '.git/hooks')],
  [
    'a submodule over a link',
    async (source) => {
      await symlink(given.trap, join(source.path, 'sub'))
      await submodule(source, './x', 'sub/inner')
    },
  ],
  [
    'an update command of a submodule',
    (source) =>
      source.commit({
        '.gitmodules': `[submodule "a"]\n\tpath = a\n\turl = ./a\n\tupdate = !touch ${given.trace}\n`,
        'index.html': 'update',
      }),
  ],
  ['file names with control characters', (source) => source.commit({ 'a\n\u001b[2Jb': 'x', 'index.html': 'names' })],
  ['file names like options', (source) => source.commit({ '--reference=x': 'x', '-rf': 'x', 'index.html': 'options' })],
  ['a folder forty deep', (source) => source.commit({ [`${'d/'.repeat(40)}x`]: 'x', 'index.html': 'deep' })],
]

test.each(contents)('a repository with %s reveals nothing', async (_, make) => {
  const made = await given.deployRepository(make)
  expect(['running', 'failed']).toContain(made.status)
  expect(made.failure?.code).not.toBe('server_error')
  expect(JSON.stringify(made)).not.toContain(secretText)
  if (made.status === 'running') {
    for (const path of paths) {
      const text = await (await fetch(new URL(path, made.url))).text()
      expect(text).not.toMatch(new RegExp(`${secretText}|root:x:0`))
    }
    await given.stop(made.id)
  }
  await given.expectUnharmed()
})

test('a repository that is too large is not built', async () => {
  const { failure } = await given.deployRepository((source) => source.commit({ large: 'x'.repeat(25_000_000) }))
  expect(failure).toMatchObject({ stage: 'fetch', code: 'too_large' })
  expect(failure?.message).toContain('20 MB')
})

/** Adds a link and a page, so that the repository is a static site. */
async function link(path: string, name: string, target: string): Promise<void> {
  await symlink(target, join(path, name))
  if (name !== 'index.html') await writeFile(join(path, 'index.html'), 'a page')
}

/** Adds a submodule by hand, with an address or a path that git itself refuses. */
async function submodule(source: Repository, url: string, path = 'sub'): Promise<void> {
  const head = await source.commit({ 'index.html': 'a page' })
  await source.commit({ '.gitmodules': `[submodule "sub"]\n\tpath = ${path}\n\turl = ${url}\n` })
  await source.git('update-index', '--add', '--cacheinfo', `160000,${head},${path}`).catch(() => undefined)
  await source.git('commit', '--quiet', '--allow-empty', '--message', 'submodule')
}
