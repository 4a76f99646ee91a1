/** The most volumes that an app may name. */
export const mostVolumes = 8

/** No two names become the same variable. */
const namePattern = /^[a-z][a-z0-9-]{0,29}$/
const pathPattern = /^(?:\/(?!\.{1,2}(?:\/|$))[A-Za-z0-9._@+-]+)+$/
const longestPath = 200

/** The system's own folders: no volume is one of them, or inside. */
const system = [
  ...['/proc', '/sys', '/dev', '/etc', '/run', '/tmp', '/boot', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32'],
  ...['/usr/bin', '/usr/sbin', '/usr/lib', '/usr/lib32', '/usr/lib64', '/usr/libexec', '/var/run', '/var/tmp'],
]
/** Folders that programs are in, or that hold folders of several programs: no volume takes the place of one. */
const shared = ['/usr', '/usr/local', '/usr/local/bin', '/usr/share', '/opt', '/var', '/var/lib', '/home']

/** A rule that the volumes of an app break. */
export interface VolumeProblem {
  /** The volume that breaks it; null for all of them. */
  readonly name: string | null
  /** Completes a sentence about it: `must be …`. */
  readonly message: string
}

/**
 * Returns the first thing that is wrong with the volumes of an app; null when nothing is.
 *
 * @param volumes the absolute path of each in the app, by its name
 */
export function volumeProblem(volumes: Readonly<Record<string, string>>): VolumeProblem | null {
  const entries = Object.entries(volumes)
  if (entries.length > mostVolumes) return { name: null, message: `must be at most ${mostVolumes} volumes` }
  for (const [name, path] of entries) {
    if (!namePattern.test(name)) {
      const form = 'has a name that is not of lower-case letters, digits and hyphens, beginning with a letter, up to 30'
      return { name, message: form }
    }
    const message = pathProblem(path)
    if (message !== null) return { name, message }
    const other = entries.find(([each, at]) => each !== name && (at === path || isInside(at, path)))
    if (other !== undefined) return { name, message: `must not hold the volume "${other[0]}", or be at its path` }
  }
  return null
}

/** True for a name that a volume can have. */
export const isVolumeName = (name: string): boolean => namePattern.test(name)

/** The variable that tells an app where a volume is: `FAIRLEAD_VOLUME_UPLOADS`. */
export const volumeVariable = (name: string): string => `FAIRLEAD_VOLUME_${name.toUpperCase().replaceAll('-', '_')}`

/** True for a path within a folder. Both are absolute. */
export const isInside = (path: string, folder: string): boolean => path.startsWith(`${folder}/`)

function pathProblem(path: string): string | null {
  if (path.length > longestPath || !pathPattern.test(path)) {
    return `must be an absolute path such as "/var/lib/uploads", of letters, digits and . _ @ + -, without "..", up to ${longestPath} characters`
  }
  const folder = system.find((each) => path === each || isInside(path, each))
  if (folder !== undefined) return `must not be in ${folder}, which belongs to the system`
  if (shared.includes(path)) return `must not be ${path} itself: name a folder of the app inside`
  return path.startsWith('/.fairlead') ? 'must not be a path of Fairlead' : null
}
