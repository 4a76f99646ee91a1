import { once } from 'node:events'
import { readdir, rename, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { basename, join } from 'node:path'
import { z } from 'zod'
import { readOptional } from '../files.ts'
import { bootId, inspectProcess } from '../processes.ts'

const schema = z.object({
  id: z.string(),
  pid: z.int().positive(),
  /** Together with the pid it identifies the process; as `inspectProcess` has it. */
  processStart: z.string(),
  /** The start of the system that `processStart` counts from; missing in records of older versions. */
  boot: z.string().nullish(),
  version: z.string(),
  startedAt: z.iso.datetime(),
  socket: z.string(),
  isStopping: z.boolean(),
})

/** A server of a data directory, as it has recorded itself in the folder `run`. */
export type ServerRecord = Readonly<z.output<typeof schema>>

/** The files of one server: its record, the record while it is written, and the socket. */
const fileNames = /^(\d+-[0-9a-f]{8})\.(json|new|sock)$/

/** Returns the name that the files of a server have in common. */
export function recordName({ id, pid }: Pick<ServerRecord, 'id' | 'pid'>): string {
  return `${pid}-${id.slice(0, 8)}`
}

/** Writes the record at once, so that no reader finds half of it. */
export async function writeRecord(folder: string, record: ServerRecord): Promise<void> {
  const path = join(folder, recordName(record))
  await writeFile(`${path}.new`, JSON.stringify(record), { mode: 0o600 })
  await rename(`${path}.new`, `${path}.json`)
}

export async function removeRecord(folder: string, record: ServerRecord): Promise<void> {
  await rm(join(folder, `${recordName(record)}.json`), { force: true })
  await rm(record.socket, { force: true })
}

/**
 * True when exactly this process lives. After a power failure another process may have the same pid and the same start time,
 * because a system starts its services alike each time. Its boot id alone does not tell: systemd-nspawn shows one of its own,
 * except to services with a `/proc` of theirs. So a server with another one is asked whether it accepts connections.
 */
export async function livesAs({
  pid,
  processStart,
  boot,
  socket,
}: Pick<ServerRecord, 'pid' | 'processStart' | 'boot' | 'socket'>): Promise<boolean> {
  if ((await inspectProcess(pid))?.startedAt !== processStart) return false
  return !boot || boot === bootId() || accepts(socket)
}

/** True when a process listens on a Unix socket. */
async function accepts(path: string): Promise<boolean> {
  const connection = connect(path)
  try {
    await once(connection, 'connect')
    return true
  } catch {
    return false
  } finally {
    connection.destroy()
  }
}

/** Reads the records of the servers that live, the oldest first, and removes the files of those that are gone. */
export async function liveRecords(folder: string): Promise<ServerRecord[]> {
  const live: ServerRecord[] = []
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException): string[] => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  for (const name of new Set(names.flatMap((file) => fileNames.exec(file)?.[1] ?? []))) {
    const record = parseRecord((await readOptional(join(folder, `${name}.json`))) ?? '', name)
    if (record !== null && (await livesAs(record))) live.push(record)
    else if (record !== null) await removeRecord(folder, record)
    else if ((await inspectProcess(Number.parseInt(name, 10))) === null) await removeFiles(folder, name)
  }
  return live.sort((a, b) => a.startedAt.localeCompare(b.startedAt))
}

async function removeFiles(folder: string, name: string): Promise<void> {
  for (const ending of ['json', 'new', 'sock']) await rm(join(folder, `${name}.${ending}`), { force: true })
}

/**
 * Returns `null` for a file without a record: a server that is about to write it, or that was killed before. A record that
 * names anything but a socket of its own name is none: a command may look into a folder that came with a repository, and
 * would remove the file.
 */
function parseRecord(text: string, name: string): ServerRecord | null {
  try {
    const record = schema.parse(JSON.parse(text))
    return basename(record.socket) === `${name}.sock` ? record : null
  } catch {
    return null
  }
}
