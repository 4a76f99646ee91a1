import type { Finding } from '../../platform/machine/finding.ts'
import { engineCapabilities, type FoundEngine, freeUnlessShared } from './capabilities.ts'

const subject = 'containers'

/** Tells an operator what the server can do with the engine. */
export function engineFindings(found: FoundEngine, socket: string): Finding[] {
  if (!found.ok) return [{ subject, state: 'broken', found: `${socket}: ${found.reason}`, cost: adviceFor(found.code) }]
  const { version, info } = found
  const { warning } = engineCapabilities(found)
  const text = `Docker ${version.Version}, API ${version.api}, ${info.Driver}`
  const first: Finding =
    warning === null ? { subject, state: 'ok', found: text } : { subject, state: 'missing', found: text, cost: warning }
  const restarts: Finding = info.LiveRestoreEnabled
    ? { subject: 'live-restore', state: 'ok', found: 'containers go on while the Docker engine is started again' }
    : {
        subject: 'live-restore',
        state: 'missing',
        found: 'off',
        cost: 'all containers end when the Docker engine is stopped, also for its updates, and are started again after that. Set "live-restore": true in /etc/docker/daemon.json.',
      }
  return [first, restarts]
}

/**
 * Tells an operator how much is free on the engine's disk, where that is another one than the data directory's.
 *
 * @param reserveBytes while less is free, no image is deployed
 */
export async function engineDiskFindings(
  found: FoundEngine,
  dataDirectory: string,
  reserveBytes: number,
): Promise<Finding[]> {
  if (!found.ok) return []
  const { DockerRootDir: root } = found.info
  const free = await freeUnlessShared(root, dataDirectory).catch(() => null)
  if (free === null) return []
  const about = { subject: 'disk of containers', found: `${Math.floor(free / 1_000_000)} MB free` }
  if (free >= reserveBytes) return [{ ...about, state: 'ok' }]
  const cost = `no image is deployed below ${reserveBytes / 1_000_000} MB (FAIRLEAD_RESERVE_MB). Make room for ${root}.`
  return [{ ...about, state: 'broken', cost }]
}

function adviceFor(code: string | null): string {
  if (code === 'EACCES')
    return 'the user of the server may not use it: add that user to the group docker, who is root by that.'
  if (code === 'ENOENT' || code === 'ECONNREFUSED') {
    return 'no image and no Dockerfile can be deployed: start Docker, or set FAIRLEAD_RUNTIME=process.'
  }
  return 'no image and no Dockerfile can be deployed.'
}
