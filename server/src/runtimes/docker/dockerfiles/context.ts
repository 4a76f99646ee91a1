import { once } from 'node:events'
import { lstat, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { formatImageReference, longestReference, parseImageReference } from '../../../contract/image-reference.ts'
import { startProcess } from '../../../platform/processes.ts'
import { type IgnoreRules, mostIgnoreCharacters, parseIgnoreFile } from './dockerignore.ts'

/** The path at which tar sees the sources. */
const inside = '/context'

/**
 * Returns the files of a context as a tar archive, filtered by `.dockerignore`, but always with the Dockerfile. Links
 * stay links and are never followed. The owner of each file is root, as in every build context.
 *
 * @param confine a command prefix for tar. Tar then sees the sources at `/context`, and otherwise only the system
 *   programs: a file that becomes a link during the read leads nowhere
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
  // An archive may fail before anybody reads it. The reader then finds the reason in `errored`.
  archive.on('error', () => undefined)
  return archive.once('close', () => void tar.kill('SIGKILL'))
}

const tarArguments = [
  ...['--create', '--file=-', `--directory=${inside}`, '--format=gnu'],
  ...['--null', '--verbatim-files-from', '--no-recursion', '--files-from=-'],
  ...['--numeric-owner', '--owner=0', '--group=0'],
]

/**
 * Lists folders before their content. A zero byte ends each path. Each character stands for one byte of a name, because
 * names need not be valid text.
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
      // Rules may be slow, and a folder may have many files.
      await nextTurn()
      if (entry.isDirectory() && (!isIgnored || rules.takesIn)) folders.push(path)
      if (isIgnored || !(entry.isDirectory() || entry.isFile() || entry.isSymbolicLink())) continue
      yield Buffer.from(`./${path}\0`, 'latin1')
    }
  }
}

/** BuildKit keeps several copies of the file in memory. */
const mostDockerfileBytes = 1_000_000

export interface BuildContext {
  readonly folder: string
  readonly dockerfile: string
  readonly text: string
  readonly rules: IgnoreRules
}

export type FoundContext =
  | { readonly ok: true; readonly context: BuildContext }
  | { readonly ok: false; readonly reason: string }

/**
 * Finds a Dockerfile in its context folder. No path to either contains a link, so both belong to the commit.
 *
 * @param file.path the path of the Dockerfile, from the top of the sources
 * @param file.context the folder, from the top of the sources; `.` for all sources
 */
export async function findContext(
  source: string,
  { path, context }: { readonly path: string; readonly context: string },
): Promise<FoundContext> {
  const folder = context === '.' ? source : join(source, context)
  const dockerfile = context === '.' ? path : path.slice(context.length + 1)
  if (context !== '.' && !path.startsWith(`${context}/`)) return refused('Dockerfile', path, `is not in ${context}`)
  const file = await readOwn(source, path, mostDockerfileBytes)
  if (typeof file === 'string') return refused('Dockerfile', path, file)
  const text = file.toString('utf8')
  // BuildKit reads the first of these that exists.
  for (const name of [`${dockerfile}.dockerignore`, '.dockerignore']) {
    const found = await readOwn(folder, name, mostIgnoreCharacters)
    if (found === absent) continue
    if (typeof found === 'string') return refused('file', name, found)
    return { ok: true, context: { folder, dockerfile, text, rules: parseIgnoreFile(found) } }
  }
  return { ok: true, context: { folder, dockerfile, text, rules: parseIgnoreFile(Buffer.alloc(0)) } }
}

const refused = (kind: string, path: string, why: string): FoundContext => ({
  ok: false,
  reason: `The ${kind} ${JSON.stringify(path)} ${why}.`,
})

const absent = 'does not exist in this commit'

async function readOwn(source: string, path: string, mostBytes: number): Promise<Buffer | string> {
  const parts = path.split('/')
  if (parts.some((part) => part === '' || part === '.' || part === '..' || part.includes('\0'))) {
    return 'is not a path from the top of the repository to a file in it'
  }
  for (let count = 1; count <= parts.length; count += 1) {
    const info = await lstat(join(source, ...parts.slice(0, count))).catch(() => null)
    if (info === null) return absent
    if (info.isSymbolicLink()) return 'is reached through a symbolic link. Name the file itself'
    const isLast = count === parts.length
    if (isLast ? !info.isFile() : !info.isDirectory()) return 'is not a file'
    if (isLast && info.size > mostBytes) return `has more than ${mostBytes} bytes`
  }
  return readFile(join(source, ...parts))
}

/** Returns the full reference behind the name of an image; null for an invalid name. */
export function fullName(image: string): string | null {
  const reference = parseImageReference(image)
  return 'problem' in reference ? null : formatImageReference(reference)
}

/**
 * Returns the full names of the images that a Dockerfile uses as a base, copies from, or uses as its front end. Stage
 * names are included.
 */
export function imagesIn(dockerfile: string): ReadonlySet<string> {
  const values = new Map<string, string>()
  const names: string[] = []
  for (const line of dockerfile.replaceAll(/\\[ \t]*\r?\n/g, ' ').split('\n')) {
    const [instruction = '', ...words] = line.trim().split(/\s+/)
    switch (instruction.toUpperCase()) {
      case 'ARG':
        for (const [, name = '', value = ''] of words.map((word) => argument.exec(word) ?? [])) {
          values.set(name, expanded(value, values))
        }
        break
      case 'FROM':
        names.push(words.find((word) => !word.startsWith('--')) ?? '')
        break
      default:
        names.push(syntax.exec(line)?.[1] ?? '')
        for (const [, name = ''] of line.matchAll(source)) names.push(name)
    }
  }
  return new Set(names.map((name) => fullName(expanded(name, values))).filter((name) => name !== null))
}

const argument = /^(\w+)=["']?([^"']*)["']?$/
const syntax = /^\s*#\s*syntax\s*=\s*(\S+)/i
/** `COPY --from=…`, and `RUN --mount=type=bind,from=…`. */
const source = /[-,=]from=([^\s,]+)/g
const variable = /\$(?:(\w+)|\{(\w+)(?::-([^}]{0,128}))?\})/g

/** Substitutes build arguments. Their values come from the Dockerfile itself. */
const expanded = (text: string, values: ReadonlyMap<string, string>): string =>
  text
    .slice(0, longestReference)
    .replaceAll(variable, (whole, plain, braced, otherwise) => values.get(plain ?? braced) ?? otherwise ?? whole)
    .slice(0, longestReference)
