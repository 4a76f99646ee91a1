import { randomUUID } from 'node:crypto'
import { appendFileSync } from 'node:fs'

/**
 * The runner's protocol, as far as it is used: workflow commands on the standard output, and the files that the
 * environment names (docs.github.com, "Workflow commands for GitHub Actions"). `@actions/core` speaks it as well, but
 * loads a whole HTTP client at its start, which doubles the start of the action.
 */

/** The trimmed text of an input; empty when it was not given. */
export function getInput(name: string): string {
  return (process.env[`INPUT_${name.replaceAll(' ', '_').toUpperCase()}`] ?? '').trim()
}

/** What the step before saved; empty when it saved nothing. */
export function getState(name: string): string {
  return process.env[`STATE_${name}`] ?? ''
}

export function saveState(name: string, value: string | number): void {
  appendEntry('GITHUB_STATE', name, String(value))
}

/** Throws when the runner's file cannot be written. */
export function setOutput(name: string, value: string | number | boolean): void {
  appendEntry('GITHUB_OUTPUT', name, String(value))
}

/** Hides a text in everything that is printed from now on. */
export function setSecret(secret: string): void {
  command('add-mask', secret)
}

export function info(text: string): void {
  process.stdout.write(`${text}\n`)
}

export function notice(message: string): void {
  command('notice', message)
}

export function warning(message: string): void {
  command('warning', message)
}

/** Shows an error and fails the step at its end. */
export function setFailed(message: string): void {
  process.exitCode = 1
  command('error', message)
}

export function startGroup(title: string): void {
  command('group', title)
}

export function endGroup(): void {
  command('endgroup', '')
}

function command(name: string, data: string): void {
  info(`::${name}::${data.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A')}`)
}

/** Where there is no runner, there is no file, and nobody who would read it. */
function appendEntry(variable: string, name: string, value: string): void {
  const path = process.env[variable]
  // Nobody can guess it, so no value can end early and go on as another one.
  const delimiter = `ghadelimiter_${randomUUID()}`
  if (path) appendFileSync(path, `${name}<<${delimiter}\n${value}\n${delimiter}\n`)
}
