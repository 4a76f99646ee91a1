import type { Detector } from './detector.ts'

/** An app whose `fairlead.json` says how it starts. */
export const command: Detector = {
  name: 'command',
  recognises: 'a fairlead.json with a "start" command',
  files: ['fairlead.json'],
  tools: [],
  caches: {},
  detect({ settings }) {
    if (settings.start === undefined) return null
    return { ok: true, value: { start: { argv: settings.start }, uses: 'all' } }
  },
}
