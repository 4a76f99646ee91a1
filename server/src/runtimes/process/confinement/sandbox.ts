import { join } from 'node:path'
import { volumeFiles } from '../../../platform/disk/volumes.ts'
import type { SandboxView } from '../../../platform/machine/sandbox/arguments.ts'
import type { LocalRelease } from '../release/layout.ts'
import type { HostCapabilities } from './capabilities.ts'
import type { Kind } from './limits.ts'

/** Programs look for the limits of their control group here (cgroups(7)). */
const groupsFolder = '/sys/fs/cgroup'

/** The folder with the names of the other apps of the project: a file of its own would go on as it was when it is replaced. */
const hostsFolder = '/.project'

/**
 * Returns what a command of a release sees: its own folders, and the programs that it runs with. None of the server's other
 * files exists in there. The limits of its own control group are readable, because Java, Go and Node adapt to them.
 *
 * @param group the name of its control group
 */
export function viewOf(
  release: Pick<LocalRelease, 'paths' | 'user' | 'origins' | 'volumes' | 'projectId'>,
  kind: Kind,
  group: string,
  host: Pick<HostCapabilities, 'cgroups' | 'builds' | 'programs' | 'dataDirectory' | 'networks'>,
): SandboxView {
  const { paths, user, origins, volumes = {} } = release
  const { programs, dataDirectory } = host
  const cgroups = kind === 'build' ? host.builds : host.cgroups
  const own = [paths.directory, paths.home, paths.temporary]
  const groups = Object.entries(cgroups?.folders ?? {}).map(([controller, folder]) => ({
    from: join(folder, group),
    at: cgroups?.version === 2 ? groupsFolder : join(groupsFolder, controller),
  }))
  const accounts = [
    { from: paths.passwd, at: '/etc/passwd' },
    { from: paths.group, at: '/etc/group' },
  ]
  const hosts = kind === 'app' ? (host.networks?.hostsOf(release.projectId) ?? null) : null
  const placed = Object.entries(kind === 'build' ? {} : volumes).map(([name, at]) => ({
    from: volumeFiles(paths.volumes, name),
    at,
  }))
  return {
    readable: programs,
    writable: [...own, ...(kind === 'build' ? [paths.cache] : []), ...placed.map(({ from }) => from)],
    placed,
    hidden: [dataDirectory],
    mounted: [
      ...(cgroups?.version === 2 ? groups.slice(0, 1) : groups),
      ...(user === null ? [] : accounts),
      ...(hosts === null ? [] : [{ from: hosts, at: hostsFolder }]),
    ],
    links: [
      // The files of a build may name the folder that it was made in.
      ...origins.map((at) => ({ at, to: paths.source })),
      ...(hosts === null ? [] : [{ at: '/etc/hosts', to: join(hostsFolder, 'hosts') }]),
    ],
    directory: paths.source,
  }
}
