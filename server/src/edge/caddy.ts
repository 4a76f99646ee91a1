import { execFile } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { findProgram } from '../platform/programs.ts'

export interface Caddy {
  readonly file: string
  readonly version: string
}

/** The first version with HTTP/3 and with certificates by `get_certificate`. */
const least = [2, 6] as const

const versionTimeoutMs = 10_000

export class CaddyMissingError extends Error {
  override readonly name = 'CaddyMissingError'
}

const installHint = `Install Caddy ${least.join('.')} or newer: apt-get install caddy`

/** Finds Caddy on a `PATH`. @throws CaddyMissingError when no version is new enough */
export async function findCaddy(path: string): Promise<Caddy> {
  const file = await findProgram('caddy', path)
  if (file === null) throw new CaddyMissingError(`There is no program caddy on the PATH. ${installHint}`)
  const version = await versionOf(file)
  if (version === null) throw new CaddyMissingError(`${file} does not tell its version. ${installHint}`)
  if (!isEnough(version)) throw new CaddyMissingError(`${file} is version ${version}, which is too old. ${installHint}`)
  return { file, version }
}

/** The versions of unchanged files, because Caddy takes a noticeable part of a second to answer. */
const known = new Map<string, string>()

async function versionOf(file: string): Promise<string | null> {
  const { ino, mtimeMs, size } = await stat(file)
  const key = `${file} ${ino} ${mtimeMs} ${size}`
  const version = known.get(key) ?? (await askVersion(file))
  if (version !== null) known.set(key, version)
  return version
}

/** Caddy prints, for example, `2.6.2` or `v2.10.2 h1:g/gTYjGMD0dec+UgMw8SnfmJ3I9+M2TdvoRL/Ovu6U8=`. */
function askVersion(file: string): Promise<string | null> {
  return new Promise((done) => {
    execFile(file, ['version'], { env: {}, timeout: versionTimeoutMs }, (error, stdout) =>
      done(error === null ? (/^v?(\d+\.\d+[\w.+-]*)/.exec(stdout)?.[1] ?? null) : null),
    )
  })
}

function isEnough(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return major > least[0] || (major === least[0] && minor >= least[1])
}
