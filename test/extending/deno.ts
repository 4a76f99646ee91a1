import type { Detector } from '../../server/src/builds/detectors/detector.ts'
import { failed, unreadable } from '../../server/src/builds/source/result.ts'

/** An app for Deno. */
export const deno: Detector = {
  name: 'deno',
  recognises: 'a deno.json with a "start" task',
  files: ['deno.json'],
  tools: [
    {
      program: 'deno',
      missing: { code: 'deno_missing', message: 'This app needs Deno: ask the operator of the server for it.' },
    },
  ],
  caches: { DENO_DIR: 'deno' },
  detect({ app }) {
    if (!app.has('deno.json')) return null
    const text = app.read('deno.json')
    if (text === undefined) return unreadable('deno.json')
    const tasks = readTasks(text)
    if (tasks === undefined) return failed('invalid_deno_json', 'deno.json is not valid JSON.')
    return {
      ok: true,
      value: {
        start: tasks.has('start') ? { argv: ['deno', 'task', 'start'] } : null,
        advice: 'deno.json does not say how the app starts: add a "start" task.',
        uses: ['deno'],
        install: () => ({ ok: true, value: [{ command: { argv: ['deno', 'install'] } }] }),
        build: tasks.has('build') ? [{ argv: ['deno', 'task', 'build'] }] : [],
      },
    }
  },
}

function readTasks(text: string): ReadonlySet<string> | undefined {
  try {
    const { tasks = {} } = JSON.parse(text) as { tasks?: object }
    return new Set(Object.keys(tasks))
  } catch {
    return undefined
  }
}
