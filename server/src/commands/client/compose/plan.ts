import { isDeepStrictEqual } from 'node:util'
import { slugOf } from '../../../contract/fields.ts'
import { parseImageReference } from '../../../contract/image-reference.ts'
import { freeVariableName, reservedVariables } from '../../../contract/variables.ts'
import { isVolumeName, volumeProblem } from '../../../contract/volume-rules.ts'
import { type ComposeFile, dependenciesOf, endingServices, type Service } from './file.ts'

export interface AppToImport {
  readonly name: string
  /** An image, or the build folder relative to the compose file. */
  readonly source: { readonly image: string } | { readonly folder: string }
  readonly variables: Readonly<Record<string, string>>
  /** The services that become databases of the app, by the variable that gets the connection string. */
  readonly databases: Readonly<Record<string, string>>
  /** The volumes of an image. A build names its volumes in `fairlead.json`. */
  readonly volumes: Volumes
  readonly instances: number
  /** Keys that `fairlead.json` must have for a build; null if it needs none. */
  readonly settings: Readonly<Record<string, unknown>> | null
}

export interface DatabaseToImport {
  readonly name: string
  readonly version: string | null
}

type NamedService = readonly [name: string, service: Service]

export interface ImportPlan {
  readonly databases: readonly DatabaseToImport[]
  /** The apps in the order of their dependencies: an app follows the apps that it depends on. */
  readonly apps: readonly AppToImport[]
  /** One sentence for each setting that is dropped or changed. */
  readonly notes: readonly string[]
}

/** Keys that need no note: the import carries them over, or Fairlead does the same by default. */
const silentKeys = [
  ...['image', 'build', 'environment', 'env_file', 'command', 'entrypoint', 'volumes', 'depends_on', 'profiles'],
  ...['extends', 'scale', 'deploy', 'ports', 'expose', 'restart', 'init', 'pull_policy'],
]
/** Keys that need no note for a database, because Fairlead runs databases without containers. */
const silentDatabaseKeys = [
  ...['container_name', 'hostname', 'networks', 'healthcheck', 'user', 'shm_size', 'stop_grace_period', 'logging'],
]

export function planImport(file: ComposeFile): ImportPlan {
  const notes = file.otherKeys.map((key) => `${key}: is not carried over.`)
  if (file.missing.length > 0) notes.push(`${file.missing.join(', ')}: has no value, and is empty.`)
  const all = Object.entries(file.services)
  const ending = endingServices(file.services)
  const left = all.filter(([name, service]) => !isLeftOut(name, service, ending.includes(name), notes))
  const databases = left.flatMap(([name, service]) => databaseOf(name, service, notes))
  const isDatabase = (name: string) => databases.some((database) => database.name === name)
  const services = withoutSeconds(
    left.filter(([name]) => !isDatabase(name)),
    notes,
  )
  const addresses = {
    databases: databases.map(({ name }) => name),
    apps: services.map(([name]) => name),
    hosts: hostsOf(file.services),
  }
  const apps = services.flatMap(([name, service]) => appOf(file, addresses, name, service, notes))
  noteVolumes(file, Object.fromEntries(services), notes)
  const hidden = apps.filter(({ name }) => !isPublic(file.services[name]))
  if (hidden.length > 0) {
    const names = hidden.map(({ name }) => name).join(', ')
    notes.push(`${names}: cannot be reached from outside in Compose. Every app here has an address that can.`)
  }
  return { databases, apps: inOrder(apps, file.services), notes }
}

/**
 * Removes services that run another command of the same image or build, such as workers: as apps, they would start the
 * first service's program.
 */
function withoutSeconds(services: readonly NamedService[], notes: string[]): NamedService[] {
  const groups = Map.groupBy(services, ([, { image, build }]) => image ?? JSON.stringify(builtOf(build)))
  return [...groups.values()].flatMap((group) => {
    const first =
      group.find(([, service]) => commandOf(service).length === 0) ?? group.find(([, service]) => isPublic(service))
    return group.filter(([name, service]) => {
      const command = commandOf(service)
      if (first === undefined || first[0] === name || command.length === 0) return true
      const processes = { [name]: { command, instances: instancesOf(service) } }
      notes.push(
        first[1].build === undefined
          ? `${name}: is left out, because without its command it would be a second ${first[0]}. An image that is built with the command has it.`
          : `${name}: is left out, because it is a process type of ${first[0]}. Write in fairlead.json: "processes": ${JSON.stringify(processes)}`,
      )
      return false
    })
  })
}

const builtOf = (build: Service['build'] = '.') => (typeof build === 'string' ? { context: build } : build)

/** Returns the words that replace the command of the image; empty when the service sets no command. */
const commandOf = ({ entrypoint, command }: Service): string[] => [entrypoint, command].flatMap(wordsOf)

