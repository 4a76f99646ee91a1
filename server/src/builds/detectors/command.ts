import { readPackageJson } from '../package-json.ts'
import type { Detector } from './detector.ts'
import { findDevelopmentServer, refuseLine } from './development-servers.ts'
import { programsOf } from './shell-lines.ts'

export const command: Detector = {
  name: 'command',
  recognises: 'a fairlead.json with a "start" command',
  files: ['fairlead.json'],
  tools: [],
  caches: {},
  detect({ settings, app }) {
    if (settings.start === undefined) return null
    const line = settings.start.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ')
    const development = findDevelopmentServer(programsOf(line, readPackageJson(app)?.scripts ?? new Map()))
    if (development !== undefined) return refuseLine('"start" in fairlead.json', development)
    return { ok: true, value: { start: { argv: settings.start }, uses: 'all' } }
  },
}
