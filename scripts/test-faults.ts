import { spawnSync } from 'node:child_process'
import { appendFileSync, existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { parseSync } from 'rolldown/utils'
import { runVitest } from './vitest.ts'

/**
 * Shows which tests find faults: `npm run test:faults [-- SEED [COUNT]]` draws faults from the sources (30 by default),
 * puts them in one at a time, and checks what finds each: the type check, the linter, the unit tests that import the
 * changed file, the contract and the API tests of the same subject, all unit tests, API tests and processes, and the
 * system tests that import the file. The first failure ends a fault's turn. `test-repeat/faults-SEED.tsv` gets a line
 * for each; a later run continues where an earlier run ended. The checkout must have no changes, and nothing else may
 * use it.
 */

interface Fault {
  readonly file: string
  readonly kind: string
  readonly line: number
  readonly before: string
  readonly after: string
  readonly start: number
  readonly end: number
}

type Node = Readonly<Record<string, unknown>> & { readonly type: string; readonly start: number; readonly end: number }

const seed = process.argv[2] ?? '1'
const wanted = Number(process.argv[3] ?? 30)
const folder = 'test-repeat'
const results = `${folder}/faults-${seed}.tsv`

/** One fault in ten is in the receiver, and one in ten in the action: both are small. */
const areas = ['server', 'server', 'server', 'server', 'server', 'server', 'server', 'server', 'receiver', 'action']

const operators: Readonly<Record<string, string>> = {
  '<': '<=',
  '<=': '<',
  '>': '>=',
  '>=': '>',
  '===': '!==',
  '!==': '===',
  '&&': '||',
  '||': '&&',
}

if (spawnSync('git', ['diff', '--quiet', 'HEAD', '--', 'server/src', 'receiver/src', 'action/src']).status !== 0) {
  process.stderr.write('The sources have changes. Commit them first: faults are put in and taken out.\n')
  process.exit(1)
}
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => process.exit(1))
mkdirSync(folder, { recursive: true })
const done = existsSync(results) ? readFileSync(results, 'utf8').trim().split('\n').length : 0
for (const [at, fault] of draw().entries()) {
  if (at < done) continue
  const found = await tryFault(fault)
  const { file, line, kind, before, after } = fault
  const cells = [at + 1, `${file}:${line}`, kind, inOneLine(before), inOneLine(after), found]
  appendFileSync(results, `${cells.join('\t')}\n`)
  process.stdout.write(`${cells.join(' | ')}\n`)
}

/** Draws files by area, then a kind of fault, then a place; a seed always gives the same faults. */
function draw(): Fault[] {
  const random = createRandom(seed)
  const choose = <Item>(items: readonly Item[]): Item => items[Math.floor(random() * items.length)] as Item
  const byArea = new Map(
    [...new Set(areas)].map((area) => {
      const files = globSync(`${area}/src/**/*.ts`).toSorted()
      return [area, Map.groupBy(files.flatMap(faultsOf), ({ kind }) => kind)] as const
    }),
  )
  return Array.from({ length: wanted }, (_, at) => {
    const kinds = byArea.get(areas[at % areas.length] ?? '') ?? new Map<string, Fault[]>()
    return choose(kinds.get(choose([...kinds.keys()].toSorted())) ?? [])
  })
}

/** Returns all faults that can be put into a file. */
function faultsOf(file: string): Fault[] {
  const text = readFileSync(file, 'utf8')
  const found: Fault[] = []
  const add = (kind: string, node: Pick<Node, 'start' | 'end'>, after: string) => {
    const { start, end } = node
    const line = text.slice(0, start).split('\n').length
    found.push({ file, kind, line, before: text.slice(start, end), after, start, end })
  }
  visit(parseSync(file, text).program as unknown as Node, (node) => addFaults(node, text, add))
  return found
}

