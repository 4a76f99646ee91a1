import { type ActionRun, runAction } from '../../run-action.ts'
import { created, KEY, PROJECT, type Script, scriptedServer, seen } from '../support.ts'

interface Run extends Omit<ActionRun, 'inputs'> {
  readonly inputs?: Readonly<Record<string, string>>
}

/** Runs the action against a server that follows the script. */
export async function run(script: Script, { inputs = {}, ...rest }: Run = {}) {
  await using server = await scriptedServer(script)
  const given = { 'api-url': server.url, 'api-key': KEY, 'project-id': PROJECT, ...inputs }
  const result = await runAction({ inputs: given, ...rest })
  const { requests, url, count } = server
  return { ...result, errors: errorsIn(result.stdout), requests, url, count }
}

/** Returns the messages of the error annotations, decoded as the runner decodes them. */
export function errorsIn(stdout: string): readonly string[] {
  return [...stdout.matchAll(/^::error title=Fairlead::(.*)$/gm)].map(([, message = '']) =>
    message.replaceAll('%0A', '\n').replaceAll('%0D', '\r').replaceAll('%25', '%'),
  )
}

/** Returns the workflow commands that the runner would execute: all commands outside `stop-commands` and its token. */
export function commandsIn(stdout: string): readonly string[] {
  let resume: string | undefined
  const commands: string[] = []
  for (const line of stdout.split(/\r\n|\r|\n/)) {
    if (resume !== undefined) {
      if (line === resume) resume = undefined
      continue
    }
    const stop = /^::stop-commands::(.+)$/.exec(line)
    if (stop) resume = `::${stop[1]}::`
    else if (line.trimStart().startsWith('::') || line.includes('##[')) commands.push(line)
  }
  return commands
}

/** A script in which the deployment runs at the first poll. */
export const running: Script = { create: created, polls: [seen('running')] }
