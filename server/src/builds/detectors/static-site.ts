import { staticServerName } from '../../platform/toolchain.ts'
import { SITE_FOLDERS, type SourceTree } from '../source/tree.ts'
import type { Detector } from './detector.ts'

/** The folders that tools put a built site into, the most telling name first. */
const BUILT_SITE_FOLDERS = ['dist', 'build', 'out', 'public']

/** A static site: finished, or made by a build. */
export const staticSite: Detector = {
  name: 'static',
  recognises: 'an index.html at the top, in public/ or in dist/',
  files: [],
  tools: [],
  caches: {},
  detect({ app, builds }) {
    // With a build, the index.html in the tree is a source and not the site.
    const folders = builds ? BUILT_SITE_FOLDERS : findSite(app)
    if (folders === undefined) return null
    const start = { argv: [staticServerName, ...folders] } as const
    return { ok: true, value: { start, uses: builds ? ['node'] : [] } }
  },
}

function findSite(app: SourceTree): string[] | undefined {
  if (app.has('index.html')) return ['.']
  const folder = SITE_FOLDERS.find((name) => app.has(`${name}/index.html`))
  return folder === undefined ? undefined : [folder]
}
