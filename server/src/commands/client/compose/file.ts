import { existsSync, statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { parseDocument, visit } from 'yaml'
import { type ZodError, z } from 'zod'
import { CommandError } from '../command-error.ts'
import { type EnvFileScope, readEnvFile } from './env-file.ts'
import { interpolate, type Scope } from './interpolate.ts'

/** The names that Compose looks for in a folder, in its order. */
const fileNames = ['compose.yaml', 'compose.yml', 'docker-compose.yaml', 'docker-compose.yml']

/**
 * The most copies that anchors and merged keys may make of what they name: files of many services have hundreds, and a small
 * file that is made to grow without end has more.
 */
const mostCopies = 10_000

const scalar = z.union([z.string(), z.number(), z.boolean(), z.null()])
const words = z.union([z.string(), z.array(z.string())])

/** Values with variables are texts. */
const count = z.union([
  z.int().nonnegative(),
  z
    .string()
    .regex(/^\d{1,9}$/)
    .transform(Number),
])
const flag = z.union([z.boolean(), z.string().transform((text) => text.toLowerCase() === 'true')])

const mount = z.union([
  z.string(),
  z.looseObject({
    type: z.string().optional(),
    source: z.string().optional(),
    target: z.string(),
    read_only: flag.optional(),
  }),
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
      z.array(
        z.union([
          z.string(),
          z.looseObject({ path: z.string(), required: flag.optional(), format: z.string().optional() }),
        ]),
      ),
    ])
    .optional(),
  command: words.nullable().optional(),
  entrypoint: words.nullable().optional(),
  volumes: z.array(mount).optional(),
  depends_on: z
    .union([z.array(z.string()), z.record(z.string(), z.looseObject({ condition: z.string().optional() }).nullable())])
    .optional(),
  ports: z
    .array(
      z.union([
        z.int(),
        z.string(),
        z.looseObject({ host_ip: z.string().optional(), protocol: z.string().optional() }),
      ]),
    )
    .optional(),
  restart: z.union([z.string(), z.boolean()]).optional(),
  read_only: flag.optional(),
  profiles: z.array(z.string()).optional(),
  extends: z.unknown().optional(),
  scale: count.optional(),
  deploy: z.looseObject({ replicas: count.optional() }).optional(),
})

const composeFile = z.looseObject(
  {
    services: z.record(z.string(), service, { error: 'must be the services by their names' }),
    volumes: z.record(z.string(), z.looseObject({}).nullable()).nullish(),
  },
  { error: 'it has no services' },
)

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
  /** The volumes of the file, by their names. */
  readonly volumes: Readonly<Record<string, Readonly<Record<string, unknown>> | null>>
  /** The variables of the file that have neither a value nor a default. */
  readonly missing: readonly string[]
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
  const names = new Set<string>()
  const missing = (name: string) => void names.add(name)
  const set = definedOf(environment)
  const variables = { ...(await dotenvBeside(folder, { outer: set, missing })), ...set }
  const parsed = parseYaml(await readFile(path, 'utf8'), path)
  const read = composeFile.safeParse(interpolateAll(parsed, { variables, place: '', missing }))
  if (!read.success) throw new CommandError(`${path} is no compose file that can be read: ${firstProblem(read.error)}`)
  const { services, volumes, ...others } = read.data
  const environments: Record<string, Record<string, string>> = {}
  for (const [name, each] of Object.entries(services)) {
    const own = fromEnvironment(each, variables)
    // Values in these files may name variables of the environment, and the environment wins.
    const ofFiles = await fromFiles(folder, each, { outer: { ...own, ...variables }, missing })
    environments[name] = { ...ofFiles, ...own }
  }
  const otherKeys = Object.keys(others).filter((key) => !['version', 'name'].includes(key) && !key.startsWith('x-'))
  return { folder, services, environments, otherKeys, volumes: volumes ?? {}, missing: [...names] }
}

