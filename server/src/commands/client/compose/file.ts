import { existsSync, statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { parse } from 'yaml'
import { type ZodError, z } from 'zod'
import { CommandError } from '../command-error.ts'
import { readVariables } from '../variables.ts'
import { interpolate } from './interpolate.ts'

/** The names that Compose looks for in a folder, in its order. */
const names = ['compose.yaml', 'compose.yml', 'docker-compose.yaml', 'docker-compose.yml']

const scalar = z.union([z.string(), z.number(), z.boolean(), z.null()])
const words = z.union([z.string(), z.array(z.string())])

const mount = z.union([
  z.string(),
  z.looseObject({ type: z.string().optional(), source: z.string().optional(), target: z.string() }),
])

/** The keys of a service that are read; the others are listed by their names. */
const service = z.looseObject({
  image: z.string().optional(),
  build: z
    .union([
      z.string(),
      z.looseObject({
        context: z.string().default('.'),
        dockerfile: z.string().optional(),
        target: z.string().optional(),
      }),
    ])
    .optional(),
  environment: z.union([z.array(z.string()), z.record(z.string(), scalar)]).optional(),
  env_file: z
    .union([
      z.string(),
      z.array(z.union([z.string(), z.looseObject({ path: z.string(), required: z.boolean().optional() })])),
    ])
    .optional(),
  command: words.nullable().optional(),
  entrypoint: words.nullable().optional(),
  volumes: z.array(mount).optional(),
  depends_on: z.union([z.array(z.string()), z.record(z.string(), z.unknown())]).optional(),
  ports: z.array(z.unknown()).optional(),
  profiles: z.array(z.string()).optional(),
  extends: z.unknown().optional(),
  scale: z.int().nonnegative().optional(),
  deploy: z.looseObject({ replicas: z.int().nonnegative().optional() }).optional(),
})

const composeFile = z.looseObject({ services: z.record(z.string(), service) })

export type Service = z.infer<typeof service>

/** A compose file with its variables put in. */
export interface ComposeFile {
  /** The folder of the file, which its paths are relative to. */
  readonly folder: string
  readonly services: Readonly<Record<string, Service>>
  /** The variables of each service, those of its `env_file` included. */
  readonly environments: Readonly<Record<string, Readonly<Record<string, string>>>>
  /** The keys at the top beside `services`. */
  readonly otherKeys: readonly string[]
}

/**
 * Reads a compose file, or the one of a folder, with the variables of the environment and of the `.env` beside the file. Throws a
 * `CommandError` that says what is wrong.
 */
export async function readComposeFile(
  given: string,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<ComposeFile> {
  const path = findFile(given)
  const folder = dirname(path)
  const variables = { ...(await dotenvBeside(folder)), ...definedOf(environment) }
  const parsed = parseYaml(await readFile(path, 'utf8'), path)
  const read = composeFile.safeParse(interpolateAll(parsed, variables))
  if (!read.success) throw new CommandError(`${path} is no compose file that can be read: ${firstProblem(read.error)}`)
  const { services, ...others } = read.data
  const environments: Record<string, Record<string, string>> = {}
  for (const [name, each] of Object.entries(services)) {
    environments[name] = { ...(await fromFiles(folder, each)), ...fromEnvironment(each, variables) }
  }
  const otherKeys = Object.keys(others).filter(
    (key) => !['version', 'name', 'volumes'].includes(key) && !key.startsWith('x-'),
  )
  return { folder, services, environments, otherKeys }
}

function findFile(given: string): string {
  const path = resolve(given)
  if (!existsSync(path)) throw new CommandError(`There is no file or folder ${given}.`)
  if (!statSync(path).isDirectory()) return path
  const found = names.map((name) => join(path, name)).find((each) => existsSync(each))
  if (found === undefined) throw new CommandError(`The folder ${given} has no ${names.join(', ')}.`)
  return found
}

function parseYaml(text: string, path: string): unknown {
  try {
    return parse(text, { merge: true })
  } catch (error) {
    throw new CommandError(`${path} is no YAML: ${(error as Error).message}`)
  }
}

/** Values alone have variables, no keys: as Compose does it. */
function interpolateAll(value: unknown, variables: Readonly<Record<string, string>>): unknown {
  if (typeof value === 'string') return interpolate(value, variables)
  if (Array.isArray(value)) return value.map((each) => interpolateAll(each, variables))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, interpolateAll(each, variables)]))
}

function firstProblem({ issues }: ZodError): string {
  const [first] = issues
  return first === undefined ? '' : `${first.path.join('.')}: ${first.message}`
}

const dotenvBeside = async (folder: string): Promise<Record<string, string>> =>
  existsSync(join(folder, '.env')) ? readVariables([], join(folder, '.env')) : {}

async function fromFiles(folder: string, { env_file = [] }: Service): Promise<Record<string, string>> {
  const variables: Record<string, string> = {}
  for (const each of typeof env_file === 'string' ? [env_file] : env_file) {
    const { path, required = true } = typeof each === 'string' ? { path: each } : each
    const file = resolve(folder, path)
    if (required || existsSync(file)) Object.assign(variables, await readVariables([], file))
  }
  return variables
}

/** A variable without a value has that of the environment, and none where that has none. */
function fromEnvironment(
  { environment = [] }: Service,
  outer: Readonly<Record<string, string>>,
): Record<string, string> {
  const pairs = Array.isArray(environment)
    ? environment.map((text): [string, string | undefined] => {
        const [name = '', ...value] = text.split('=')
        return [name, value.length === 0 ? undefined : value.join('=')]
      })
    : Object.entries(environment).map(([name, value]): [string, string | undefined] => [
        name,
        value === null ? undefined : String(value),
      ])
  return definedOf(Object.fromEntries(pairs.map(([name, value]) => [name, value ?? outer[name]])))
}

/** Returns the names of the services that a service starts after. */
export const dependenciesOf = ({ depends_on: services = [] }: Service): readonly string[] =>
  Array.isArray(services) ? services : Object.keys(services)

const definedOf = (variables: Readonly<Record<string, string | undefined>>): Record<string, string> =>
  Object.fromEntries(Object.entries(variables).filter((pair): pair is [string, string] => pair[1] !== undefined))
