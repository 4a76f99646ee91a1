import { spawnSync } from 'node:child_process'
import { expect, it } from 'vitest'
import { fetchError, refusedObject } from '../../../server/src/sources/fetch-errors.ts'
import { harmlessFaults } from '../../../server/src/sources/git.ts'
import { namingSubmodule } from '../../../server/src/sources/source-error.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const source = { url: 'https://git.test/a.git', protocol: 'https' } as Parameters<typeof fetchError>[1]

type Entry = readonly [mode: string, name: string, content?: string]

const author = 'a <a@b.test> 1 +0000'

/** Returns git's message on a commit whose tree has these entries, or this text, written unchanged. */
async function refusal(entries: readonly Entry[], textOf?: (tree: string) => string) {
  await using directory = await temporaryDirectory()
  const git = (args: readonly string[], input: string | Buffer = '') =>
    spawnSync('git', ['-C', directory.path, ...args], { input })
  git(['init', '-q'])
  const made: string[] = []
  const write = (type: string, data: string | Buffer): string => {
    const hash = git(['hash-object', '-t', type, '-w', '--stdin', '--literally'], data).stdout.toString().trim()
    made.push(hash)
    return hash
  }
  const tree = (of: readonly Entry[]): string =>
    write('tree', Buffer.concat(of.flatMap((entry) => [Buffer.from(`${entry[0]} ${entry[1]}\0`), target(entry)])))
  const target = ([mode, , content = 'x']: Entry): Buffer => {
    if (mode === '160000') return Buffer.from(content, 'hex')
    return Buffer.from(mode === '40000' ? tree([['100644', 'a']]) : write('blob', content), 'hex')
  }
  const root = tree(entries)
  const commit = write('commit', textOf?.(root) ?? `tree ${root}\nauthor ${author}\ncommitter ${author}\n\nx\n`)
  const pack = git(['pack-objects', '--stdout'], [...new Set(made)].join('\n')).stdout
  const ignored = harmlessFaults.map((fault) => `${fault}=ignore`).join(',')
  const { status, stderr } = git(['index-pack', `--strict=${ignored}`, '--stdin'], pack)
  return { made, commit, result: { code: status ?? 1, stdout: '', stderr: stderr.toString(), exceeded: false } }
}

const submodule = (name: string, rest: string) => `[submodule "${name}"]\n${rest}\nurl = https://a.test/b\n`
const file = (name: string, content = 'x'): Entry => ['100644', name, content]
const gitmodules = (content: string) => [file('.gitmodules', content)]

const dotgit = 'a file or folder named .git, or a name that some file systems take for .git (hasDotgit in git-fsck)'

it.each<[string, readonly Entry[], string]>([
  ['.git', [['40000', '.git']], dotgit],
  ['.GIT', [file('.GIT')], dotgit],
  ['git~1', [file('git~1')], dotgit],
  ['..', [['40000', '..']], 'a file or folder named “..” (hasDotdot in git-fsck)'],
  ['.', [['40000', '.']], 'a file or folder named “.” (hasDot in git-fsck)'],
  ['a slash', [file('a/b')], 'a name with a slash in it (fullPathname in git-fsck)'],
  ['a repeated name', [file('a'), file('a')], 'two files of one name (duplicateEntries in git-fsck)'],
  ['the wrong order', [file('b'), file('a')], 'files in the wrong order (treeNotSorted in git-fsck)'],
  [
    'a hash of zero',
    [['160000', 'a', '0'.repeat(40)]],
    'a file or submodule whose hash is zero (nullSha1 in git-fsck)',
  ],
  [
    'a link as .gitmodules',
    [['120000', '.gitmodules']],
    'a .gitmodules that is a link (gitmodulesSymlink in git-fsck)',
  ],
  ['a folder .gitmodules', [['40000', '.gitmodules']], 'a .gitmodules that is not a file (gitmodulesBlob in git-fsck)'],
  [
    'a submodule outside',
    gitmodules(submodule('../a', 'path = a')),
    'a submodule whose name leads out of its folder (gitmodulesName in git-fsck)',
  ],
  [
    'a submodule as an option',
    gitmodules(submodule('a', 'path = -a')),
    'a submodule whose path looks like an option (gitmodulesPath in git-fsck)',
  ],
  [
    'a submodule’s command',
    // Git quotes this value; it is no message about the remote.
    gitmodules(submodule('a', 'path = a\nupdate = !redirect not our ref malloc')),
    'a submodule that is updated by a command (gitmodulesUpdate in git-fsck)',
  ],
  [
    'long lines',
    [file('.gitattributes', 'a'.repeat(3_000))],
    'a .gitattributes with lines that are too long (gitattributesLineLength in git-fsck)',
  ],
])('a tree with %s is refused by its name, with its fault', async (_, entries, words) => {
  const { made, result } = await refusal(entries)
  const error = refusedObject(result)
  expect(error?.code).toBe('object_refused')
  const [, named] =
    /^Git refuses the object (\w{12}) of the commit or its history: it has /.exec(error?.message ?? '') ?? []
  expect(made.map((hash) => hash.slice(0, 12))).toContain(named)
  expect(error?.problem).toContain(`: it has ${words}.`)
  expect(error?.message).toContain(`git log --all -t --find-object=${named}`)
  expect(fetchError(result, source, 'HEAD')).toEqual(error)
})

it.each<[string, (tree: string) => string, string]>([
  ['no author', (tree) => `tree ${tree}\ncommitter ${author}\n\nx\n`, 'no author (missingAuthor in git-fsck)'],
  [
    'two authors',
    (tree) => `tree ${tree}\nauthor ${author}\nauthor ${author}\ncommitter ${author}\n\nx\n`,
    'several authors (multipleAuthors in git-fsck)',
  ],
  [
    'a zero byte',
    (tree) => `tree ${tree}\nauthor ${author}\ncommitter ${author}\n\nx\0\n`,
    'a zero byte in its message (nulInCommit in git-fsck)',
  ],
  [
    'words for a date',
    (tree) => `tree ${tree}\nauthor a <a@b.test> x +0000\ncommitter ${author}\n\nx\n`,
    'an invalid date (badDate in git-fsck)',
  ],
])('a commit with %s is refused by its name, with its fault', async (_, textOf, words) => {
  const { commit, result } = await refusal([file('a')], textOf)
  expect(refusedObject(result)?.problem).toBe(
    `Git refuses the object ${commit.slice(0, 12)} of the commit or its history: it has ${words}.`,
  )
})

it('a sound tree, harmless faults, and a remote’s messages are no refusals', async () => {
  const { result } = await refusal([
    ['120000', '.gitattributes'],
    ['0100644', 'a'],
  ])
  expect(result.code).toBe(0)
  expect(refusedObject(result)).toBeNull()
  const said = `remote: error: object ${'a'.repeat(40)}: hasDotgit: contains '.git'`
  expect(refusedObject({ ...result, stderr: said })).toBeNull()
})

it('an unknown fault keeps git’s name', () => {
  const stderr = `error: object ${'a'.repeat(64)}: newFault: something\nfatal: fsck error in packed object`
  const error = refusedObject({ code: 128, stdout: '', stderr, exceeded: false })
  expect(error?.problem).toContain('it has something that its check does not allow (newFault in git-fsck)')
  const rethrow = () => namingSubmodule('lib/a')(error)
  expect(rethrow).toThrow('The submodule lib/a cannot be fetched: Git refuses the object aaaaaaaaaaaa')
  expect(rethrow).toThrow('Pin a commit without it.')
})
