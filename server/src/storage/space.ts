/** How much of its storage a project may still fill, with what is being uploaded counted in. */
export interface Space {
  /** Takes part in the project's account for the time of one upload. */
  claim(projectId: string, quotaBytes: number): Promise<Claim>
  /** A file of the project was deleted. */
  freed(projectId: string, bytes: number): void
}

export interface Claim {
  /** Bytes that this upload may still add. */
  free(): number
  /** This many more bytes were written. */
  add(bytes: number): void
  /** The upload became a file of the project. */
  keep(): void
  /** Ends the part; what was not kept is given back. */
  release(): void
}

interface Account {
  stored: number
  uploading: number
  claims: number
}

/**
 * Keeps the account in memory while uploads are under way, so that they cannot fill the disk together before the
 * database, which decides, has heard of any. `storedBytes` reads what a project's files take.
 */
export function createSpace({ storedBytes }: { storedBytes: (projectId: string) => Promise<number> }): Space {
  const accounts = new Map<string, Account>()

  return {
    async claim(projectId, quotaBytes) {
      const stored = accounts.has(projectId) ? 0 : await storedBytes(projectId)
      const account = accounts.get(projectId) ?? { stored, uploading: 0, claims: 0 }
      accounts.set(projectId, account)
      account.claims += 1
      let mine = 0
      return {
        free: () => quotaBytes - account.stored - account.uploading,
        add(bytes) {
          mine += bytes
          account.uploading += bytes
        },
        keep() {
          account.stored += mine
          account.uploading -= mine
          mine = 0
        },
        release() {
          account.uploading -= mine
          account.claims -= 1
          if (account.claims === 0) accounts.delete(projectId)
        },
      }
    },
    freed(projectId, bytes) {
      const account = accounts.get(projectId)
      if (account !== undefined) account.stored -= bytes
    },
  }
}