function findFile(given: string): string {
  const path = resolve(given)
  if (!existsSync(path)) throw new CommandError(`There is no file or folder ${given}.`)
  if (!statSync(path).isDirectory()) return path
  const found = fileNames.map((name) => join(path, name)).find((each) => existsSync(each))
  if (found === undefined) throw new CommandError(`The folder ${given} has no ${fileNames.join(', ')}.`)
  return found
}

function parseYaml(text: string, path: string): unknown {
  try {
    const document = parseDocument(text, { merge: true })
    // A warning is of a tag, such as !reset, which changes another file that is read before.
    for (const problem of [...document.errors, ...document.warnings]) throw problem
    // As it is written: a number loses digits beyond 2⁵³, and zeros before and behind it.
    visit(document, {
      Scalar(_, node) {
        if (typeof node.value === 'number' || typeof node.value === 'bigint')
          node.value = node.source ?? String(node.value)
      },
    })
    return document.toJS({ maxAliasCount: mostCopies })
  } catch (error) {
    throw new CommandError(`${path} is no YAML that can be read: ${(error as Error).message}`)
  }
}

/** Values alone have variables, no keys: as Compose does it. */
function interpolateAll(value: unknown, scope: Scope): unknown {
  if (typeof value === 'string') return interpolate(value, scope)
  if (typeof value !== 'object' || value === null) return value
  const inner = (key: string) => {
    const place = scope.place === '' ? key : `${scope.place}.${key}`
    if (key === '__proto__') throw new CommandError(`${place}: nothing can have this name. Choose another one.`)
    return { ...scope, place }
  }
  if (Array.isArray(value)) return value.map((each, at) => interpolateAll(each, inner(String(at))))
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, interpolateAll(each, inner(key))]))
}

function firstProblem({ issues }: ZodError): string {
  const [first] = issues
  return first === undefined
    ? ''
    : [...(first.path.length === 0 ? [] : [first.path.join('.')]), first.message].join(': ')
}

async function dotenvBeside(folder: string, scope: EnvFileScope): Promise<Record<string, string>> {
  const variables = new Map<string, string>()
  const path = join(folder, '.env')
  if (existsSync(path)) await readEnvFile(path, variables, scope)
  return Object.fromEntries(variables)
}

interface EnvFile {
  readonly path: string
  readonly required?: boolean | undefined
  readonly format?: string | undefined
}

async function fromFiles(
  folder: string,
  { env_file = [] }: Service,
  scope: EnvFileScope,
): Promise<Record<string, string>> {
  const variables = new Map<string, string>()
  for (const each of typeof env_file === 'string' ? [env_file] : env_file) {
    const { path, required = true, format }: EnvFile = typeof each === 'string' ? { path: each } : each
    const file = resolve(folder, path)
    if (required || existsSync(file)) await readEnvFile(file, variables, { ...scope, format })
  }
  return Object.fromEntries(variables)
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
  return definedOf(
    Object.fromEntries(
      pairs.map(([name, value]) => [name, value ?? (Object.hasOwn(outer, name) ? outer[name] : undefined)]),
    ),
  )
}

/** Returns the names of the services that a service starts after. */
export const dependenciesOf = ({ depends_on: services = [] }: Service): readonly string[] =>
  Array.isArray(services) ? services : Object.keys(services)

/** Returns the names of the services that others wait for to end, such as migrations. */
export const endingServices = (services: ComposeFile['services']): readonly string[] =>
  Object.values(services).flatMap(({ depends_on: needed = [] }) =>
    Array.isArray(needed)
      ? []
      : Object.keys(needed).filter((name) => needed[name]?.condition === 'service_completed_successfully'),
  )

const definedOf = (variables: Readonly<Record<string, string | undefined>>): Record<string, string> =>
  Object.fromEntries(Object.entries(variables).filter((pair): pair is [string, string] => pair[1] !== undefined))
