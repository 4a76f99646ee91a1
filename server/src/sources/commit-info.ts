/** The message, the author and the time of a commit. */
export interface CommitInfo {
  /** The beginning of the message, with any characters. */
  readonly message: string
  /** The name of the author, with any characters. */
  readonly author: string
  /** The time at which it was made, in ISO 8601 with its time zone. */
  readonly at: string
}

/** A message can have any length. */
const mostBytes = 8 * 1024

/** The format in which `git log` tells what `CommitInfo` holds. */
export const commitFormat = '%an%x00%cI%x00%B'

/** Reads a commit in that format as it comes. `info` is `null` when it did not come whole: nothing depends on it. */
export function createCommitReader(): { read(chunk: Buffer): void; info(): CommitInfo | null } {
  const chunks: Buffer[] = []
  let bytes = 0
  return {
    read(chunk) {
      if (bytes < mostBytes) chunks.push(chunk.subarray(0, mostBytes - bytes))
      bytes += chunk.length
    },
    info() {
      const [author, at, message] = Buffer.concat(chunks).toString('utf8').split('\0')
      return author === undefined || at === undefined || message === undefined ? null : { author, at, message }
    },
  }
}
