import type { FileHandle } from 'node:fs/promises'
import type { OsUser } from '../users.ts'

/** A command of the server, such as git, that processes tenants' data. */
export interface ConfinedCommand {
  /** The program is looked up on the server's PATH, unless it is an absolute path. */
  readonly argv: readonly [string, ...string[]]
  /** The whole environment except PATH. */
  readonly env: Readonly<Record<string, string>>
  /** Absolute paths of folders that it may write. */
  readonly writable: readonly string[]
  /** Absolute paths of files and folders that it may read. */
  readonly readable: readonly string[]
  /** Files that appear at another path when commands are sandboxed. */
  readonly mounted: readonly { readonly from: string; readonly at: string }[]
  /** A folder that was opened and checked. Exactly this folder appears at `at` when commands are sandboxed. */
  readonly opened: { readonly folder: FileHandle; readonly realPath: string; readonly at: string } | null
  /** True when it may reach the network of the machine. */
  readonly network: boolean
  readonly inherited: FileHandle | null
  /** The largest file that it may write. */
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
  /** True when the command needed more memory or processes than it may use. */
  readonly exceeded: boolean
}

/** Runs commands with limits, as a separate user and in a sandbox, as far as the machine supports this. */
export interface Confined {
  /**
   * True when commands see nothing of the machine except the programs of the system and the files that they are given.
   */
  readonly isSandboxed: boolean
  /** The user that commands run as; `null` for the user of the server. */
  readonly user: OsUser | null
  /**
   * Runs a command to its end. Rejects with the signal's reason when it aborts, with what `onOutput` or the fence
   * throws, and with a `ShortageError` when the machine cannot run it now. Nothing of the command is left then.
   */
  run(command: ConfinedCommand, signal: AbortSignal): Promise<ConfinedExit>
}

/** The descriptor of `inherited` in the command. */
export const inheritedDescriptor = 3
