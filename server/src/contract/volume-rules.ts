export const mostVolumes = 8

/** Two such names never give the same variable. */
const namePattern = /^[a-z][a-z0-9-]{0,29}$/
const pathPattern = /^(?:\/(?!\.{1,2}(?:\/|$))[A-Za-z0-9._@+-]+)+$/
const longestPath = 200

/** A volume must not be such a folder, or be inside one. */
const system = [
  ...['/proc', '/sys', '/dev', '/etc', '/run', '/tmp', '/boot', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32'],
  ...['/usr/bin', '/usr/sbin', '/usr/lib', '/usr/lib32', '/usr/lib64', '/usr/libexec', '/var/run', '/var/tmp'],
]
/** A volume must not replace such a folder. */
const shared = ['/usr', '/usr/local', '/usr/local/bin', '/usr/share', '/opt', '/var', '/var/lib', '/home']

export interface VolumeProblem {
  /** The volume that violates the rule; null for all volumes together. */
  readonly name: string | null
  /** Completes a sentence about the volume: `must be …`. */
  readonly message: string
}

/**
 * Returns the first problem with the volumes of an app; null without problems.
 *
 * @param volumes each volume's absolute path in the app, by name
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

export const isVolumeName = (name: string): boolean => namePattern.test(name)

/** Returns the variable that tells an app the path of a volume, such as `FAIRLEAD_VOLUME_UPLOADS`. */
export const volumeVariable = (name: string): string => `FAIRLEAD_VOLUME_${name.toUpperCase().replaceAll('-', '_')}`

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
