import { Command, Help } from 'commander'

/** A command that is loaded when it is called. The help of the program only needs what it is and what it does. */
export interface LazyCommand {
  /** The command with its options and arguments, as it is named in a list. */
  readonly usage: string
  readonly description: string
  readonly isHidden?: true
  load(): Promise<Command>
}

/** Adds to a program the command that its arguments call, and the names of all others. */
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
