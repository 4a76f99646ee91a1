import type { FileHandle } from 'node:fs/promises'
import type { Masker } from './masking.ts'
import type { LogPart } from './reader.ts'

export type LogStream = 'build' | 'runtime'

/** Names one log: the output of the build, or of one instance of the running app, of a deployment. */
export interface LogName {
  readonly appId: string
  readonly deploymentId: string
  readonly stream: LogStream
  /** The instance that prints a log of the app, such as `worker.2`; that of `web.1` when it is absent. */
  readonly process?: string | undefined
}

/** The instance whose log has the name that all instances of a release shared in older versions. */
export const firstProcess = 'web.1'

/**
 * The logs of all deployments, in files that builds and apps write to directly, so that they outlive the server. One
 * process records a log, with `record`, `flush` and `tail`; any number may use `find` and `read`, which change nothing.
 */
export interface LogStore {
  /** Opens a log for appending, to be handed to a process as its output. The caller closes it. */
  open(log: LogName): Promise<FileHandle>
  /** Notes the times of lines and keeps the log within its cap until `ended` settles. */
  record(log: LogName, ended: Promise<unknown>): Promise<void>
  /** Notes what was printed since the last look. Never rejects. */
  flush(log: LogName): Promise<void>
  /**
   * Returns the last lines, oldest first, with secrets masked.
   *
   * @param options.from the position, in bytes, before which no line counts
   */
  tail(
    log: LogName,
    options: { readonly lines: number; readonly masker: Masker; readonly from?: number },
  ): Promise<string[]>
  /**
   * Finds where the last `lines` lines begin, of those written at `since` (milliseconds of Unix time) or later. A log may be
   * found and read on another server than that which records it.
   */
  find(
    log: LogName,
    wanted: { readonly lines: number; readonly since?: number | undefined },
  ): Promise<{ position: number; lines: number; end: number }>
  /** Reads some whole lines from a position on. `isFinal` includes an unfinished last line, for a log that has ended. */
  read(
    log: LogName,
    options: { readonly from: number; readonly masker: Masker; readonly isFinal: boolean },
  ): Promise<LogPart>
  /** Ends all recording at once, because another server records from now on. */
  release(): void
  /** Lists the instances of a deployment that have a log, those of a type in the order of their numbers. */
  processes(deployment: Pick<LogName, 'appId' | 'deploymentId'>): Promise<readonly string[]>
  remove(deployment: Pick<LogName, 'appId' | 'deploymentId'>): Promise<void>
  removeApp(appId: string): Promise<void>
  list(): Promise<readonly { readonly appId: string; readonly deploymentIds: readonly string[] }[]>
}
