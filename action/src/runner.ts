import { randomUUID } from 'node:crypto'
import { appendFileSync } from 'node:fs'

/**
 * The part of the runner's protocol that is used here: workflow commands on the standard output, and files named in the
 * environment (docs.github.com, "Workflow commands for GitHub Actions"). `@actions/core` implements it, too, but loads an
 * HTTP client, which doubles the time that the action needs to start.
 */

/** Returns the trimmed text of an input; empty when not given. */
export function getInput(name: string): string {
  return (process.env[`INPUT_${name.replaceAll(' ', '_').toUpperCase()}`] ?? '').trim()
}

/** Returns a value that the main step has saved for the post step; empty when there is none. */
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

/** Masks a text in everything that is printed from now on. */
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

/** Shows an error and makes the step fail when it ends. */
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

/** Appends to a file of the runner. Does nothing outside of a runner, where there is no such file. */
function appendEntry(variable: string, name: string, value: string): void {
  const path = process.env[variable]
  // Random, so that no value can contain it and inject another entry.
  const delimiter = `ghadelimiter_${randomUUID()}`
  if (path) appendFileSync(path, `${name}<<${delimiter}\n${value}\n${delimiter}\n`)
}
