/** Tells how much more may be uploaded to a project, with uploads under way counted in. */
export interface Space {
  /** Registers an upload to a project. */
  claim(projectId: string, quotaBytes: number): Promise<Claim>
  /** Records that a file of the project was deleted. */
  freed(projectId: string, bytes: number): void
}

/** The share of one upload. */
export interface Claim {
  /** Returns how many more bytes this upload may store now. */
  free(): number
  /** Records that this many more bytes were stored. */
  add(bytes: number): void
  /** Records that the upload has become a file of the project. */
  keep(): void
  /** Ends the claim; bytes that were not kept are free again. */
  release(): void
}

interface Account {
  stored: number
  uploading: number
  claims: number
}

/**
 * Counts in memory while uploads are under way, so that together they cannot fill the disk before the database, which
 * decides in the end, has a row of any. `storedBytes` returns how much a project's files take.
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
