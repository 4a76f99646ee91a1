import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { type DashboardOperation, dashboardOperations } from '../server/src/contract/dashboard.ts'
import { type Operation, operations } from '../server/src/contract/operations.ts'
import { type Field, fieldsOf, schemaOf, sentences } from '../server/src/http/reference/json-schema.ts'

/** Writes the operations into docs/api.md from the contract: `node scripts/api-docs.ts`. A test compares them. */

const page = fileURLToPath(new URL('../docs/api.md', import.meta.url))

type Documented = Operation | DashboardOperation

/** Returns the page with fresh operations between its markers. Throws when markers of a group are missing. */
export function withOperations(text: string): string {
  const groups = Map.groupBy<string, Documented>(operations, ({ name }) => name.split('.')[0] ?? '')
  const all: [string, readonly Documented[]][] = [...groups, ['dashboard', dashboardOperations]]
  return all.reduce((rest, [group, members]) => between(rest, group, members.map(section).join('\n\n')), text)
}

function section(operation: Documented): string {
  return [
    `### ${operation.summary}`,
    `\`${operation.method} ${operation.path}\` · ${accessOf(operation)} · ${operation.status}`,
    operation.description,
    ...('list' in operation && operation.list ? ['Accepts `limit` and `cursor` ([Lists](#lists)).'] : []),
    ...('query' in operation && operation.query !== undefined ? [requestTable('query', operation.query)] : []),
    ...(operation.body === undefined ? [] : [requestTable('body', operation.body)]),
    ...answerOf(operation),
  ].join('\n\n')
}

function accessOf({ access }: Documented): string {
  if (access === 'any') return 'any key'
  if (access === 'open') return 'open to everybody'
  return access === 'user' ? 'signed-in users' : `\`${access}\``
}

function requestTable(part: 'query' | 'body', type: z.ZodType): string {
  const rows = fieldsOf(schemaOf(type, 'input')).map(({ path, type: kind, required, description, range, details }) => {
    const byDefault = /Default .*$/.exec(details)?.[0]
    return [code(path), kind, sentences(required ? 'Required.' : '', description, range, byDefault)]
  })
  return table([part, 'type', ''], rows)
}

function answerOf(operation: Documented): string[] {
  const { response } = operation
  if (response === undefined) return []
  const same = ownerOf(response)
  if (same !== undefined && same !== operation) return [`Answers like ${link(same)}.`]
  return [table(['answer', 'type', ''], answerRows(response))]
}

function answerRows(response: z.ZodType): string[][] {
  const members = response instanceof z.ZodObject ? Object.entries(response.shape) : []
  const fields = fieldsOf(schemaOf(response, 'output'))
  return members.flatMap(([name, member]) => {
    const same = member instanceof z.ZodArray ? ownerOf(member.element as z.ZodType) : undefined
    if (same !== undefined) return [[code(name), 'array of object', `Each like the answer of ${link(same)}.`]]
    return fields.filter(({ path }) => path.split(/[.[]/)[0] === name).map(answerRow)
  })
}

function answerRow({ path, type, description }: Field): string[] {
  return [code(path), type, description]
}

/** Returns the operation that documents a response: the one that reads the resource, else the first that answers so. */
function ownerOf(response: z.ZodType): Documented | undefined {
  const all: readonly Documented[] = [...operations, ...dashboardOperations]
  const alike = all.filter((each) => each.response === response)
  return alike.find(({ name }) => name.endsWith('.get')) ?? alike[0]
}

function link({ summary }: Documented): string {
  return `[${summary}](#${anchorOf(summary)})`
}

/** Returns the anchor that GitHub gives a heading. */
export function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\w\s-]/g, '')
    .replaceAll(' ', '-')
}

function code(text: string): string {
  return `\`${text}\``
}

function table(heading: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = (row: readonly string[]) => `| ${row.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [cells(heading), `|${heading.map(() => '---').join('|')}|`, ...rows.map(cells)].join('\n')
}

function between(text: string, group: string, content: string): string {
  const [start, end] = [`<!-- operations of ${group} -->\n`, `\n<!-- end of ${group} -->`]
  const from = text.indexOf(start)
  const to = text.indexOf(end)
  if (from < 0 || to < from) throw new Error(`docs/api.md has no markers for the operations of ${group}`)
  return `${text.slice(0, from + start.length)}\n${content}\n${text.slice(to)}`
}

if (import.meta.main) writeFileSync(page, withOperations(readFileSync(page, 'utf8')))
