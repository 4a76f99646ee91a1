/**
 * The source of an app that tries all forbidden operations and answers with the results; in a build it prints them. Its
 * variables name the targets: `DATA`, `SERVER_PID`, `OTHER_PID`, `OTHER_SOURCE`, `SOCKETS`.
 */
export const spy = `
const { readFileSync, readdirSync, writeFileSync } = require('node:fs')
const { connect } = require('node:net')
const { join } = require('node:path')
const tried = {}
const attempt = (name, what) => {
  try { const got = what(); tried[name] = got === undefined ? 'done' : String(got) } catch (error) { tried[name] = error.code ?? 'error' }
}
const { DATA, SERVER_PID, OTHER_PID, OTHER_SOURCE, SOCKETS } = process.env
for (const path of ['secret.key', 'postgres/data/PG_VERSION', 'git/config']) attempt('read ' + path, () => readFileSync(join(DATA, path)))
for (const path of ['', 'apps', 'logs', 'git', 'files', 'postgres', 'databases']) attempt('list ' + path, () => readdirSync(join(DATA, path)))
for (const path of ['', 'apps', 'runtime', 'runtime/bin', 'logs']) attempt('write ' + path, () => writeFileSync(join(DATA, path, 'planted'), ''))
attempt('overwrite npm', () => writeFileSync(join(DATA, 'runtime/bin/npm'), 'x', { flag: 'a' }))
for (const [who, pid] of [['server', SERVER_PID], ['other', OTHER_PID]]) {
  attempt(who + ' variables', () => readFileSync('/proc/' + pid + '/environ'))
  attempt(who + ' memory', () => readFileSync('/proc/' + pid + '/mem'))
  attempt(who + ' files', () => readdirSync('/proc/' + pid + '/fd'))
  attempt(who + ' folder', () => readdirSync('/proc/' + pid + '/cwd'))
  attempt(who + ' root', () => readdirSync('/proc/' + pid + '/root'))
  attempt(who + ' signal', () => { process.kill(Number(pid), 0) })
}
attempt('other source', () => readFileSync(join(OTHER_SOURCE, 'server.js')))
attempt('list other source', () => readdirSync(OTHER_SOURCE))
const environment = Object.keys(process.env).sort()
let everyone = ''
for (const pid of readdirSync('/proc')) { try { everyone += readFileSync('/proc/' + pid + '/environ', 'latin1') } catch {} }
const socket = connect(SOCKETS)
const finish = (state) => {
  tried['server socket'] = state
  const told = JSON.stringify({ tried, environment, sees: everyone.includes('the-others-secret'), groups: process.getgroups?.(), uid: process.getuid?.() })
  if (process.env.PORT === undefined) console.log(told)
  else require('node:http').createServer((request, response) => response.end(told)).listen(process.env.PORT)
}
socket.once('connect', () => { socket.destroy(); finish('done') })
socket.once('error', (error) => finish(error.code))
`

export interface Findings {
  /** The result of each attempt: its return value, `done`, or the code of the error. */
  readonly tried: Readonly<Record<string, string>>
  /** The names of its variables. */
  readonly environment: readonly string[]
  /** True when it saw the secret `the-others-secret` among the variables of any process. */
  readonly sees: boolean
  readonly groups: readonly number[]
  readonly uid: number
}

const refusals = new Set(['EACCES', 'EPERM', 'ENOENT', 'ESRCH', 'ECONNREFUSED', 'ENOTDIR', 'EROFS'])

/** In a sandbox the parent folders of an app's folders exist, and are otherwise empty. */
export const ownFolders: Readonly<Record<string, RegExp>> = {
  'list ': /^apps,runtime$/,
  'list apps': /^app_[0-9a-z]+$/,
}

/** Returns the attempts that succeeded, except those with an allowed result. */
export function successes({ tried }: Findings, allowed: Readonly<Record<string, RegExp>> = {}): [string, string][] {
  return Object.entries(tried).filter(([name, got]) => !refusals.has(got) && allowed[name]?.test(got) !== true)
}
