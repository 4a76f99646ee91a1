import { type FileHandle, mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { foldersIn, removeFolder } from '../platform/disk/folders.ts'
import { readExtent } from './extent.ts'
import type { Masker } from './masking.ts'
import { findStart, type LogPart, openLog, readLines } from './reader.ts'
import { createRecorder, type Recorder } from './recorder.ts'

export type LogStream = 'build' | 'runtime'

export interface LogName {
  readonly appId: string
  readonly deploymentId: string
  readonly stream: LogStream
  /** The instance that writes a log of the app, such as `worker.2`; by default `web.1`. */
  readonly process?: string | undefined
}

/** The log of this instance has no instance in its name. */
export const firstProcess = 'web.1'

/**
 * The logs of all deployments. Builds and apps write the files directly, so that they outlive the server. Only one
 * process at a time may use `record`, `flush` and `tail`. Any process may use `find` and `read`, which change nothing.
 */
export interface LogStore {
  open(log: LogName): Promise<FileHandle>
  record(log: LogName, ended: Promise<unknown>): Promise<void>
  /** Notes what was printed since the last check. Never rejects. */
  flush(log: LogName): Promise<void>
  /**
   * Returns the last lines, oldest first, with secrets masked.
   *
   * @param options.from the first line begins at this position or later
   */
  tail(
    log: LogName,
    options: { readonly lines: number; readonly masker: Masker; readonly from?: number },
  ): Promise<string[]>
  /**
   * Finds the position of the last `lines` lines written at `since` (milliseconds of Unix time) or later. Works on
   * every server.
   */
  find(
    log: LogName,
    wanted: { readonly lines: number; readonly since?: number | undefined },
  ): Promise<{ position: number; lines: number; end: number }>
  /** Reads whole lines from a position on. `isFinal` includes the unfinished last line of a log that has ended. */
  read(
    log: LogName,
    options: { readonly from: number; readonly masker: Masker; readonly isFinal: boolean },
  ): Promise<LogPart>
  /** Stops recording at once, because another server records from now on. */
  release(): void
  /** Returns the instances that have a log, by type and number. */
  processes(deployment: Pick<LogName, 'appId' | 'deploymentId'>): Promise<readonly string[]>
  remove(deployment: Pick<LogName, 'appId' | 'deploymentId'>): Promise<void>
  removeApp(appId: string): Promise<void>
  list(): Promise<readonly { readonly appId: string; readonly deploymentIds: readonly string[] }[]>
}

/** The most disk space for the log of a build, and for the log of each instance. */
const mostLogBytes = 16 * 1024 * 1024

/**
 * Creates a log store. Each log is a file `<directory>/<app>/<deployment>/<stream>.log`, next to a file with the times
 * of its lines. The logs of instances other than `web.1` contain the instance's name: `runtime.worker.2.log`.
 *
 * @param options.directory the folder of all logs; apps have no access to it
 */
export function createLogStore({ directory }: { readonly directory: string }): LogStore {
  const recorder = createRecorder({ mostBytes: mostLogBytes })
  const folderOf = (name: Pick<LogName, 'appId' | 'deploymentId'>) => join(directory, name.appId, name.deploymentId)
  const pathOf = (name: LogName) => join(folderOf(name), fileOf(name))

  return {
    async open(log) {
      await mkdir(folderOf(log), { recursive: true, mode: 0o700 })
      return openLog(pathOf(log))
    },

    record: (log, ended) => recorder.record(pathOf(log), ended),
    release: recorder.release,

    async flush(log) {
      await recorder.look(pathOf(log))
    },

    tail: (log, wanted) => lastLines(recorder, pathOf(log), wanted),

    async find(log, { lines, since }) {
      const path = pathOf(log)
      const extent = await recorder.extent(path)
      return { ...(await findStart(path, extent, { count: lines, since })), end: extent.end }
    },

    async read(log, wanted) {
      const path = pathOf(log)
      for (;;) {
        const extent = await recorder.extent(path)
        const part = await readLines(path, extent, wanted)
        // If a recorder freed these bytes while they were read, they are zeros.
        if ((await readExtent(path)).start <= extent.start) return part
      }
    },

    async processes(deployment) {
      const files = await readdir(folderOf(deployment)).catch(() => [])
      return files.flatMap(processOf).sort((a, b) => a.localeCompare(b, 'en', { numeric: true }))
    },

    remove: (deployment) => removeFolder(folderOf(deployment)),
    removeApp: (appId) => removeFolder(join(directory, appId)),

    list: async () =>
      Promise.all(
        (await foldersIn(directory)).map(async (appId) => ({
          appId,
          deploymentIds: await foldersIn(join(directory, appId)),
        })),
      ),
  }
}

const processPattern = /^[a-z][a-z0-9_-]{0,29}\.[1-9]\d{0,3}$/
const filePattern = /^runtime(?:\.(.+))?\.log$/

/** @throws Error for an invalid instance, which would become a part of a path */
function fileOf({ stream, process = firstProcess }: LogName): string {
  if (process === firstProcess) return `${stream}.log`
  if (stream !== 'runtime' || !processPattern.test(process)) throw new Error(`no instance has the name ${process}`)
  return `${stream}.${process}.log`
}

function processOf(file: string): string[] {
  const found = filePattern.exec(file)
  if (found === null) return []
  const process = found[1] ?? firstProcess
  return processPattern.test(process) ? [process] : []
}

async function lastLines(
  recorder: Recorder,
  path: string,
  { lines, masker, from: first = 0 }: Parameters<LogStore['tail']>[1],
): Promise<string[]> {
  const extent = await recorder.look(path)
  const { position } = await findStart(path, extent, { count: lines })
  const texts: string[] = []
  // After an app has truncated its log, everything in it is new.
  for (let from = first > extent.end ? position : Math.max(position, first), before = -1; from !== before; ) {
    const part = await readLines(path, extent, { from, masker, isFinal: true })
    for (const { text } of part.lines) texts.push(text)
    before = from
    from = part.next
  }
  return texts
}
