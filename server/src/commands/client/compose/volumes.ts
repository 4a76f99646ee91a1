import { isVolumeName, volumeProblem } from '../../../contract/volume-rules.ts'
import type { Service } from './file.ts'

/** The path of each volume in the app, by its name. */
export type Volumes = Readonly<Record<string, string>>

/** Returns the volumes of a service under names that Fairlead allows. Notes what is mounted besides, and cannot be. */
export function volumesOf(mounts: NonNullable<Service['volumes']>, note: (text: string) => void): Volumes {
  const volumes: Record<string, string> = {}
  for (const each of mounts) {
    const { type, source, target, read_only } = typeof each === 'string' ? parsed(each) : { type: 'volume', ...each }
    if (type !== 'volume') {
      note(
        `${target} is a ${type} mount of ${source ?? 'memory'}, and is not carried over: put the files into the image or a volume.`,
      )
      continue
    }
    const name = free(named(source ?? target), volumes)
    const path = target.replace(/\/+$/, '')
    const problem = volumeProblem({ ...volumes, [name]: path })
    if (problem === null) {
      volumes[name] = path
      if (read_only === true) note(`the volume at ${target} can be written to here.`)
    } else note(`the volume at ${target} ${problem.message}, and is not carried over.`)
  }
  return volumes
}

/** Returns the names of the volumes that a service mounts. */
export const volumesNamedBy = ({ volumes = [] }: Service): string[] =>
  volumes.flatMap((each) => {
    const { type, source } = typeof each === 'string' ? parsed(each) : { type: 'volume', ...each }
    return type === 'volume' && source !== undefined ? [source] : []
  })

/** Reads `[source:]target[:options]`. A source that is a path is a folder of the machine. */
function parsed(text: string): {
  readonly type: string
  readonly source: string | undefined
  readonly target: string
  readonly read_only: boolean
} {
  const [first = '', second, options = ''] = text.split(':')
  const read_only = options.split(',').includes('ro')
  if (second === undefined) return { type: 'volume', source: undefined, target: first, read_only }
  return { type: /^[./~]/.test(first) ? 'bind' : 'volume', source: first, target: second, read_only }
}

function named(source: string): string {
  const name = source
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^[^a-z]+|-+$/g, '')
    .slice(0, 28)
  return isVolumeName(name) ? name : 'volume'
}

function free(name: string, taken: Volumes): string {
  for (let number = 2; ; number++) {
    if (!Object.hasOwn(taken, name)) return name
    const next = `${name}-${number}`
    if (!Object.hasOwn(taken, next)) return next
  }
}
