import { posix } from 'node:path'
import { staticServerName } from '../../platform/toolchain.ts'
import { SITE_FOLDERS, type SourceTree } from '../tree.ts'
import type { Detector } from './detector.ts'

/** The most specific name first. */
const BUILT_SITE_FOLDERS = ['dist', 'build', 'out', 'public']

export const staticSite: Detector = {
  name: 'static',
  recognises: 'an index.html at the top, in public/ or in dist/',
  files: ['index.html', ...SITE_FOLDERS.map((folder) => `${folder}/index.html`)],
  tools: [],
  caches: {},
  detect({ app, builds, isRefused }) {
    // Before a build, the index.html is a source and not the site. So are pages that a development server would change
    // on their way.
    if (isRefused && !builds) return null
    const folders = builds ? BUILT_SITE_FOLDERS : findSite(app)
    if (folders === undefined) return null
    const [folder = '.'] = folders
    // A page that is too large to read counts as complete.
    const why = builds ? null : whyUnfinished(app, folder, app.read(posix.join(folder, 'index.html')) ?? '')
    if (why !== null) return { ok: true, value: { start: null, advice: why, uses: [] } }
    const serve = (name: string) => ({ argv: [staticServerName, name] as const })
    if (!builds) return { ok: true, value: { start: serve(folder), uses: [] } }
    const outputs = folders.map((name) => ({
      paths: [`${name}/index.html`],
      start: serve(name),
      moves: { folder: name, root: '.' },
    }))
    return { ok: true, value: { start: serve(folder), outputs, uses: ['node'] } }
  },
}

function findSite(app: SourceTree): string[] | undefined {
  if (app.has('index.html')) return ['.']
  const folder = SITE_FOLDERS.find((name) => app.has(`${name}/index.html`))
  return folder === undefined ? undefined : [folder]
}

/** Configuration files of tools that generate the scripts of a page, and that the server does not run. */
const compilers: readonly (readonly [pattern: RegExp, name: string, command: string])[] = [
  [/^elm\.json$/, 'Elm', 'elm make src/Main.elm --optimize --output=SCRIPT'],
  [/^gleam\.toml$/, 'Gleam', 'gleam run -m lustre/dev build --minify'],
  [/^Trunk\.toml$/, 'Trunk', 'trunk build --release'],
  [/^spago\.(ya?ml|dhall)$/, 'PureScript', 'spago bundle --platform browser --outfile SCRIPT'],
  [/^(shadow-cljs|deps)\.edn$|^project\.clj$/, 'ClojureScript', 'shadow-cljs release app'],
  [/^(rescript|bsconfig)\.json$/, 'ReScript', 'rescript build'],
]

/** Browsers do not run these languages. */
const source = /\.(ts|tsx|mts|jsx|elm|coffee|cljs|purs|res|gleam|dart|vue|svelte)$/i

/**
 * Returns why a page is the source of an unknown build; null when it may be finished. A missing script proves nothing:
 * many finished pages lack one without a visible effect.
 *
 * @param folder of the page, from the app's
 * @param html its text
 */
function whyUnfinished(app: SourceTree, folder: string, html: string): string | null {
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

/** True when a file certainly does not exist: the tree knows only a part of the names. */
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

function scriptsOf(html: string): string[] {
  const tags = [...withoutComments(html).matchAll(/<script\b([^<>]{0,2000})>/gi)].slice(0, mostScripts)
  return tags.flatMap(([, attributes = '']) => {
    const type = attribute(attributes, 'type')
    if (type !== undefined && !/^(|module|(text|application)\/javascript)$/i.test(type)) return []
    const [path = ''] = (attribute(attributes, 'src') ?? '').split(/[?#]/)
    // Other hosts, paths that a host adds (/_…), templates and long names are not files of the site.
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
