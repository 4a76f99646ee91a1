import { createHash } from 'node:crypto'
import type { ObjectFormat } from './git-cache.ts'
import { branchProblem } from './git-url.ts'

/*
 * A bundle (gitformat-bundle(5)) is a short header with the names of its heads, followed by a pack (gitformat-pack(5)).
 * We parse the header ourselves, because git would accept any number of heads, and commits that are missing.
 */

/** The error for a refused bundle. The message is a clause without a subject that says what to do. */
export class BundleError extends Error {
  override readonly name = 'BundleError'
}

export interface Bundle {
  readonly commit: string
  /** Null when the head is `HEAD`. */
  readonly branch: string | null
}

export interface BundleReader {
  /** Takes the next bytes, and returns the pack's bytes among them. Throws a `BundleError`. */
  read(chunk: Buffer): Buffer
  /** Throws a `BundleError` when the pack is not complete. */
  end(): Bundle
}

/** A header has one head, and git limits its name to about this size. */
const longestHeader = 8_192
/** Git needs memory for each object. */
const mostObjects = 2_000_000
const packHeadBytes = 12
const hashBytes: Readonly<Record<ObjectFormat, number>> = { sha1: 20, sha256: 32 }

const createAdvice = 'Make it with git bundle create app.bundle BRANCH'

/** Reads a bundle as it arrives, and checks that its pack is complete. */
export function createBundleReader(): BundleReader {
  let head = Buffer.alloc(0)
  let header: Header | undefined
  let pack: ReturnType<typeof createPackReader> | undefined
  return {
    read(chunk) {
      if (pack !== undefined) return pack.read(chunk)
      head = Buffer.concat([head, chunk])
      const end = head.indexOf('\n\n')
      // Checked before the end arrives, because a header may name any number of heads.
      if (end === -1 && head.length <= longestHeader) return Buffer.alloc(0)
      header = parseHeader(head.toString('latin1', 0, end === -1 ? longestHeader : end))
      if (end === -1) throw new BundleError('has a header that is too long')
      pack = createPackReader(header.format)
      return pack.read(head.subarray(end + 2))
    },
    end() {
      if (header === undefined || pack === undefined) throw new BundleError(`is not a git bundle. ${createAdvice}`)
      pack.end()
      return { commit: header.commit, branch: header.branch }
    },
  }
}

interface Header extends Bundle {
  readonly format: ObjectFormat
}

function parseHeader(text: string): Header {
  const [signature = '', ...lines] = text.split('\n')
  if (!/^# v[23] git bundle$/.test(signature)) throw new BundleError(`is not a git bundle. ${createAdvice}`)
  const format = signature === '# v3 git bundle' ? formatOf(lines) : 'sha1'
  const rest = lines.filter((line) => !(signature === '# v3 git bundle' && line.startsWith('@')))
  if (rest.some((line) => line.startsWith('-'))) {
    throw new BundleError(`builds on commits that it does not contain. ${createAdvice}, without names of other commits`)
  }
  const [line = '', ...others] = rest
  if (line === '' || others.length > 0) throw new BundleError(`must have exactly one head. ${createAdvice}`)
  const [, commit = '', ref = ''] = /^([0-9a-f]+) (.+)$/.exec(line) ?? []
  if (commit.length !== 2 * hashBytes[format]) throw new BundleError(`has a head without a commit. ${createAdvice}`)
  return { format, commit, branch: branchOf(ref) }
}

function formatOf(lines: readonly string[]): ObjectFormat {
  const capabilities = lines.filter((line) => line.startsWith('@'))
  const unknown = capabilities.find((line) => !/^@object-format=sha(1|256)$/.test(line))
  if (unknown !== undefined) throw new BundleError(`has a capability that is not known here. ${createAdvice}`)
  return capabilities.includes('@object-format=sha256') ? 'sha256' : 'sha1'
}

function branchOf(ref: string): string | null {
  if (ref === 'HEAD') return null
  const name = /^refs\/heads\/(.+)$/.exec(ref)?.[1]
  const branch = name === undefined ? '' : Buffer.from(name, 'latin1').toString('utf8')
  if (branchProblem(branch) !== undefined || branch.length > 255) {
    throw new BundleError(`has a head that is not a branch. ${createAdvice}`)
  }
  return branch
}

/** Checks the first bytes of a pack, and the hash of all other bytes at its end. */
function createPackReader(format: ObjectFormat): { read(chunk: Buffer): Buffer; end(): void } {
  const hash = createHash(format)
  const trailerBytes = hashBytes[format]
  let start = Buffer.alloc(0)
  let last = Buffer.alloc(0)
  return {
    read(chunk) {
      if (start.length < packHeadBytes) {
        start = Buffer.concat([start, chunk.subarray(0, packHeadBytes - start.length)])
        checkPackHead(start)
      }
      const known = Buffer.concat([last, chunk])
      const hashed = Math.max(0, known.length - trailerBytes)
      hash.update(known.subarray(0, hashed))
      last = known.subarray(hashed)
      return chunk
    },
    end() {
      if (start.length < packHeadBytes || !hash.digest().equals(last)) {
        throw new BundleError('is not complete, or damaged. Upload it again')
      }
    },
  }
}

function checkPackHead(start: Buffer): void {
  if (start.length < packHeadBytes) return
  const version = start.readUInt32BE(4)
  if (start.toString('latin1', 0, 4) !== 'PACK' || (version !== 2 && version !== 3)) {
    throw new BundleError(`has no pack behind its header. ${createAdvice}`)
  }
  if (start.readUInt32BE(8) > mostObjects) {
    throw new BundleError(`has more than ${mostObjects} objects. Leave its history out, as fairlead deploy does`)
  }
}
