import { Command } from 'commander'
import { apiCommand } from './api/api.ts'
import { importCommand } from './compose/import.ts'
import { deployCommand } from './deploy.ts'
import { envCommand } from './env.ts'
import type { LocalServer } from './local.ts'
import { loginCommand } from './login.ts'
import { logsCommand } from './logs.ts'
import { certificatesCommand } from './of-accounts/certificates.ts'
import { domainsCommand } from './of-apps/domains.ts'
import { gitCommand } from './of-apps/git.ts'
import { linksCommand } from './of-apps/links.ts'
import { metricsCommand } from './of-apps/metrics.ts'
import { promoteCommand } from './of-apps/promote.ts'
import { volumesCommand } from './of-apps/volumes.ts'
import { registriesCommand } from './of-projects/registries.ts'
import { runCommand } from './one-off/run.ts'
import { runsCommand } from './one-off/runs.ts'
import { schedulesCommand } from './one-off/schedules.ts'
import { openCommand } from './open.ts'
import { psCommand, scaleCommand } from './processes.ts'

/**
 * Returns the program with the commands that talk to a server by HTTP. They are those of `@fairlead/cli`, and the server's own
 * command has them, too, which also finds a server of its machine.
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
