import { fieldsOf } from '../../source/json.ts'
import { readToml } from '../../source/toml.ts'
import type { SourceTree } from '../../source/tree.ts'

/** Files that name the packages of an app, besides `requirements` files. */
const LISTS = ['pyproject.toml', 'Pipfile', 'setup.py', 'setup.cfg']

/** Lists in a `requirements` folder, the one for production first. */
export const REQUIREMENTS = [
  'requirements.txt',
  'requirements/production.txt',
  'requirements/prod.txt',
  'requirements/base.txt',
]

/**
 * Returns the names of the packages that an app asks for, normalised by PEP 503, each once plain and once with every
 * extra: `fastapi`, `fastapi[standard]`. Reads what people write by hand: what only a lock names is not found.
 */
export function packagesOf(app: SourceTree): ReadonlySet<string> {
  const found = new Set<string>()
  const add = (text: string): void => {
    const [, name, extras = ''] = /^\s*([A-Za-z0-9][\w.-]*)\s*(?:\[([\w.,\s-]*)\])?/.exec(text) ?? []
    if (name === undefined) return
    found.add(normal(name))
    for (const extra of extras.split(','))
      if (extra.trim() !== '') found.add(`${normal(name)}[${normal(extra.trim())}]`)
  }
  const inFolder = app.list('requirements').map((name) => `requirements/${name}`)
  for (const path of [...app.list('.'), ...inFolder]) {
    if (!isRequirements(path)) continue
    for (const line of (app.read(path) ?? '').split('\n')) add(line)
  }
  for (const file of LISTS) {
    const text = app.has(file) ? app.read(file) : undefined
    if (text === undefined) continue
    if (file.startsWith('setup.')) {
      for (const [, quoted, bare] of text.matchAll(/["']([A-Za-z][^"'\n]{0,200})["']|^[ \t]+([A-Za-z][\w.[\]-]*)/gm)) {
        add(quoted ?? bare ?? '')
      }
    } else for (const entry of listedIn(file, text)) add(entry)
  }
  return found
}

const isRequirements = (path: string): boolean =>
  /^(?:requirements[\w.-]*\.(?:txt|in)|requirements\/[\w.-]+\.(?:txt|in))$/.test(path)

const normal = (name: string): string => name.toLowerCase().replaceAll(/[-_.]+/g, '-')

/** Returns the texts of the tables and lists of a pyproject.toml or Pipfile that name packages; none of a faulty one. */
function listedIn(file: string, toml: string): readonly string[] {
  const read = readToml(file, toml)
  const root = read.ok ? read.value : {}
  const project = fieldsOf(root['project'])
  const poetry = fieldsOf(fieldsOf(root['tool'])['poetry'])
  const tables = [root['packages'], poetry['dependencies']].map(fieldsOf)
  return [
    ...(Array.isArray(project['dependencies']) ? project['dependencies'] : []).filter(
      (each) => typeof each === 'string',
    ),
    ...tables.flatMap((table) =>
      Object.entries(table).map(([name, value]) => {
        const extras: unknown = fieldsOf(value)['extras']
        return Array.isArray(extras) ? `${name}[${extras.join(',')}]` : name
      }),
    ),
  ]
}