/** Returns the words of a command. A command with quotes or variables goes to a shell. */
function wordsOf(command: Service['command']): readonly string[] {
  if (typeof command !== 'string') return command ?? []
  const text = command.trim()
  if (/["'\\$`&|;<>]/.test(text)) return ['/bin/sh', '-c', `exec ${text}`]
  return text === '' ? [] : text.split(/\s+/)
}

const instancesOf = ({ scale, deploy }: Service): number => scale ?? deploy?.replicas ?? 1

/** True for a service that other machines can reach at a port. */
const isPublic = ({ ports = [] }: Service = {}): boolean =>
  ports.some(
    (port) => !/^(127\.|\[?::1|localhost:)/.test(typeof port === 'object' ? (port.host_ip ?? '') : String(port)),
  )

function noteVolumes(file: ComposeFile, services: ComposeFile['services'], notes: string[]): void {
  const users = Map.groupBy(
    Object.entries(services).flatMap(([name, service]) => volumesNamedBy(service).map((volume) => ({ name, volume }))),
    ({ volume }) => volume,
  )
  for (const [volume, found] of users) {
    const names = [...new Set(found.map(({ name }) => name))]
    if (names.length > 1) notes.push(`${volume}: is one volume of ${names.join(', ')}. Here each of them has its own.`)
    for (const [key, value] of Object.entries(file.volumes[volume] ?? {})) {
      if (!['name', 'labels'].includes(key) && value !== false && value !== 'local')
        notes.push(`${volume}: ${key} of the volume is not carried over.`)
    }
  }
}

/** Images of well-known programs that do not speak HTTP, by the last part of the image's name. */
const notHttp = new Set([
  ...['redis', 'valkey', 'keydb', 'dragonfly', 'memcached', 'mysql', 'mysql-server', 'mariadb', 'percona', 'mongo'],
  ...['mongodb', 'cassandra', 'rabbitmq', 'kafka', 'cp-kafka', 'nats', 'mosquitto'],
  ...['eclipse-mosquitto'],
])

function isNotHttp(image = ''): boolean {
  const reference = parseImageReference(image)
  return !('problem' in reference) && notHttp.has(reference.path.split('/').at(-1) ?? '')
}

function isLeftOut(
  name: string,
  { profiles = [], extends: base, image, build }: Service,
  isToEnd: boolean,
  notes: string[],
): boolean {
  const why =
    profiles.length > 0
      ? `is of the profile ${profiles.join(', ')}, and is left out: Compose does not start it by itself`
      : base !== undefined
        ? 'extends another service, and is left out: write it out'
        : image === undefined && build === undefined
          ? 'has neither an image nor a build, and is left out'
          : isToEnd
            ? 'is to end before others start, and is left out, because an app runs on: see fairlead run and the release line of a Procfile'
            : build === undefined && isNotHttp(image)
              ? 'is left out, because an app answers HTTP, which this image does not: run it elsewhere, and set the variables with its address'
              : null
  if (why !== null) notes.push(`${name}: ${why}.`)
  return why !== null
}

function databaseOf(name: string, service: Service, notes: string[]): DatabaseToImport[] {
  const { image, build, command, volumes = [] } = service
  if (image === undefined || build !== undefined) return []
  const reference = parseImageReference(image)
  if ('problem' in reference || !/(^|\/)postgres(ql)?$/.test(reference.path)) return []
  const version = /^\d+/.exec(reference.tag ?? '')?.[0] ?? null
  notes.push(`${name}: becomes an empty database. To bring the data: pg_dump there, psql here.`)
  if (!/^(library|bitnami|bitnamilegacy)\//.test(reference.path))
    notes.push(`${name}: extensions that its image adds to PostgreSQL are not there.`)
  noteKeys(service, silentDatabaseKeys, (text) => void notes.push(`${name}: ${text}`))
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
  noteKeys(service, service.build === undefined ? [] : ['read_only'], note)
  const { build, image = '', restart } = service
  if (build === undefined) {
    const reference = parseImageReference(image)
    if ('problem' in reference) {
      note(`is left out: the name of its image ${reference.problem}.`)
      return []
    }
  }
  notePorts(service, note)
  if (restart === 'no' || restart === false) note('is started again here when it ends.')
  noteCommand(service, note)
  const needs = dependenciesOf(service)
  const volumes = volumesOf(service.volumes ?? [], note)
  const instances = instancesOf(service)
  if (instances === 0) note('has no instance in Compose, and one here.')
  const common = { name, ...variablesOf(file.environments[name] ?? {}, { addresses, needs, note }) }
  const counted = { ...common, instances: Math.max(instances, 1) }
  if (build === undefined) return [{ ...counted, source: { image }, volumes, settings: null }]
  const built = builtOf(build)
  if (/^[a-z]+:\/\/|\.git(#|$)/.test(built.context)) {
    note(
      `is left out: its context is another repository. Deploy it with fairlead deploy ${built.context.split('#')[0]}`,
    )
    return []
  }
  const others = Object.keys(built).filter((key) => !['context', 'dockerfile', 'target'].includes(key))
  for (const key of others) note(`${key} of its build is not carried over.`)
  return [
    {
      ...counted,
      source: { folder: built.context },
      volumes: {},
      settings: settingsOf(built, volumes, service.read_only === true),
    },
  ]
}

function noteKeys(service: Service, silent: readonly string[], note: (text: string) => void): void {
  const keys = Object.keys(service).filter((key) => ![...silentKeys, ...silent].includes(key) && !key.startsWith('x-'))
  const deploy = Object.keys(service.deploy ?? {}).filter((key) => key !== 'replicas' && !silent.includes('deploy'))
  for (const key of [...keys, ...deploy.map((each) => `deploy.${each}`)]) note(`${key} is not carried over.`)
}

function notePorts({ ports = [] }: Service, note: (text: string) => void): void {
  const isUdp = (port: (typeof ports)[number]) =>
    typeof port === 'object' ? port.protocol === 'udp' : String(port).endsWith('/udp')
  const isRange = (port: (typeof ports)[number]) => /\d-\d/.test(typeof port === 'object' ? '' : String(port))
  if (ports.some(isUdp)) note('its UDP ports are not carried over.')
  const others = ports.filter((port) => !isUdp(port))
  if (others.length > 1 || others.some(isRange))
    note('has several ports. An app has one address, which leads to one of them.')
}

function noteCommand(service: Service, note: (text: string) => void): void {
  const command = commandOf(service)
  if (command.length === 0) return
  note(
    service.build === undefined
      ? 'its command is not carried over: the image starts with its own. An image that is built with the command has it.'
      : `its command is not carried over. Write in fairlead.json: "builder": "dockerfile", "start": ${JSON.stringify(command)}`,
  )
}

/** Returns the settings that `fairlead.json` needs for the same build and volumes as in Compose. */
function settingsOf(
  {
    dockerfile = 'Dockerfile',
    target,
  }: { readonly dockerfile?: string | undefined; readonly target?: string | undefined },
  volumes: Volumes,
  read_only: boolean,
): AppToImport['settings'] {
  const path = dockerfile.replace(/^\.\//, '')
  const own = { ...(path === 'Dockerfile' ? {} : { path }), ...(target === undefined ? {} : { target }) }
  const settings = {
    ...(Object.keys(own).length === 0 ? {} : { dockerfile: own }),
    ...(Object.keys(volumes).length === 0 ? {} : { volumes }),
    ...(read_only ? { read_only } : {}),
  }
  return Object.keys(settings).length === 0 ? null : settings
}

/** True when the `fairlead.json` of a repository has all settings that an app needs. */
export const saysAll = (found: Readonly<Record<string, unknown>>, needed: Readonly<Record<string, unknown>>): boolean =>
  Object.entries(needed).every(([key, value]) => isDeepStrictEqual(found[key], value))

/** Sorts apps by their dependencies. Apps that depend on each other keep the order of the file. */
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

interface Addresses {
  readonly databases: readonly string[]
  readonly apps: readonly string[]
  readonly hosts: ReadonlyMap<string, string>
}

/** Matches the address of a database, such as `postgresql+asyncpg://user:password@db:5432/shop`. */
const databaseUrl = /^(postgres(?:ql)?(?:\+\w+)?):\/\/(?:[^/@]*@)?([\w.-]+)(?::\d+)?(?:\/[^?]*)?(\?.*)?$/is
/** Matches host names that are certain in any value: in a URL, before a port, and in `host=name`. */
const certainHost =
  /(?<=:\/\/(?:[^/@\s]*@)?)[\w.-]+(?=[:/?,;\s"']|$)|(?<![\w.:/@-])[\w-]+(?=:\d{2,5}(?![\w.-]))|(?<=\b(?:host|server)=)[\w.-]+/gi
/** Matches the names of variables whose value is a host or a list of hosts. */
const hostVariable = /(HOSTS?|HOST_?NAMES?|SERVERS?|ADDR|ADDRESS(ES)?|ENDPOINTS?|BROKERS?|SEEDS?|GATEWAY)$/i
const listedHost = /(?<![^,;\s])[\w.-]+(?![^,;\s])/g

/** Returns the service of each host name. The name of a service takes precedence over aliases of other services. */
function hostsOf(services: Readonly<Record<string, Service>>): Map<string, string> {
  const hosts = new Map<string, string>()
  for (const [name, { container_name, hostname, networks }] of Object.entries(services)) {
    const aliases = Object.values(Object(networks)).flatMap((network) => Object(network).aliases ?? [])
    for (const host of [container_name, hostname, ...aliases]) if (typeof host === 'string') hosts.set(host, name)
  }
  for (const name of Object.keys(services)) hosts.set(name, name)
  return hosts
}

/**
 * Returns an app's variables, and its databases by the variables with their addresses. Apps reach each other as
 * `<app>.internal`.
 *
 * @param given.needs the services that this service depends on
 */
function variablesOf(
  environment: Readonly<Record<string, string>>,
  given: {
    readonly addresses: Addresses
    readonly needs: readonly string[]
    readonly note: (text: string) => void
  },
): { readonly variables: Record<string, string>; readonly databases: Record<string, string> } {
  const { addresses, note } = given
  const variables: Record<string, string> = {}
  const databases: Record<string, string> = {}
  const listed = { badNames: [] as string[], moved: [] as string[], parts: [] as string[], gone: [] as string[] }
  const needs = new Set(given.needs)
  for (const [name, value] of Object.entries(environment)) {
    if ((reservedVariables as readonly string[]).includes(name)) note(`${name} is set by Fairlead.`)
    else if (!freeVariableName.safeParse(name).success) listed.badNames.push(name)
    else {
      const [, scheme = '', host = '', query] = databaseUrl.exec(value) ?? []
      const named = servicesIn(name, value, addresses)
      const database = named.find((service) => addresses.databases.includes(service))
      if (database !== undefined && addresses.hosts.get(host) === database) {
        databases[name] = database
        if (scheme.includes('+')) note(`${name} begins with postgresql:// here, in place of ${scheme}://.`)
        if (query !== undefined) note(`the parameters of the address in ${name} are not carried over.`)
      } else if (database !== undefined && !value.includes('\n')) {
        needs.add(database)
        listed.parts.push(name)
      } else {
        variables[name] = moved(name, value, addresses)
        if (variables[name] !== value) listed.moved.push(name)
        if (named.some((service) => !addresses.apps.includes(service))) listed.gone.push(name)
      }
    }
  }
  const linked = Object.values(databases)
  for (const database of [...needs].filter((each) => addresses.databases.includes(each) && !linked.includes(each))) {
    const taken = Object.hasOwn(databases, 'DATABASE_URL') || Object.hasOwn(variables, 'DATABASE_URL')
    const name = taken ? `${database.toUpperCase().replace(/\W/g, '_')}_URL` : 'DATABASE_URL'
    databases[name] = database
    note(`gets the address of ${database}, with its user and password, as ${name}.`)
  }
  const { badNames, gone } = listed
  const parts = listed.parts.filter((name) => !Object.hasOwn(databases, name))
  if (parts.length > 0) {
    note(
      `${parts.join(', ')} named a part of the address of a database, and ${parts.length === 1 ? 'is' : 'are'} left out.`,
    )
  }
  if (listed.moved.length > 0) note(`The addresses of apps in ${listed.moved.join(', ')} end with .internal here.`)
  if (gone.length > 0) note(`${gone.join(', ')} still names a service that is not at that name here: set it anew.`)
  if (badNames.length > 0) {
    note(`${badNames.join(', ')} is left out: names of variables have letters, digits and underscores here.`)
  }
  return { variables, databases }
}

const patternsOf = (name: string): readonly RegExp[] =>
  hostVariable.test(name) ? [certainHost, listedHost] : [certainHost]

const servicesIn = (name: string, value: string, { hosts }: Addresses): string[] =>
  patternsOf(name).flatMap((pattern) => (value.match(pattern) ?? []).flatMap((host) => hosts.get(host) ?? []))

const moved = (name: string, value: string, { hosts, apps }: Addresses): string =>
  patternsOf(name).reduce(
    (text, pattern) =>
      text.replace(pattern, (host) => {
        const service = hosts.get(host)
        return service !== undefined && apps.includes(service) ? `${slugOf(service)}.internal` : host
      }),
    value,
  )

type Volumes = Readonly<Record<string, string>>

/** Returns the volumes of a service, with names that Fairlead allows. Notes mounts that Fairlead does not support. */
function volumesOf(mounts: NonNullable<Service['volumes']>, note: (text: string) => void): Volumes {
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

const volumesNamedBy = ({ volumes = [] }: Service): string[] =>
  volumes.flatMap((each) => {
    const { type, source } = typeof each === 'string' ? parsed(each) : { type: 'volume', ...each }
    return type === 'volume' && source !== undefined ? [source] : []
  })

/** Reads `[source:]target[:options]`. A path as the source is a folder of the machine. */
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
