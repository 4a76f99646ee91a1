import { createHash } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Returns the bytes of `sun_path` without its closing zero byte (unix(7)): 108 on Linux and 104 on macOS with it. */
function longestSocketPath(platform: string): number {
  return platform === 'darwin' ? 103 : 107
}

/**
 * Returns the folder for a Unix socket: `folder`, or, when the socket's address would be too long for the system there, a
 * folder in the temporary directory named by a hash of `owner`. Throws when both are too long.
 */
export function chooseSocketFolder(options: {
  readonly folder: string
  /** The longest name of a socket in the folder. */
  readonly name: string
  /** A path that nobody else has. */
  readonly owner: string
  readonly temporary?: string
  readonly platform?: string
}): string {
  const { folder, name, owner, temporary = tmpdir(), platform = process.platform } = options
  const hash = createHash('sha256').update(owner).digest('hex').slice(0, 16)
  const candidates = [folder, join(temporary, `fairlead-${hash}`)]
  const chosen = candidates.find((each) => Buffer.byteLength(`${each}/${name}`) <= longestSocketPath(platform))
  if (chosen === undefined) {
    throw new Error(
      `The path ${folder} is too long for a Unix socket, and so is the temporary directory ` +
        `${temporary}. Choose a shorter --data-dir or set TMPDIR to a shorter path.`,
    )
  }
  return chosen
}
