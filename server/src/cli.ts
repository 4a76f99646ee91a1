import { Command } from 'commander'
import { accountsCommand } from './commands/accounts.ts'
import { apiCommand } from './commands/api.ts'
import { doctorCommand } from './commands/doctor.ts'
import { keysCommand } from './commands/keys.ts'
import { postgresCommand } from './commands/postgres.ts'
import { reloadCommand } from './commands/reload.ts'
import { selfCheckCommand } from './commands/self-check.ts'
import { serveCommand } from './commands/serve.ts'
import { serviceCommand } from './commands/service.ts'
import { statusCommand } from './commands/status.ts'
import { stopCommand } from './commands/stop.ts'
import { updateCommand } from './commands/update.ts'
import { usersCommand } from './commands/users.ts'
import { ownVersion } from './platform/versions/own-package.ts'

const program = new Command('fairlead')
  .description('Fairlead, a cloud platform that you run yourself')
  .version(ownVersion)
  .addCommand(serveCommand())
  .addCommand(statusCommand())
  .addCommand(stopCommand())
  .addCommand(serviceCommand())
  .addCommand(doctorCommand())
  .addCommand(keysCommand())
  .addCommand(accountsCommand())
  .addCommand(usersCommand())
  .addCommand(postgresCommand())
  .addCommand(apiCommand())
  .addCommand(reloadCommand())
  .addCommand(updateCommand())
  .addCommand(selfCheckCommand(), { hidden: true })

// The reader of a pipe has ended, such as `head`, and wants no more.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
  process.exit()
})

try {
  await program.parseAsync()
} catch (error) {
  process.stderr.write(`fairlead: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = 1
}
