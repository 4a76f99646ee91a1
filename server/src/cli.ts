import { accountsCommand } from './commands/accounts.ts'
import { clientProgram } from './commands/client/commands.ts'
import { run } from './commands/client/run.ts'
import { doctorCommand } from './commands/doctor.ts'
import { keysCommand } from './commands/keys.ts'
import { localServer } from './commands/local-server.ts'
import { postgresCommand } from './commands/postgres.ts'
import { reloadCommand } from './commands/reload.ts'
import { selfCheckCommand } from './commands/self-check.ts'
import { serveCommand } from './commands/serve.ts'
import { serviceCommand } from './commands/service.ts'
import { statusCommand } from './commands/status.ts'
import { stopCommand } from './commands/stop.ts'
import { trustCommand } from './commands/trust.ts'
import { updateCommand } from './commands/update.ts'
import { usersCommand } from './commands/users.ts'
import { ownVersion } from './platform/versions/own-package.ts'

const program = clientProgram('Fairlead, a cloud platform that you run yourself', ownVersion, localServer)
  .addCommand(serveCommand())
  .addCommand(statusCommand())
  .addCommand(stopCommand())
  .addCommand(serviceCommand())
  .addCommand(doctorCommand())
  .addCommand(keysCommand())
  .addCommand(trustCommand())
  .addCommand(accountsCommand())
  .addCommand(usersCommand())
  .addCommand(postgresCommand())
  .addCommand(reloadCommand())
  .addCommand(updateCommand())
  .addCommand(selfCheckCommand(), { hidden: true })

await run(program)
