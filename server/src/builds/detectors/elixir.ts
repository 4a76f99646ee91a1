import { unreadable } from '../result.ts'
import { toolVersion } from '../version-files.ts'
import { type Detector, type DetectorSource, startLine } from './detector.ts'
import { rubyRange } from './ruby.ts'
import { debianTool, noteVersionFiles, refuseVersion } from './tools.ts'

const env = {
  MIX_ENV: 'prod',
  // Phoenix serves only with PHX_SERVER; Erlang's distribution would occupy a port of the machine.
  PHX_SERVER: 'true',
  RELEASE_DISTRIBUTION: 'none',
}

/** Detects Elixir apps, which are built as Mix releases. */
export const elixir: Detector = {
  name: 'elixir',
  recognises: 'a mix.exs',
  files: ['mix.exs', 'mix.lock', '.tool-versions'],
  tools: [
    debianTool('Elixir', 'mix', 'elixir erlang-dev erlang-parsetools erlang-xmerl', {
      args: ['--version'],
      pattern: /Mix (\d+\.\d+\.\d+)/,
    }),
  ],
  caches: { MIX_HOME: 'mix', HEX_HOME: 'hex' },
  detect(source) {
    const { app } = source
    if (!app.has('mix.exs')) return null
    const text = app.read('mix.exs')
    if (text === undefined) return unreadable('mix.exs')
    const name = releaseName(text)
    return {
      ok: true,
      value: {
        start: name === undefined ? null : { ...startLine('exec "_build/prod/rel/$1/bin/$1" start', name), env },
        advice: 'mix.exs names no app ("app: :name"): add a Procfile with a "web:" line.',
        uses: ['elixir'],
        env,
        notes: notesOf(source, text),
        install: () => refuseElixir(source, text) ?? { ok: true, value: installs(source, text) },
        build: builds(text, name !== undefined).map((argv) => ({ argv, env })),
      },
    }
  },
}

/** Returns the only release in mix.exs, or the default release of Mix. */
function releaseName(mix: string): string | undefined {
  const [, described] = /\breleases:\s*\[\s*(\w+):/.exec(mix) ?? []
  const [, app] = /\bapp:\s*:(\w+)/.exec(mix) ?? []
  return described ?? app
}

/** Installs Hex and Rebar, separate programs that Hex packages need. */
function installs({ app }: DetectorSource, mix: string) {
  const usesHex = /\{:hex,/.test(app.read('mix.lock') ?? '') || /\{\s*:\w+\s*,\s*"/.test(mix)
  const tools = [
    ['mix', 'local.hex', '--force', '--if-missing'],
    ['mix', 'local.rebar', '--force', '--if-missing'],
  ] as const
  const get = ['mix', 'deps.get', '--only', 'prod'] as const
  const commands = /\{\s*:\w+\s*,/.test(mix) ? [...(usesHex ? tools : []), get] : []
  return commands.map((argv) => ({ command: { argv, env } }))
}

function builds(mix: string, hasRelease: boolean): (readonly [string, ...string[]])[] {
  return [
    ['mix', 'compile'],
    ...(/"assets\.deploy"/.test(mix) ? [['mix', 'assets.deploy'] as const] : []),
    ...(hasRelease ? [['mix', 'release', '--overwrite'] as const] : []),
  ]
}

function refuseElixir({ versions }: DetectorSource, mix: string) {
  const [, text] = /\belixir:\s*"([^"]+)"/.exec(mix) ?? []
  if (text === undefined) return null
  const range = text.split(/\s+or\s+/).map((part) =>
    part
      .split(/\s+and\s+/)
      .map(rubyRange)
      .join(' '),
  )
  return refuseVersion(
    { language: 'Elixir', program: 'mix', from: 'mix.exs', text, range: range.join(' || ') },
    versions,
  )
}

function notesOf({ app, versions }: DetectorSource, mix: string): string[] {
  const asked = [{ from: '.tool-versions', text: toolVersion(app, 'elixir') }]
  return [
    ...(/\{\s*:phoenix\s*,/.test(mix)
      ? ['Phoenix: set SECRET_KEY_BASE (mix phx.gen.secret), PHX_HOST, and DATABASE_URL where the app has a database.']
      : []),
    ...noteVersionFiles({ language: 'Elixir', program: 'mix' }, asked, versions),
  ]
}
