/** Type prefixes of the public identifiers, followed by `_` and 26 base32 characters of a UUIDv7 (TypeID). */
export const idPrefixes = {
  account: 'acct',
  key: 'key',
  project: 'proj',
  app: 'app',
  deployment: 'dep',
  run: 'run',
  schedule: 'sched',
  source: 'src',
  registry: 'reg',
  webhook: 'wh',
  event: 'evt',
  delivery: 'dlv',
  database: 'db',
  snapshot: 'snap',
  file: 'file',
  user: 'user',
  session: 'ses',
  auditEntry: 'aud',
  trust: 'trust',
  link: 'link',
  domain: 'dom',
  certificate: 'cert',
} as const

export type IdKind = keyof typeof idPrefixes

/** True when `id` has the form of an identifier of this kind. */
export function isId(kind: IdKind, id: string): boolean {
  const prefix = `${idPrefixes[kind]}_`
  return id.startsWith(prefix) && /^[0-7][0-9a-hjkmnp-tv-z]{25}$/.test(id.slice(prefix.length))
}
