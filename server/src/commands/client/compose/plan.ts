import { isDeepStrictEqual } from 'node:util'
import { parseImageReference } from '../../../contract/image-reference.ts'
import { type ComposeFile, dependenciesOf, type Service } from './file.ts'
import { type Addresses, variablesOf } from './values.ts'
import { type Volumes, volumesOf } from './volumes.ts'

/** A service that becomes an app. */
export interface AppToImport {
  readonly name: string
  /** An image, or the folder of a build relative to the compose file. */
  readonly source: { readonly image: string } | { readonly folder: string }
  readonly variables: Readonly<Record<string, string>>
  /** The services that become its databases, by the variable of the connection string. */
  readonly databases: Readonly<Record<string, string>>
  /** Those of an image; a build has them in its `fairlead.json`. */
  readonly volumes: Volumes
  readonly instances: number
  /** Keys that `fairlead.json` must have for a build, beside the folder of the app; null for none. */
  readonly settings: Readonly<Record<string, unknown>> | null
}

export interface DatabaseToImport {
  readonly name: string
  /** The major version that the image's tag names. */
  readonly version: string | null
}

/** The parts of a project that a compose file becomes. */
export interface ImportPlan {
  readonly databases: readonly DatabaseToImport[]
  /** Each after those that it depends on. */
  readonly apps: readonly AppToImport[]
  /** One sentence for each thing that is not carried over, or changed. */
  readonly notes: readonly string[]
}

/** These need no word: they are carried over, or Fairlead does what they ask for. */
const silentKeys = [
  ...[
    'image',
    'build',
    'environment',
    'env_file',
    'command',
    'entrypoint',
    'volumes',
    'depends_on',
    'profiles',
    'extends',
  ],
  ...['scale', 'deploy', 'ports', 'expose', 'restart', 'links', 'init', 'platform', 'pull_policy'],
]

/** Returns what the services of a compose file become. */
export function planImport(file: ComposeFile): ImportPlan {
  const notes = file.otherKeys.map((key) => `${key}: is not carried over.`)
  const all = Object.entries(file.services)
  const left = all.filter(([name, service]) => !isLeftOut(name, service, notes))
  const databases = left.flatMap(([name, service]) => databaseOf(name, service, notes))
  const isDatabase = (name: string) => databases.some((database) => database.name === name)
  const services = left.filter(([name]) => !isDatabase(name))
  const addresses = { databases: databases.map(({ name }) => name), apps: services.map(([name]) => name) }
  const apps = services.flatMap(([name, service]) => appOf(file, addresses, name, service, notes))
  return { databases, apps: inOrder(apps, file.services), notes }
}

function isLeftOut(name: string, { profiles = [], extends: base, image, build }: Service, notes: string[]): boolean {
  const why =
    profiles.length > 0
      ? `is of the profile ${profiles.join(', ')}, and is left out: Compose does not start it by itself`
      : base !== undefined
        ? 'extends another service, and is left out: write it out'
        : image === undefined && build === undefined
          ? 'has neither an image nor a build, and is left out'
          : null
  if (why !== null) notes.push(`${name}: ${why}.`)
  return why !== null
}

/** Returns the database that a service with an image of PostgreSQL becomes. */
function databaseOf(
  name: string,
  { image, build, command, volumes = [] }: Service,
  notes: string[],
): DatabaseToImport[] {
  if (image === undefined || build !== undefined) return []
  const reference = parseImageReference(image)
  if ('problem' in reference || !/(^|\/)postgres(ql)?$/.test(reference.path)) return []
  const version = /^\d+/.exec(reference.tag ?? '')?.[0] ?? null
  notes.push(`${name}: becomes an empty database. To bring the data: pg_dump there, psql here.`)
  if (command !== undefined && command !== null)
    notes.push(`${name}: the settings in its command are not carried over.`)
  if (volumes.some((each) => JSON.stringify(each).includes('/docker-entrypoint-initdb.d'))) {
    notes.push(`${name}: the scripts in /docker-entrypoint-initdb.d are not run. Run them with psql.`)
  }
  return [{ name, version }]
}

