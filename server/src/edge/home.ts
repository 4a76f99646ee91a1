import { randomBytes, randomInt } from 'node:crypto'
import { chmod, chown, lstat, mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { z } from 'zod'
import { readOptional } from '../platform/files.ts'
import { isPortFree } from '../platform/ports.ts'
import { chooseSocketFolder, makePrivateDirectory } from '../platform/socket-folder.ts'
import type { OsUser } from '../platform/users.ts'

/** All paths are absolute. */
export interface EdgeHome {
  readonly folder: string
  readonly caddy: string
  readonly admin: string
  /** The socket of the API, in a folder that Caddy's user can enter. */
  readonly api: string
  readonly record: string
  readonly configuration: string
  /** Caddy's output before it has read its configuration, and when it crashes. */
  readonly output: string
  readonly startLock: string
}

const apiName = 'api.sock'
/** A starting server first listens at a temporary path with its pid. This is the longest such name. */
const longestApiName = `${apiName}.4194304`
const longestAdminName = 'admin.00000000.sock'

/** Returns the paths of the edge of a data directory. Creates nothing. */
export function edgeHome(dataDirectory: string): EdgeHome {
  const folder = join(dataDirectory, 'edge')
  const caddy = join(folder, 'caddy')
  const api = join(folder, 'api')
  return {
    folder,
    caddy,
    admin: chooseSocketFolder({ folder: caddy, name: longestAdminName, owner: caddy }),
    api: join(chooseSocketFolder({ folder: api, name: longestApiName, owner: api }), apiName),
    record: join(folder, 'edge.json'),
    configuration: join(folder, 'caddy.json'),
    output: join(folder, 'output.log'),
    startLock: join(folder, 'start.lock'),
  }
}

/**
 * Creates the folders of the edge. Rejects when something else is in the place of a folder.
 *
 * @param user Caddy's user; `null` for the server's user
 */
export async function makeHome(home: EdgeHome, user: OsUser | null): Promise<void> {
  const mode = user === null ? 0o700 : 0o711
  await mkdir(home.folder, { mode, recursive: true })
  await chmod(home.folder, mode)
  await makePrivateDirectory(home.caddy, user)
  if (home.admin !== home.caddy) await makePrivateDirectory(home.admin, user)
  await shareDirectory(dirname(home.api), user)
}

/** Creates a folder that belongs to the server's user. Only `user` can enter it besides, as its group. */
async function shareDirectory(path: string, user: OsUser | null): Promise<void> {
  await mkdir(path, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  const info = await lstat(path)
  const mode = info.mode & 0o777
  if (!info.isDirectory() || info.uid !== process.getuid?.() || ![0o700, 0o710].includes(mode)) {
    throw new Error(
      `${path} is needed as a folder of the server, but something else is there ` +
        `(owner ${info.uid}, mode ${mode.toString(8)}). Remove it and start again.`,
    )
  }
  if (user === null) return chmod(path, 0o700)
  await chown(path, info.uid, user.gid)
  await chmod(path, 0o710)
}

/** Writes a file that appears complete or not at all. `reader`, who does not own the folder, can read the file. */
export async function writeWhole(path: string, text: string, reader: OsUser | null = null): Promise<void> {
  const beside = `${path}.${process.pid}`
  await rm(beside, { force: true })
  const file = await open(beside, 'wx', 0o600)
  try {
    await file.writeFile(text)
    if (reader !== null) {
      await file.chown(process.getuid?.() ?? 0, reader.gid)
      await file.chmod(0o640)
    }
  } finally {
    await file.close()
  }
  await rename(beside, path)
}

const questions = z.object({ port: z.int().min(1).max(65_535), token: z.string().regex(/^[0-9a-f]{64}$/) })

/** The loopback port on which Caddy asks for certificates, and the secret in the path of these questions. */
export type Questions = z.output<typeof questions>

/** The range just below the ports of outgoing connections, which could occupy the port. */
const questionPorts = { from: 32_600, to: 32_768 } as const

/** Returns the stored port and secret, or creates them. */
export async function keptQuestions({ folder }: Pick<EdgeHome, 'folder'>): Promise<Questions> {
  const path = join(folder, 'questions.json')
  const kept = questions.safeParse(parsed(await readOptional(path)))
  if (kept.success) return kept.data
  return replaceQuestions({ folder })
}

/** Chooses another port, because the stored port is taken. */
export async function replaceQuestions({ folder }: Pick<EdgeHome, 'folder'>): Promise<Questions> {
  const chosen = { port: await freeLoopbackPort(), token: randomBytes(32).toString('hex') }
  await writeWhole(join(folder, 'questions.json'), `${JSON.stringify(chosen)}\n`)
  return chosen
}

async function freeLoopbackPort(): Promise<number> {
  const { from, to } = questionPorts
  const first = randomInt(from, to)
  for (let step = 0; step < to - from; step++) {
    const port = from + ((first - from + step) % (to - from))
    if (await isPortFree(port, '127.0.0.1')) return port
  }
  throw new Error(`no port from ${from} to ${to - 1} of 127.0.0.1 is free, and the edge needs one`)
}

function parsed(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? '') as unknown
  } catch {
    return undefined
  }
}
