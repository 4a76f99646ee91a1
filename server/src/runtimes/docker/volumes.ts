import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { chmod, mkdir, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { foldersIn, removeFolder, SYSTEM_FOLDERS } from '../../platform/disk/folders.ts'
import { volumeFiles, volumesIn } from '../../platform/disk/volumes.ts'
import { exists } from '../../platform/files.ts'
import { createKeyedLock } from '../../platform/keyed-lock.ts'
import { startProcess } from '../../platform/processes.ts'
import type { Release } from '../runtime.ts'
import type { Containers, Waiters } from './calls.ts'
import type { Engine } from './client.ts'
import { EngineError } from './errors.ts'
import { labelsOf, noLabels } from './names.ts'

export interface VolumeMount {
  readonly Type: 'bind'
  readonly Source: string
  readonly Target: string
}

export interface Volumes {
  /**
   * Makes missing volumes and returns all of them. A new volume starts with the image's content at its path.
   *
   * @throws VolumesNeedRoot for a release with volumes, when the server is not root
   */
  ready(release: Release, image: string): Promise<readonly VolumeMount[]>
}

/** Containers make files of any user, which a server without root could neither measure nor remove. */
export class VolumesNeedRoot extends Error {
  override readonly name = 'VolumesNeedRoot'
}

export interface VolumesOptions {
  readonly engine: Pick<Engine, 'open'>
  readonly containers: Pick<Containers, 'create' | 'remove'>
  readonly server: string
  readonly waiters: Pick<Waiters, 'during'>
  readonly apps: string
  readonly fence: () => void
}

export function createVolumes(options: VolumesOptions): Volumes {
  const lock = createKeyedLock()
  return {
    async ready(release, image) {
      const entries = Object.entries(release.volumes ?? {})
      if (entries.length === 0) return []
      if (process.getuid?.() !== 0) throw new VolumesNeedRoot('volumes of containers need a server that is root')
      const volumes = volumesIn(join(options.apps, release.appId))
      const mounts: VolumeMount[] = []
      for (const [name, target] of entries) {
        const files = volumeFiles(volumes, name)
        await lock(files, () => make(options, release, { image, files, target }))
        mounts.push({ Type: 'bind', Source: files, Target: target })
      }
      return mounts
    },
  }
}

/** Every user of a container sees its volume. Users of this machine cannot reach the files. */
const modes = { volumes: 0o711, volume: 0o700, files: 0o755 } as const

async function make(
  options: VolumesOptions,
  release: Release,
  volume: { readonly image: string; readonly files: string; readonly target: string },
): Promise<void> {
  options.fence()
  const { files } = volume
  const folder = dirname(files)
  await mkdir(folder, { recursive: true })
  await chmod(dirname(folder), modes.volumes)
  await chmod(folder, modes.volume)
  if (await exists(files)) return
  // Left by a killed server.
  for (const name of await foldersIn(folder)) await removeFolder(join(folder, name))
  const fresh = join(folder, `new-${randomUUID()}`)
  await mkdir(fresh)
  await chmod(fresh, modes.files)
  await options.waiters.during('volume', (labels) =>
    copyFromImage(options, release, { ...volume, files: fresh }, labels),
  )
  await rename(fresh, files)
}

/** Copies the content of the image at the path, with owners and rights, from a container that never starts. */
async function copyFromImage(
  { engine, containers, server }: VolumesOptions,
  release: Release,
  { image, files, target }: { readonly image: string; readonly files: string; readonly target: string },
  labels: Readonly<Record<string, string>>,
): Promise<void> {
  const id = await containers.create({
    Image: image,
    Entrypoint: ['/none'],
    Labels: { ...noLabels, ...labelsOf(server, release), ...labels },
    HostConfig: { NetworkMode: 'none' },
  })
  try {
    // The dot makes the engine follow a link within the image.
    const query = { path: `${target}/.` }
    const archive = await engine
      .open({ method: 'GET', path: ['containers', id, 'archive'], query })
      .catch(unlessNoFolder)
    if (archive !== null) await unpack(archive, files)
  } finally {
    await containers.remove(id)
  }
}

/** Returns null when the image has nothing or a file at the path: with a file, no container starts with the volume. */
function unlessNoFolder(error: unknown): null {
  if (!(error instanceof EngineError)) throw error
  if (error.status === 404 || /not a directory/i.test(error.detail)) return null
  throw error
}

async function unpack(archive: Readable, folder: string): Promise<void> {
  const options = { cwd: folder, env: { PATH: SYSTEM_FOLDERS.join(':') } }
  const args = ['--extract', '--file=-', '--preserve-permissions', '--same-owner', '--numeric-owner']
  const tar = startProcess('tar', args, { ...options, stdio: ['pipe', 'ignore', 'ignore'] })
  if (tar.stdin === null) throw new Error('tar has no input')
  // Waits for both, because each may fail first.
  await Promise.all([pipeline(archive, tar.stdin), assertEnded('tar', once(tar, 'close'))])
  // A volume contains only files, folders and links.
  const kinds = ['(', '-type', 'b', '-o', '-type', 'c', ')', '-delete']
  await assertEnded('find', once(startProcess('find', ['-P', '.', ...kinds], { ...options, stdio: 'ignore' }), 'close'))
}

async function assertEnded(program: string, ended: Promise<unknown[]>): Promise<void> {
  const [code] = await ended
  if (code !== 0) throw new Error(`${program} ended with code ${code}`)
}