function appOf(
  file: ComposeFile,
  addresses: Addresses,
  name: string,
  service: Service,
  notes: string[],
): AppToImport[] {
  const note = (text: string) => void notes.push(`${name}: ${text}`)
  for (const key of Object.keys(service)) {
    if (!silentKeys.includes(key) && !key.startsWith('x-')) note(`${key} is not carried over.`)
  }
  const { build, image = '', ports = [] } = service
  if (build === undefined) {
    const reference = parseImageReference(image)
    if ('problem' in reference) {
      note(`is left out: the name of its image ${reference.problem}.`)
      return []
    }
  }
  for (const key of Object.keys(service.deploy ?? {})) {
    if (key !== 'replicas') note(`deploy.${key} is not carried over.`)
  }
  if (ports.length > 1) note('has several ports. An app has one address, which leads to one of them.')
  noteCommand(service, note)
  const needs = dependenciesOf(service)
  const volumes = volumesOf(service.volumes ?? [], note)
  const instances = service.scale ?? service.deploy?.replicas ?? 1
  if (instances === 0) note('has no instance in Compose, and one here.')
  const common = { name, ...variablesOf(file.environments[name] ?? {}, { addresses, needs, note }) }
  const counted = { ...common, instances: Math.max(instances, 1) }
  if (build === undefined) return [{ ...counted, source: { image }, volumes, settings: null }]
  const built = typeof build === 'string' ? { context: build } : build
  if (/^[a-z]+:\/\/|\.git(#|$)/.test(built.context)) {
    note(
      `is left out: its context is another repository. Deploy it with fairlead deploy ${built.context.split('#')[0]}`,
    )
    return []
  }
  const others = Object.keys(built).filter((key) => !['context', 'dockerfile', 'target'].includes(key))
  for (const key of others) note(`${key} of its build is not carried over.`)
  return [{ ...counted, source: { folder: built.context }, volumes: {}, settings: settingsOf(built, volumes) }]
}

function noteCommand({ build, command, entrypoint }: Service, note: (text: string) => void): void {
  const own = [command, entrypoint].find((each) => each !== undefined && each !== null)
  if (own === undefined) return
  note(
    build === undefined
      ? 'its command is not carried over: the image starts with its own. An image that is built with the command has it.'
      : 'its command is not carried over: name it in fairlead.json, as start, or as a process type of the app that has the same build.',
  )
}

/** Returns what `fairlead.json` must say so that the build is that of Compose, and has its volumes. */
function settingsOf(
  {
    dockerfile = 'Dockerfile',
    target,
  }: { readonly dockerfile?: string | undefined; readonly target?: string | undefined },
  volumes: Volumes,
): AppToImport['settings'] {
  const path = dockerfile.replace(/^\.\//, '')
  const own = { ...(path === 'Dockerfile' ? {} : { path }), ...(target === undefined ? {} : { target }) }
  const settings = {
    ...(Object.keys(own).length === 0 ? {} : { dockerfile: own }),
    ...(Object.keys(volumes).length === 0 ? {} : { volumes }),
  }
  return Object.keys(settings).length === 0 ? null : settings
}

/** True when the `fairlead.json` of a repository says what an app needs. */
export const saysAll = (found: Readonly<Record<string, unknown>>, needed: Readonly<Record<string, unknown>>): boolean =>
  Object.entries(needed).every(([key, value]) => isDeepStrictEqual(found[key], value))

/** Sorts apps by what they depend on; those that depend on each other stay as they are written. */
function inOrder(apps: readonly AppToImport[], services: ComposeFile['services']): AppToImport[] {
  const sorted = new Set<AppToImport>()
  const visit = (app: AppToImport, path: readonly AppToImport[]): void => {
    if (sorted.has(app) || path.includes(app)) return
    const service = services[app.name]
    for (const name of service === undefined ? [] : dependenciesOf(service)) {
      const needed = apps.find((each) => each.name === name)
      if (needed !== undefined) visit(needed, [...path, app])
    }
    sorted.add(app)
  }
  for (const app of apps) visit(app, [])
  return [...sorted]
}
