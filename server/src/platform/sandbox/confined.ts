import type { FileHandle } from 'node:fs/promises'
import type { OsUser } from '../users.ts'

/** A command of the server, such as git, that processes tenants' data. */
export interface ConfinedCommand {
  /** Found on the server's PATH, unless it is an absolute path. */
  readonly argv: readonly [string, ...string[]]
  /** All of it except PATH. */
  readonly env: Readonly<Record<string, string>>
  readonly writable: readonly string[]
  readonly readable: readonly string[]
  /** At another path, when commands are sandboxed. */
  readonly mounted: readonly { readonly from: string; readonly at: string }[]
  /** A folder that was opened and checked: exactly this one appears at `at` when commands are sandboxed. */
  readonly opened: { readonly folder: FileHandle; readonly realPath: string; readonly at: string } | null
  readonly network: boolean
  readonly inherited: FileHandle | null
  /** It may write no larger file. */
  readonly mostFileBytes: number
  /** Receives standard output in place of the result; ends the command when it throws. */
  readonly onOutput?: (chunk: Buffer) => void
  /** Written once it resolves; without it, standard input is empty. */
  readonly input?: Promise<string>
}

export interface ConfinedExit {
  readonly code: number | null
  /** The end of each output, at most 64 KB. */
  readonly stdout: string
  readonly stderr: string
  /** More memory or processes were needed than allowed. */
  readonly exceeded: boolean
}

/** With limits, as a separate user and in a sandbox, as far as the machine supports this. */
export interface Confined {
  /** Commands see only the system's programs and the files that they are given. */
  readonly isSandboxed: boolean
  readonly user: OsUser | null
  /**
   * Rejects with the signal's reason when it aborts, with what `onOutput` or the fence throws, and with a
   * `ShortageError` when the machine cannot run the command now. Nothing of the command is left then.
   */
  run(command: ConfinedCommand, signal: AbortSignal): Promise<ConfinedExit>
}

/** Of `inherited` in the command. */
export const inheritedDescriptor = 3