function addFaults(
  node: Node,
  text: string,
  add: (kind: string, node: Pick<Node, 'start' | 'end'>, after: string) => void,
): void {
  const textOf = (part: unknown) => text.slice((part as Node).start, (part as Node).end)
  if (node.type === 'CallExpression') {
    const callee = node['callee'] as Node
    if (callee.type === 'MemberExpression' && textOf(callee['property']) === 'where')
      add('where dropped', { start: (callee['object'] as Node).end, end: node.end }, '')
  }
  if (node.type === 'AwaitExpression') add('await dropped', node, textOf(node['argument']))
  if (node.type === 'IfStatement') add('guard inverted', node['test'] as Node, `!(${textOf(node['test'])})`)
  if (node.type === 'ThrowStatement') add('error swallowed', node, ';')
  if (node.type === 'Literal' && typeof node['value'] === 'number' && node['value'] > 1)
    add('number changed', node, String(isStatus(node['value']) ? node['value'] + 1 : node['value'] * 10))
  if (node.type === 'Literal' && typeof node['value'] === 'boolean')
    add('boolean changed', node, String(!node['value']))
  const operator = operators[String(node['operator'])]
  if (operator !== undefined && (node.type === 'LogicalExpression' || node.type === 'BinaryExpression'))
    add('comparison changed', node, `(${textOf(node['left'])}) ${operator} (${textOf(node['right'])})`)
  if (node.type === 'ExpressionStatement' && isCall(node['expression'] as Node) && !/log(ger)?\./.test(textOf(node)))
    add('call dropped', node, ';')
}

function isStatus(value: number): boolean {
  return value >= 200 && value < 600
}

function isCall(node: Node): boolean {
  return node.type === 'CallExpression' || (node.type === 'AwaitExpression' && isCall(node['argument'] as Node))
}

/** Calls `see` for every node of a program except types, which have no effect. */
function visit(node: Node, see: (node: Node) => void): void {
  see(node)
  for (const [name, value] of Object.entries(node)) {
    if (name === 'typeAnnotation' || name === 'typeArguments') continue
    for (const child of Array.isArray(value) ? value : [value]) if (isNode(child)) visit(child, see)
  }
}

/** Types have no effect, but expressions may contain a type: `x as Y`. */
function isNode(value: unknown): value is Node {
  return (
    typeof value === 'object' && value !== null && 'type' in value && !/^TS(?!.*Expression$)/.test(String(value.type))
  )
}

/** Puts the fault in, checks what finds it, and takes it out. Returns the file of the failed test, or `nothing`. */
async function tryFault({ file, start, end, after }: Fault): Promise<string> {
  const original = readFileSync(file, 'utf8')
  const restore = () => writeFileSync(file, original)
  process.on('exit', restore)
  writeFileSync(file, original.slice(0, start) + after + original.slice(end))
  try {
    return (await firstFailure(file)) ?? 'nothing'
  } finally {
    restore()
    process.off('exit', restore)
  }
}

async function firstFailure(file: string): Promise<string | null> {
  if (spawnSync('npx', ['tsc', '-b']).status !== 0) return 'the type check'
  if (spawnSync('npx', ['biome', 'lint', file]).status !== 0) return 'the linter'
  const once = ['--bail=1', '--run']
  const importing = globSync('test/system/**/*.test.ts').filter((test) =>
    readFileSync(test, 'utf8').includes(`/${file}`),
  )
  const steps: readonly (readonly string[])[] = [
    ['related', file, '--project', 'unit', ...once],
    ['run', '--project', 'api', ...once, 'test/api/specification.test.ts', `test/api/${file.split('/')[2]}`],
    ['run', '--project', 'unit', '--project', 'api', '--project', 'processes', ...once],
    ...(importing.length === 0 ? [] : [['run', '--project', 'system', ...once, ...importing]]),
  ]
  for (const [at, step] of steps.entries()) {
    // Tests of processes, the receiver and the action run bundles.
    if ((at === 2 || !file.startsWith('server')) && spawnSync('node', ['scripts/run.js', 'build']).status !== 0)
      return 'the build'
    const { code, output } = await runVitest([...step, '--passWithNoTests'], { minutes: 20, quiet: true })
    if (code !== 0) return output.match(/FAIL.*?(test\/[\w./-]+)/)?.[1] ?? 'a run that did not begin'
  }
  return null
}

/** Returns numbers from 0 to below 1, derived from a text (mulberry32). */
function createRandom(text: string): () => number {
  let state = [...text].reduce((sum, letter) => (Math.imul(sum, 31) + letter.charCodeAt(0)) | 0, 7)
  return () => {
    state = (state + 0x6d2b79f5) | 0
    const mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    const more = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((more ^ (more >>> 14)) >>> 0) / 2 ** 32
  }
}

function inOneLine(text: string): string {
  const line = text.replace(/\s+/g, ' ')
  return line.length > 100 ? `${line.slice(0, 99)}…` : line
}
