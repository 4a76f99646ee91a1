import { Command } from 'commander'
import { apiCommand } from './api.ts'
import { certificatesCommand } from './certificates.ts'
import { importCommand } from './compose/import.ts'
import type { LocalServer } from './connection.ts'
import { deployCommand, promoteCommand } from './deploy.ts'
import { domainsCommand } from './domains.ts'
import { envCommand } from './env.ts'
import { gitCommand } from './git.ts'
import { linksCommand } from './links.ts'
import { loginCommand } from './login.ts'
import { logsCommand } from './logs.ts'
import { metricsCommand } from './metrics.ts'
import { openCommand } from './open.ts'
import { psCommand, scaleCommand } from './processes.ts'
import { registriesCommand } from './registries.ts'
import { runCommand } from './run.ts'
import { runsCommand, schedulesCommand } from './schedules.ts'
import { volumesCommand } from './volumes.ts'

/**
 * Returns the program with the commands that use the HTTP API. Both `@fairlead/cli` and the server's own command line
 * have these commands. The server's command line also finds a server on the same machine.
 */
export function clientProgram(description: string, version: string, local?: LocalServer): Command {
  const program = new Command('fairlead').description(description).version(version)
  for (const command of clientCommands(local)) program.addCommand(command)
  return program
}

const clientCommands = (local: LocalServer | undefined): Command[] => [
  deployCommand(local),
  logsCommand(local),
  openCommand(local),
  envCommand(local),
  psCommand(local),
  scaleCommand(local),
  metricsCommand(local),
  gitCommand(local),
  linksCommand(local),
  volumesCommand(local),
  domainsCommand(local),
  certificatesCommand(local),
  registriesCommand(local),
  promoteCommand(local),
  runCommand(local),
  runsCommand(local),
  schedulesCommand(local),
  importCommand(local),
  loginCommand(local),
  apiCommand(),
]
