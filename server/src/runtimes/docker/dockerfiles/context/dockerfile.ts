import { lstat, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type IgnoreRules, mostIgnoreCharacters, parseIgnoreFile } from './ignore.ts'

/** BuildKit keeps the whole file in memory, several times. */
const mostDockerfileBytes = 1_000_000

/** The files that a Dockerfile is built from. */
export interface BuildContext {
  /** The absolute path of their folder. */
  readonly folder: string
  /** The path of the Dockerfile in there. */
  readonly dockerfile: string
  readonly text: string
  readonly rules: IgnoreRules
}

/** A context, or the reason why there is none, in words for the owner of the sources. */
export type FoundContext =
  | { readonly ok: true; readonly context: BuildContext }
  | { readonly ok: false; readonly reason: string }

/**
 * Finds a Dockerfile in the folder of its context. The way to both leads through no link, so that they are the commit's own.
 *
 * @param file.path of the Dockerfile, from the top of the sources
 * @param file.context the folder, from the top of the sources; `.` for all of them
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
  // BuildKit reads the first of them that there is.
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

/** Returns the content of a file of the sources, or what is wrong with it. */
async function readOwn(source: string, path: string, mostBytes: number): Promise<Buffer | string> {
  const parts = path.split('/')
  if (parts.some((part) => part === '' || part === '.' || part === '..' || part.includes('\0'))) {
    return 'is no path from the top of the repository to a file in it'
  }
  for (let count = 1; count <= parts.length; count += 1) {
    const info = await lstat(join(source, ...parts.slice(0, count))).catch(() => null)
    if (info === null) return absent
    if (info.isSymbolicLink()) return 'is reached through a symbolic link. Name the file itself'
    const isLast = count === parts.length
    if (isLast ? !info.isFile() : !info.isDirectory()) return 'is no file'
    if (isLast && info.size > mostBytes) return `has more than ${mostBytes} bytes`
  }
  return readFile(join(source, ...parts))
}
