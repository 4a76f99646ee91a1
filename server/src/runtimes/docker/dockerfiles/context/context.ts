import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { PassThrough, Readable } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { startProcess } from '../../../../platform/processes.ts'
import type { BuildContext } from './dockerfile.ts'
import type { IgnoreRules } from './ignore.ts'

/** The folder at which tar sees the sources. */
const inside = '/context'

/**
 * Returns the files of a context as a tar archive, as `.dockerignore` says, and the Dockerfile whatever that says. Symbolic
 * links are archived as links and never followed. The owner of each file is root, as in every build context.
 *
 * @param confine a command line after which tar sees the sources at `/context`, and nothing else but the system's programs: files that
 *   are exchanged for links while it reads lead nowhere
 */
export function contextArchive(
  { folder, dockerfile, rules }: BuildContext,
  confine: (folder: string, at: string) => readonly [string, ...string[]],
  signal: AbortSignal,
): Readable {
  const [program, ...args] = [...confine(folder, inside), 'tar', ...tarArguments] as const
  const tar = startProcess(program, args, { env: {}, stdio: ['pipe', 'pipe', 'pipe'], signal })
  const { stdin, stdout, stderr } = tar
  const archive = new PassThrough()
  const failed = (error: Error) => void archive.destroy(error)
  tar.on('error', failed)
  if (stdin === null || stdout === null) return archive
  let said = ''
  stderr?.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-1_000)
  })
  const paths = Readable.from(listPaths(folder, dockerfile, rules, signal))
  stdin.on('error', () => undefined)
  paths.on('error', (error) => {
    tar.kill('SIGKILL')
    failed(error)
  })
  paths.pipe(stdin)
  stdout.pipe(archive, { end: false })
  void once(tar, 'close').then(
    ([code]) => (code === 0 ? archive.end() : failed(new Error(`the build context cannot be read: ${said.trim()}`))),
    failed,
  )
  // An archive may fail before anybody reads it, who finds the reason in `errored` then.
  archive.on('error', () => undefined)
  return archive.once('close', () => void tar.kill('SIGKILL'))
}

const tarArguments = [
  ...['--create', '--file=-', `--directory=${inside}`, '--format=gnu'],
  ...['--null', '--verbatim-files-from', '--no-recursion', '--files-from=-'],
  ...['--numeric-owner', '--owner=0', '--group=0'],
]

/**
 * Lists folders before what they hold, each path with a zero byte at its end. A character stands for one byte of a name, since
 * names need not be text.
 */
async function* listPaths(
  top: string,
  dockerfile: string,
  rules: IgnoreRules,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  const parts = Buffer.from(dockerfile).toString('latin1').split('/')
  const kept = new Set(parts.map((_, at) => parts.slice(0, at + 1).join('/')))
  const folders = ['']
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    const directory = Buffer.concat([Buffer.from(`${top}/`), Buffer.from(folder, 'latin1')])
    for (const entry of await readdir(directory, { withFileTypes: true, encoding: 'latin1' })) {
      signal.throwIfAborted()
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`
      const isIgnored = rules.isIgnored(Buffer.from(path, 'latin1').toString()) && !kept.has(path)
      // A rule may take a long time, and a folder may have many files.
      await nextTurn()
      if (entry.isDirectory() && (!isIgnored || rules.takesIn)) folders.push(path)
      if (isIgnored || !(entry.isDirectory() || entry.isFile() || entry.isSymbolicLink())) continue
      yield Buffer.from(`./${path}\0`, 'latin1')
    }
  }
}
