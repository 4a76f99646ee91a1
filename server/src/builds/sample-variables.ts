import type { SampleVariables } from './build-plan.ts'
import { fieldsOf, isFields, readJson } from './json.ts'
import type { SourceTree } from './tree.ts'

const samples = [
  '.env.example',
  '.env.sample',
  '.env.template',
  '.env.dist',
  '.env.local.example',
  '.env.example.local',
  'env.example',
  'example.env',
  'sample.env',
] as const

/** Apps read these themselves. */
const own = ['.env', '.env.local', '.env.production', '.env.production.local'] as const

export const variableFiles: readonly string[] = [...samples, ...own, 'app.json']

/** More than any app requires. */
const mostNames = 100

/** Variables that Fairlead sets. */
const given: ReadonlySet<string> = new Set(['PORT', 'NODE_ENV', 'HOST', 'HOSTNAME'])

/**
 * Returns the variables that a sample file or `app.json` names and that have no value in the repository; undefined when
 * there are no such variables. An app that ends at its start often lacks one.
 */
export function readSampleVariables(app: SourceTree): SampleVariables | undefined {
  const valued = new Set([...given, ...own.flatMap((file) => namesIn(app.read(file) ?? ''))])
  for (const file of [...samples, 'app.json']) {
    const text = app.read(file)
    if (text === undefined) continue
    const all = file === 'app.json' ? requiredBy(text) : namesIn(text)
    const names = [...new Set(all)].filter((name) => !valued.has(name)).slice(0, mostNames)
    if (names.length > 0) return { file, names }
  }
  return undefined
}

const namesIn = (text: string): string[] =>
  [...text.matchAll(/^(?:export[ \t]+)?([A-Za-z_]\w{0,99})[ \t]*=/gm)].map(([, name = '']) => name)

/** Returns the variables of Heroku's `app.json` without a value that the platform does not generate. */
function requiredBy(text: string): string[] {
  const read = readJson('app.json', text)
  const variables = Object.entries(fieldsOf(read.ok && isFields(read.value) ? read.value['env'] : undefined))
  return variables
    .filter(([name]) => /^[A-Za-z_]\w{0,99}$/.test(name))
    .filter(([, each]) => isFields(each) && each['required'] !== false && !each['value'] && !each['generator'])
    .map(([name]) => name)
}
