import { Command, Help } from 'commander'

/** A command that is loaded when it is called. The help of the program needs only its usage and description. */
export interface LazyCommand {
  readonly usage: string
  readonly description: string
  readonly isHidden?: true
  load(): Promise<Command>
}

/** Loads the command that the arguments call, and adds only usage and description of the other commands. */
export async function addLazily(
  program: Command,
  commands: readonly LazyCommand[],
  args: readonly string[],
): Promise<Command> {
  const words = args.filter((arg) => !arg.startsWith('-'))
  const called = words[0] === 'help' ? words[1] : words[0]
  const usages = new Map(commands.map(({ usage }) => [nameIn(usage), usage]))
  const { subcommandTerm } = new Help()
  program.configureHelp({ subcommandTerm: (command) => usages.get(command.name()) ?? subcommandTerm(command) })
  for (const { usage, description, isHidden, load } of commands) {
    const name = nameIn(usage)
    const command = name === called ? await load() : new Command(name).description(description)
    program.addCommand(command, { hidden: isHidden === true })
  }
  return program
}

const nameIn = (usage: string): string => usage.split(' ')[0] ?? usage
