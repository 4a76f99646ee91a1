import { Command } from 'commander'
import type { ResponseBody } from '../../../contract/client.ts'
import { printable } from '../follow.ts'
import type { LocalServer } from '../local.ts'
import { type AppFlags, appCommand, withNamedApp } from '../of-apps/command.ts'

/** `fairlead runs list|logs|cancel APP` */
export function runsCommand(local?: LocalServer): Command {
  return new Command('runs')
    .description('list the commands that ran beside an app, see what they printed, and end those that run')
    .addCommand(
      appCommand('list', 'print the commands of an app, the newest first', local).action(
        (app: string, flags: AppFlags) =>
          withNamedApp(local, flags, app, async ({ connection, params }) => {
            for await (const { runs } of connection.client.runs.list.pages({ params })) {
              for (const { id, created_at, status, problem, command } of runs) {
                const line = [created_at, status, problem ?? '', id, command.join(' ')].join('\t')
                process.stdout.write(`${printable(line)}\n`)
              }
            }
          }),
      ),
    )
    .addCommand(
      appCommand('logs', 'print the last of what a command has printed, also one of a schedule', local)
        .argument('<run>', 'the id of the run, run_…')
        .action((app: string, id: string, flags: AppFlags) =>
          withNamedApp(local, flags, app, async ({ connection, params }) => {
            printOutput(await connection.client.runs.get({ params: { ...params, id } }))
          }),
        ),
    )
    .addCommand(
      appCommand('cancel', 'end a command, also one of a schedule', local)
        .argument('<run>', 'the id of the run, run_…')
        .action((app: string, id: string, flags: AppFlags) =>
          withNamedApp(local, flags, app, async ({ connection, params }) => {
            const { status } = await connection.client.runs.cancel({ params: { ...params, id } })
            process.stderr.write(status === 'running' ? 'The command is being ended.\n' : `The command is ${status}.\n`)
          }),
        ),
    )
}

/** Prints the output that is stored of a run; on the standard error, why there is none. */
export function printOutput({ output, terminal, finished_at }: ResponseBody<'runs.get'>): void {
  if (output === null) {
    const why = terminal
      ? 'The output of a terminal is not stored.'
      : finished_at === null
        ? 'Its output is stored when it ends.'
        : 'No output is stored.'
    process.stderr.write(`${why}\n`)
    return
  }
  for (const line of output.replace(/\n$/, '').split('\n')) process.stdout.write(`${printable(line)}\n`)
}
