import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { link, readFile, rm, writeFile } from 'node:fs/promises'
import { readOptional } from '../../platform/files.ts'
import { type Marker, variablesOf } from '../../platform/processes.ts'

export const markVariable = 'FAIRLEAD_PROCESS_MARK'

/** Every process of an instance carries the mark of the instance in this variable. */
export const instanceMarkVariable = 'FAIRLEAD_INSTANCE_MARK'

/**
 * Marks identify the processes of releases, with or without a server. Visitors can read a release's id, so a mark adds
 * an authentication code by the server's key: no process of another app can pass for the release's.
 */
export interface ProcessMarks {
  markOf(releaseId: string): string
  /** @param uid the uid of the user of the app; `undefined` when unknown */
  markerOf(releaseId: string, uid: number | undefined): Marker
  /** Like `markerOf`, but for the processes of one instance. */
  instanceMarkerOf(unit: string, uid: number | undefined): Marker
  /** Returns the release in the mark of the process; `null` without a valid mark. */
  releaseOf(pid: number): string | null
  /** Like `releaseOf`, with the name of the instance, if the process belongs to one. */
  instanceOf(pid: number): { readonly releaseId: string; readonly unit: string | null } | null
}

interface Stored {
  /** The key of the authentication codes, in base64. */
  readonly key: string
}

/** Reads the marks of a data directory. Makes no file when no server has made one yet. */
export async function readMarks(file: string): Promise<ProcessMarks> {
  const text = await readOptional(file)
  return createMarks(text === undefined ? null : (JSON.parse(text) as Stored))
}

/** Reads the marks of a data directory. The first server makes the file. */
export async function openMarks(file: string): Promise<ProcessMarks> {
  if ((await readOptional(file)) === undefined) await make(file)
  return createMarks(JSON.parse(await readFile(file, 'utf8')) as Stored)
}

async function make(file: string): Promise<void> {
  const stored: Stored = { key: randomBytes(32).toString('base64') }
  const fresh = `${file}.${randomBytes(6).toString('hex')}.new`
  try {
    await writeFile(fresh, JSON.stringify(stored), { mode: 0o600, flush: true })
    // Unlike a rename, a link never replaces a file.
    await link(fresh, file).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    })
  } finally {
    await rm(fresh, { force: true })
  }
}

/** @param stored `null` before the first server: no process has a valid mark */
function createMarks(stored: Stored | null): ProcessMarks {
  const key = stored === null ? randomBytes(32) : Buffer.from(stored.key, 'base64')
  const codeOf = (id: string) => createHmac('sha256', key).update(id).digest('base64url')
  const markOf = (id: string) => `${id}.${codeOf(id)}`
  const idIn = (mark: string | null): string | null => {
    const id = mark?.slice(0, mark.lastIndexOf('.')) ?? null
    return mark !== null && id !== null && isEqual(mark, markOf(id)) ? id : null
  }
  const instanceOf: ProcessMarks['instanceOf'] = (pid) => {
    const [mark = null, unit = null] = variablesOf(pid, [markVariable, instanceMarkVariable])
    const id = idIn(mark)
    return id === null ? null : { releaseId: id, unit: idIn(unit) }
  }
  return {
    markOf,
    markerOf: (id, uid) => ({ name: markVariable, value: markOf(id), uid }),
    instanceMarkerOf: (unit, uid) => ({ name: instanceMarkVariable, value: markOf(unit), uid }),
    releaseOf: (pid) => instanceOf(pid)?.releaseId ?? null,
    instanceOf,
  }
}

function isEqual(one: string, other: string): boolean {
  const [first, second] = [Buffer.from(one), Buffer.from(other)]
  return first.length === second.length && timingSafeEqual(first, second)
}
