import { Command, Option } from 'commander'
import type { ResponseBody } from '../../contract/client.ts'
import { CommandError } from './command-error.ts'
import type { Connection, LocalServer } from './connection.ts'
import { type AppFlags, type AppParams, appCommand, withNamedApp } from './find-app.ts'
import { printable } from './logs.ts'

type Schedule = ResponseBody<'schedules.get'>

export function schedulesCommand(local?: LocalServer): Command {
  const part = (name: string, description: string) => appCommand(name, description, local)
  const at: At = (flags, app, work) =>
    withNamedApp(local, flags, app, ({ connection, params }) => work(connection, params))
  return new Command('schedules')
    .description('run commands of an app at times, and see how they went')
    .addCommand(
      part('list', 'print the schedules of an app').action((app: string, flags: AppFlags) => at(flags, app, list)),
    )
    .addCommand(addCommand(part('add', 'run a command at the times of five fields, such as "30 4 * * 1-5"'), at))
    .addCommand(
      part('remove', 'remove a schedule')
        .argument('<name>', 'the name of the schedule')
        .action((app: string, name: string, flags: AppFlags) =>
          at(flags, app, async (connection, params) => {
            const { id } = await scheduleNamed(connection, params, name)
            await connection.client.schedules.delete({ params: { ...params, id } })
          }),
        ),
    )
    .addCommand(
      part('runs', 'print the runs of a schedule, the newest first')
        .argument('<name>', 'the name of the schedule')
        .action((app: string, name: string, flags: AppFlags) =>
          at(flags, app, (connection, params) => runs(connection, params, name)),
        ),
    )
    .addCommand(
      part('output', 'print what a run of a schedule has printed last')
        .argument('<run>', 'the id of the run, run_…')
        .action((app: string, id: string, flags: AppFlags) =>
          at(flags, app, (connection, params) => output(connection, params, id)),
        ),
    )
}

type At = (
  flags: AppFlags,
  app: string,
  work: (connection: Connection, params: AppParams) => Promise<void>,
) => Promise<void>

type AddFlags = AppFlags & Pick<Schedule, 'timezone' | 'overlap'>

const addCommand = (part: Command, at: At): Command =>
  part
    .argument('<name>', 'a name in lower-case letters, digits and hyphens')
    .argument('<times>', 'minute, hour, day of the month, month, day of the week')
    .argument('<command...>', 'the program and its arguments, after --')
    .option('--timezone <name>', 'such as Europe/Berlin', 'UTC')
    .addOption(
      new Option('--overlap <rule>', 'at a time when the earlier run has not ended')
        .choices(['forbid', 'allow', 'replace'])
        .default('forbid'),
    )
    .action(
      (app: string, name: string, schedule: string, command: string[], { timezone, overlap, ...flags }: AddFlags) =>
        at(flags, app, async ({ client }, params) => {
          const body = { name, schedule, command, timezone, overlap }
          const { next_at } = await client.schedules.create({ params, body })
          process.stdout.write(`${name} runs next at ${next_at}\n`)
        }),
    )

async function output({ client }: Connection, params: AppParams, id: string): Promise<void> {
  printOutput(await client.runs.get({ params: { ...params, id } }))
}

async function list({ client }: Connection, params: AppParams): Promise<void> {
  for await (const { schedules } of client.schedules.list.pages({ params })) {
    for (const { name, schedule, timezone, next_at, command } of schedules) {
      const line = [name, `${schedule} (${timezone})`, `next ${next_at}`, command.join(' ')].join('\t')
      process.stdout.write(`${printable(line)}\n`)
    }
  }
}

async function runs(connection: Connection, params: AppParams, name: string): Promise<void> {
  const { id: schedule_id } = await scheduleNamed(connection, params, name)
  for await (const page of connection.client.runs.list.pages({ params, query: { schedule_id } })) {
    for (const { id, due_at, status, exit_code, problem } of page.runs) {
      const line = [due_at ?? '', status, exit_code === null ? '' : `status ${exit_code}`, problem ?? '', id].join('\t')
      process.stdout.write(`${printable(line)}\n`)
    }
  }
}

async function scheduleNamed({ client }: Connection, params: AppParams, name: string): Promise<Schedule> {
  for await (const { schedules } of client.schedules.list.pages({ params })) {
    const found = schedules.find((each) => each.name === name)
    if (found !== undefined) return found
  }
  throw new CommandError(`The app has no schedule ${name}.`)
}

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

/** Prints the stored output of a run; without output, prints the reason to standard error. */
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
