import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type EventName, events } from '@fairlead/receiver'
import { describe, expect, it } from 'vitest'
import { parse } from 'zod/mini'
import { anchorOf, withOperations } from '../../../scripts/api-docs.ts'
import { apiCommand } from '../../../server/src/commands/client/api.ts'
import { type DashboardOperation, dashboardOperations } from '../../../server/src/contract/dashboard.ts'
import { databaseStatuses } from '../../../server/src/contract/databases.ts'
import { deploymentStages, deploymentStatuses } from '../../../server/src/contract/deployments.ts'
import { errorStatuses } from '../../../server/src/contract/errors.ts'
import { type IdKind, idPrefixes, paramKind, paramNames } from '../../../server/src/contract/ids.ts'
import { type Operation, operations } from '../../../server/src/contract/operations.ts'
import { tokenPath } from '../../../server/src/http/oidc-token.ts'
import { pageQuery } from '../../../server/src/http/page.ts'
import { schemaOf } from '../../../server/src/http/reference/json-schema.ts'

const page = readFileSync(fileURLToPath(new URL('../../../docs/api.md', import.meta.url)), 'utf8')
const lines = page.split('\n')

it('the page has exactly the operations of the contract (otherwise run `node scripts/api-docs.ts`)', () => {
  expect(withOperations(page)).toBe(page)
})

it('links within the page lead to exactly one heading', () => {
  const anchors = lines.filter((line) => /^#+ /.test(line)).map((line) => anchorOf(line.replace(/^#+ /, '')))
  expect(new Set(anchors).size).toBe(anchors.length)
  for (const [, anchor] of page.matchAll(/\]\(#([^)]*)\)/g)) expect(anchors).toContain(anchor)
})

/** The lines of the section of an operation. */
function sectionOf({ summary }: Operation | DashboardOperation): string[] {
  const start = lines.indexOf(`### ${summary}`)
  const length = lines.slice(start + 1).findIndex((line) => /^(#|<!--)/.test(line))
  return lines.slice(start, start + 1 + length)
}

/** The names in the first column of the table with this heading. */
function namesIn(section: readonly string[], heading: string): string[] {
  const start = section.findIndex((line) => line.startsWith(`| ${heading} |`))
  if (start < 0) return []
  const rows = section.slice(start + 2)
  const end = rows.findIndex((line) => !line.startsWith('|'))
  return rows.slice(0, end < 0 ? rows.length : end).map((row) => /^\| `([^`]*)`/.exec(row)?.[1] ?? row)
}

const topLevel = (names: readonly string[]) => [...new Set(names.map((name) => name.split(/[.[]/)[0]))]

describe.each<Operation | DashboardOperation>([...operations, ...dashboardOperations])('$name', (operation) => {
  const section = sectionOf(operation)

  it('has a section with its method, path, access and status', () => {
    const { method, path, access, status } = operation
    const route = section.find((line) => line.startsWith(`\`${method} ${path}\``)) ?? ''
    const told = { any: 'any key', user: 'signed-in users', open: 'open to everybody' } as Record<string, string>
    expect(route.split(' · ').slice(1)).toEqual([told[access] ?? `\`${access}\``, String(status)])
  })

  it('shows the fields of the request and of the response as declared', () => {
    const { body, response } = operation
    const query = 'query' in operation ? operation.query : undefined
    const declared = (type: Operation['body'], io: 'input' | 'output') =>
      type === undefined ? [] : Object.keys(schemaOf(type, io).properties ?? {})
    expect(topLevel(namesIn(section, 'query'))).toEqual(declared(query, 'input'))
    expect(topLevel(namesIn(section, 'body'))).toEqual(declared(body, 'input'))
    const like = section.find((line) => line.startsWith('Answers like '))
    if (like === undefined) return expect(topLevel(namesIn(section, 'answer'))).toEqual(declared(response, 'output'))
    const other = [...operations, ...dashboardOperations].find(({ summary }) => like.includes(`[${summary}]`))
    expect(other?.response).toBe(response)
  })
})

it.each([
  ['deployment', /^\| `building` /, deploymentStatuses],
  ['database', /^\| `provisioning` /, databaseStatuses],
] as const)('lists every status of a %s', (_, first, statuses) => {
  const start = lines.findIndex((line) => first.test(line))
  const table = ['| `status` |', '|---|', ...lines.slice(start)]
  expect(namesIn(table, '`status`')).toEqual([...statuses])
})

it('lists every stage in which a deployment can fail', () => {
  expect(namesIn(lines, '`failure.stage`')).toEqual([...deploymentStages])
})

it('lists every error with its status', () => {
  const rows = [...page.matchAll(/^\| `(\w+)` \| (\d{3}) \|/gm)].map(([, code, status]) => [code, Number(status)])
  expect(rows).toEqual(Object.entries(errorStatuses))
})

