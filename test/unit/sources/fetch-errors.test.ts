import { spawnSync } from 'node:child_process'
import { expect, it } from 'vitest'
import { fetchError, isRemoteFailure, refusedObject } from '../../../server/src/sources/fetch-errors.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const source = { url: 'https://git.test/a.git', protocol: 'https' } as Parameters<typeof fetchError>[1]

/** Returns what git says of a commit with these entries in its tree, which are written as they are. */
async function refusal(entries: readonly (readonly [mode: string, name: string])[]) {
  await using directory = await temporaryDirectory()
  const git = (args: readonly string[], input: string | Buffer = '') =>
    spawnSync('git', ['-C', directory.path, '-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { input })
  git(['init', '-q'])
  const blob = Buffer.from(git(['hash-object', '-w', '--stdin'], 'x').stdout.toString().trim(), 'hex')
  const tree = Buffer.concat(entries.flatMap(([mode, name]) => [Buffer.from(`${mode} ${name}\0`), blob]))
  const written = git(['hash-object', '-t', 'tree', '-w', '--stdin', '--literally'], tree).stdout.toString().trim()
  const commit = git(['commit-tree', written, '-m', 'x']).stdout.toString()
  const pack = git(['pack-objects', '--stdout', '--revs'], commit).stdout
  const { status, stderr } = git(['index-pack', '--strict', '--stdin'], pack)
  return { tree: written, result: { code: status ?? 1, stdout: '', stderr: stderr.toString(), exceeded: false } }
}

it.each<[string, [string, string][], string]>([
  ['.git', [['100644', '.git']], 'a file or folder named .git (hasDotgit in git-fsck)'],
  ['..', [['40000', '..']], 'a file or folder named “..” (hasDotdot in git-fsck)'],
  ['a slash', [['100644', 'a/b']], 'a name with a slash in it (fullPathname in git-fsck)'],
  [
    'a name twice',
    [
      ['100644', 'a'],
      ['100644', 'a'],
    ],
    'two files of one name (duplicateEntries in git-fsck)',
  ],
  [
    'names in the wrong order',
    [
      ['100644', 'b'],
      ['100644', 'a'],
    ],
    'files in the wrong order (treeNotSorted in git-fsck)',
  ],
])('a tree with %s is refused with its name and what it has', async (_, entries, words) => {
  const { tree, result } = await refusal(entries)
  const error = refusedObject(result)
  expect(error?.code).toBe('object_refused')
  expect(error?.message).toContain(
    `Git refuses the object ${tree.slice(0, 12)} of the commit or its history: it has ${words}`,
  )
  expect(fetchError(result, source, 'HEAD')).toEqual(error)
  expect(isRemoteFailure(result)).toBe(true)
})

it('a sound tree, and what a remote says, are no refusals', async () => {
  const { result } = await refusal([['100644', 'a']])
  expect(refusedObject(result)).toBeNull()
  const said = `remote: error: object ${'a'.repeat(40)}: hasDotgit: contains '.git'`
  expect(refusedObject({ ...result, stderr: said })).toBeNull()
})
