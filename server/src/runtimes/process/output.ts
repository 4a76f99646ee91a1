import type { FileHandle } from 'node:fs/promises'
import type { OsUser } from '../../platform/users.ts'

/** Gives a log to the user who writes it: programs open `/dev/stdout` and `/dev/stderr` anew. */
export async function giveOutputToUser(output: FileHandle, user: OsUser | null): Promise<void> {
  if (user !== null) await output.chown(user.uid, user.gid)
}
