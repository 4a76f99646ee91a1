import { slugOf } from '../../../contract/resources/hosts/slug.ts'
import { freeVariableName, reservedVariables } from '../../../contract/variable-values.ts'
import type { Service } from './file.ts'

/** The names of services, by which the others reach them. */
export interface Addresses {
  readonly databases: readonly string[]
  readonly apps: readonly string[]
  /** The service that each host name of the file leads to. */
  readonly hosts: ReadonlyMap<string, string>
}

/** A value that is the address of a database, such as `postgresql+asyncpg://user:password@db:5432/shop`. */
const databaseUrl = /^(postgres(?:ql)?(?:\+\w+)?):\/\/(?:[^/@]*@)?([\w.-]+)(?::\d+)?(?:\/[^?]*)?(\?.*)?$/is
/** Hosts that are certain in any value: those of addresses, before a port, and as `host=name`. */
const certainHost =
  /(?<=:\/\/(?:[^/@\s]*@)?)[\w.-]+(?=[:/?,;\s"']|$)|(?<![\w.:/@-])[\w-]+(?=:\d{2,5}(?![\w.-]))|(?<=\b(?:host|server)=)[\w.-]+/gi
/** Variables whose value is a host, or several. */
const hostVariable = /(HOSTS?|HOST_?NAMES?|SERVERS?|ADDR|ADDRESS(ES)?|ENDPOINTS?|BROKERS?|SEEDS?|GATEWAY)$/i
const listedHost = /(?<![^,;\s])[\w.-]+(?![^,;\s])/g

/** Returns the names by which the services of a file reach each other. That of a service goes before the other ones. */
export function hostsOf(services: Readonly<Record<string, Service>>): Map<string, string> {
  const hosts = new Map<string, string>()
  for (const [name, { container_name, hostname, networks }] of Object.entries(services)) {
    const aliases = Object.values(Object(networks)).flatMap((network) => Object(network).aliases ?? [])
    for (const host of [container_name, hostname, ...aliases]) if (typeof host === 'string') hosts.set(host, name)
  }
  for (const name of Object.keys(services)) hosts.set(name, name)
  return hosts
}

/**
 * Returns the variables of an app, and the services that are its databases by the variables that have their addresses. Apps find
 * each other as `<app>.internal`, in place of the bare names of services.
 *
 * @param given.needs the services that this one depends on
 */
export function variablesOf(
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
