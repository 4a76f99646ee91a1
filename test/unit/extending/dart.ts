import type { Detector } from '../../../server/src/builds/detectors/detector.ts'
import { failed, unreadable } from '../../../server/src/builds/result.ts'

/** An app in Dart. */
export const dart: Detector = {
  name: 'dart',
  recognises: 'a pubspec.yaml with a bin/ folder',
  files: ['pubspec.yaml'],
  tools: [
    {
      program: 'dart',
      missing: { code: 'dart_missing', message: 'This app needs Dart: ask the operator of the server for it.' },
    },
  ],
  caches: { PUB_CACHE: 'pub' },
  detect({ app }) {
    if (!app.has('pubspec.yaml')) return null
    const text = app.read('pubspec.yaml')
    if (text === undefined) return unreadable('pubspec.yaml')
    const [, name] = /^name:\s*(\w+)/m.exec(text) ?? []
    if (name === undefined) return failed('invalid_pubspec', 'pubspec.yaml has no "name".')
    return {
      ok: true,
      value: {
        start: app.has('bin') ? { argv: [`build/${name}`] } : null,
        advice: 'The app has no bin/ folder: add bin/server.dart.',
        uses: ['dart'],
        install: () => ({ ok: true, value: [{ command: { argv: ['dart', 'pub', 'get'] } }] }),
        build: [{ argv: ['dart', 'compile', 'exe', 'bin/server.dart', '-o', `build/${name}`] }],
      },
    }
  },
}
