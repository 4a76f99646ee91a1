import { posix } from 'node:path'
import type { SourceTree } from '../source/tree.ts'

/** Files of tools that write the scripts of a page, and that the server does not run. */
const compilers: readonly (readonly [pattern: RegExp, name: string, command: string])[] = [
  [/^elm\.json$/, 'Elm', 'elm make src/Main.elm --optimize --output=SCRIPT'],
  [/^gleam\.toml$/, 'Gleam', 'gleam run -m lustre/dev build --minify'],
  [/^Trunk\.toml$/, 'Trunk', 'trunk build --release'],
  [/^spago\.(ya?ml|dhall)$/, 'PureScript', 'spago bundle --platform browser --outfile SCRIPT'],
  [/^(shadow-cljs|deps)\.edn$|^project\.clj$/, 'ClojureScript', 'shadow-cljs release app'],
  [/^(rescript|bsconfig)\.json$/, 'ReScript', 'rescript build'],
]

/** The languages that browsers do not run. */
const source = /\.(ts|tsx|mts|jsx|elm|coffee|cljs|purs|res|gleam|dart|vue|svelte)$/i

/**
 * Says in a sentence why a page is a source of a build that nothing here describes, and no finished page; null when it may
 * be one. A script that is missing alone is no reason: many finished pages have one, and nobody notices.
 *
 * @param folder of the page, from the app's
 * @param html its text
 */
export function whyUnfinished(app: SourceTree, folder: string, html: string): string | null {
  const page = posix.join(folder, 'index.html')
  if (/^\uFEFF?---[ \t]*\r?\n/.test(html)) {
    return `${page} begins with front matter, which a site generator such as Jekyll or Hugo reads. ${remedy('jekyll build')}`
  }
  const scripts = scriptsOf(html)
  const raw = scripts.find((path) => source.test(path))
  if (raw !== undefined) {
    return `${page} loads ${raw}, which browsers do not run until it is compiled. ${remedy('vite build')}`
  }
  const missing = scripts.find((path) => isMissing(app, posix.join(path.startsWith('/') ? '.' : folder, path)))
  if (missing === undefined) return null
  for (const [pattern, name, command] of compilers) {
    const found = app.list('.').find((entry) => pattern.test(entry))
    if (found === undefined) continue
    const compile = command.replace('SCRIPT', missing)
    return `${page} loads ${missing}, which the repository does not have: ${name} makes it (${found}). ${remedy(compile)}`
  }
  return null
}

/** True when a file is certainly not there: the tree knows only a part of the names. */
function isMissing(app: SourceTree, path: string): boolean {
  if (app.has(path)) return false
  let folder = posix.dirname(path)
  while (folder !== '.' && !app.has(folder)) folder = posix.dirname(folder)
  return app.list(folder).length > 0
}

const remedy = (command: string): string =>
  `Build the site (such as by "${command}") and commit what it makes, or add a package.json whose "build" script does so ` +
  'with a compiler among its "devDependencies".'

const mostScripts = 100

/** Returns the paths of the page's own scripts that a browser would run. */
function scriptsOf(html: string): string[] {
  const tags = [...withoutComments(html).matchAll(/<script\b([^<>]{0,2000})>/gi)].slice(0, mostScripts)
  return tags.flatMap(([, attributes = '']) => {
    const type = attribute(attributes, 'type')
    if (type !== undefined && !/^(|module|(text|application)\/javascript)$/i.test(type)) return []
    const [path = ''] = (attribute(attributes, 'src') ?? '').split(/[?#]/)
    // Addresses of other hosts, what a host adds (/_…), templates and long names are none of its own files.
    const isOther = /^[a-z][a-z\d+.-]*:|^\/\/|^\/[_.]|^\.\.|[{}<>%\s]/i.test(path)
    return path === '' || isOther || path.length > 200 ? [] : [path]
  })
}

function withoutComments(html: string): string {
  const [first = '', ...others] = html.split('<!--')
  const after = (text: string) => (text.includes('-->') ? text.slice(text.indexOf('-->') + 3) : '')
  return [first, ...others.map(after)].join('')
}

function attribute(attributes: string, name: string): string | undefined {
  const pattern = new RegExp(`(?:^|\\s)${name}\\s*=\\s*(?:"([^"]*)"|'([^']*)'|([^\\s"'>]+))`, 'i')
  const [, double, single, bare] = pattern.exec(attributes) ?? []
  return double ?? single ?? bare
}
