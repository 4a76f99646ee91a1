import { posix } from 'node:path'
import { staticServerName } from '../../platform/toolchain.ts'
import { SITE_FOLDERS, type SourceTree } from '../source/tree.ts'
import type { Detector } from './detector.ts'
import { whyUnfinished } from './unfinished-page.ts'

/** The folders that tools put a built site into, the most telling name first. */
const BUILT_SITE_FOLDERS = ['dist', 'build', 'out', 'public']

/** A static site: finished, or made by a build. */
export const staticSite: Detector = {
  name: 'static',
  recognises: 'an index.html at the top, in public/ or in dist/',
  files: ['index.html', ...SITE_FOLDERS.map((folder) => `${folder}/index.html`)],
  tools: [],
  caches: {},
  detect({ app, builds, isRefused }) {
    // With a build, the index.html in the tree is a source and not the site.
    // The same holds for pages that a development server would change on their way.
    if (isRefused && !builds) return null
    const folders = builds ? BUILT_SITE_FOLDERS : findSite(app)
    if (folders === undefined) return null
    const [folder = '.'] = folders
    // A page that is too large to be read holds its scripts.
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