/** The operation at a method and a path that writes an identifier as `proj_…`. */
function operationAt(method: string, path: string): Operation | DashboardOperation | undefined {
  const given = path.split('/')
  const fits = (operation: Operation | DashboardOperation) => {
    const segments = operation.path.split('/')
    return (
      segments.length === given.length && segments.every((segment, at) => segmentFits(operation, segment, given[at]))
    )
  }
  return [...operations, ...dashboardOperations].find((operation) => operation.method === method && fits(operation))
}

function segmentFits(operation: Operation | DashboardOperation, segment: string, given = ''): boolean {
  if (!segment.startsWith(':') || segment === given) return segment === given
  const isOwn = operations.some(({ name }) => name === operation.name)
  const kind: IdKind = isOwn ? paramKind(operation as Operation, segment.slice(1)) : 'session'
  return given === `${idPrefixes[kind]}_…`
}

/** Paths outside `/v1` that need no key. */
const keyless = [tokenPath, '/device/code', '/device/token']

it('names no missing route', () => {
  const routes = [...page.matchAll(/`(GET|POST|PUT|PATCH|DELETE) (\/[^\s`]*)`/g)]
  expect(routes.length).toBeGreaterThanOrEqual(operations.length + dashboardOperations.length)
  for (const [text, method = '', path = ''] of routes)
    if (!keyless.includes(path)) expect([text, operationAt(method, path)]).not.toContain(undefined)
})

const shell = [...page.matchAll(/```sh\n([\s\S]*?)```/g)]
  .flatMap(([, block = '']) => block.replaceAll('\\\n', ' ').split('\n'))
  .filter((line) => line !== '')

describe.each(shell.filter((line) => line.startsWith('curl ')))('%s', (line) => {
  const [, path = '', search = ''] = /\$API(\/[^\s"?]*)(\?[^\s"]*)?/.exec(line) ?? []
  const data = / -d '([^']*)'/.exec(line)?.[1]
  const method =
    / -X (\w+)/.exec(line)?.[1] ?? (data === undefined && !/ (-F|--data-binary) /.test(line) ? 'GET' : 'POST')
  const operation = operationAt(method, path) as Operation

  it('calls an operation for keys', () => {
    expect(operation?.access).toMatch(/^(any|[a-z]+:(read|write))$/)
  })

  it('sends a body and a query that it accepts', () => {
    expect(line.includes(' -F ')).toBe(operation.upload === 'multipart/form-data')
    if (data !== undefined) operation.body?.parse(JSON.parse(data))
    else expect(operation.body === undefined || operation.body.safeParse({}).success).toBe(true)
    const query = Object.fromEntries(new URLSearchParams(search))
    const known = { ...pageQuery.shape, ...operation.query?.shape }
    expect(Object.keys(known)).toEqual(expect.arrayContaining(Object.keys(query)))
    operation.query?.parse(query)
  })
})

const commands = shell.flatMap((line) => /^fairlead api (.*)$/.exec(line)?.[1] ?? [])

it.each(commands)('fairlead api %s', (line) => {
  const [name = '', ...rest] = line.split(' ')
  const command = apiCommand().commands.find((each) => each.name() === name)
  const flags = rest.filter((part) => part.startsWith('--'))
  expect(command?.options.map(({ long }) => long)).toEqual(expect.arrayContaining(flags))
  const mandatory = command?.options.filter((option) => option.mandatory).map(({ long }) => long)
  expect(flags).toEqual(expect.arrayContaining(mandatory ?? []))
  const operation = operations.find((each) => each.name === name)
  const data = /--data '([^']*)'/.exec(line)?.[1]
  if (data !== undefined) operation?.body?.parse(JSON.parse(data))
  for (const param of paramNames(operation?.path ?? '')) {
    const kind = paramKind(operation as Operation, param)
    expect(line).toContain(`--${param.replaceAll('_', '-')} ${idPrefixes[kind]}_…`)
  }
})

it('finds the examples', () => {
  expect(shell.filter((line) => line.startsWith('curl ')).length).toBeGreaterThan(25)
  expect(commands.length).toBeGreaterThan(3)
})

it('shows an error and an event as the server sends them', () => {
  const [event, error] = [...page.matchAll(/```json\n([\s\S]*?)```/g)].map(([, text = '']) => JSON.parse(text))
  expect(Object.keys(error)).toEqual(['error'])
  expect(Object.keys(error.error)).toEqual(['code', 'message', 'details'])
  expect(errorStatuses).toHaveProperty(error.error.code)
  expect(Object.keys(event)).toEqual(['event', 'timestamp', 'data'])
  expect(parse(events[event.event as EventName], event.data)).toEqual(event.data)
})
