import { reservedVariables } from '../../../contract/variable-values.ts'

/** The names of services, by which the others reach them. */
export interface Addresses {
  readonly databases: readonly string[]
  readonly apps: readonly string[]
}

/** The address of a database in a value, such as `postgresql+asyncpg://user:password@db:5432/shop`. */
const databaseUrl = /^postgres(?:ql)?(?:\+\w+)?:\/\/(?:[^/@]*@)?([\w.-]+)(?::\d+)?(?:\/|\?|$)/i
/** The hosts of addresses in a value. */
const hosts = /(?<=:\/\/(?:[^/@\s]*@)?)[\w.-]+(?=[:/?]|$)/g
const hostVariable = /(HOST|HOSTNAME|SERVER|ADDR|ADDRESS)$/i

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
  const { addresses, needs, note } = given
  const variables: Record<string, string> = {}
  const databases: Record<string, string> = {}
  const parts: string[] = []
  for (const [name, value] of Object.entries(environment)) {
    const host = databaseUrl.exec(value)?.[1]
    if ((reservedVariables as readonly string[]).includes(name)) note(`${name} is set by Fairlead.`)
    else if (host !== undefined && addresses.databases.includes(host)) databases[name] = host
    else if (addresses.databases.some((database) => value === database || value.startsWith(`${database}:`)))
      parts.push(name)
    else variables[name] = moved(name, value, addresses.apps, note)
  }
  const linked = Object.values(databases)
  for (const database of needs.filter((each) => addresses.databases.includes(each) && !linked.includes(each))) {
    const free = Object.hasOwn(databases, 'DATABASE_URL') || Object.hasOwn(variables, 'DATABASE_URL')
    const name = free ? `${database.toUpperCase().replace(/\W/g, '_')}_URL` : 'DATABASE_URL'
    databases[name] = database
    note(`gets the address of ${database}, with its user and password, as ${name}.`)
  }
  if (parts.length > 0) {
    note(
      `${parts.join(', ')} named a part of the address of a database, and ${parts.length === 1 ? 'is' : 'are'} left out.`,
    )
  }
  return { variables, databases }
}

function moved(name: string, value: string, apps: readonly string[], note: (text: string) => void): string {
  const isHost = hostVariable.test(name) && apps.includes(value)
  const changed = isHost
    ? `${value}.internal`
    : value.replace(hosts, (host) => (apps.includes(host) ? `${host}.internal` : host))
  if (changed !== value) note(`${name} names the app by its address here, which ends with .internal.`)
  return changed
}
