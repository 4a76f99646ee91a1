import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { foldersIn, removeFolder } from '../platform/disk/folders.ts'
import { readExtent } from './extent.ts'
import { openLog } from './log-files.ts'
import { firstProcess, type LogName, type LogStore } from './log-store.ts'
import { findStart, readLines } from './reader.ts'
import { createRecorder, type Recorder } from './recorder.ts'

/** The most that the log of a build may take on the disk, and as much again that of each instance of the app. */
const mostLogBytes = 16 * 1024 * 1024

/**
 * Keeps each log in a file `<directory>/<app>/<deployment>/<stream>.log`, with the times of its lines beside it. Instances other
 * than `web.1` have their names before the end: `runtime.worker.2.log`.
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
        // The process that records the log may have freed what was just read, which is zeros then.
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

/** @throws Error for a name that no instance has: it becomes part of a path */
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
  // An app can truncate its log, so that all of it comes after.
  for (let from = first > extent.end ? position : Math.max(position, first), before = -1; from !== before; ) {
    const part = await readLines(path, extent, { from, masker, isFinal: true })
    for (const { text } of part.lines) texts.push(text)
    before = from
    from = part.next
  }
  return texts
}
