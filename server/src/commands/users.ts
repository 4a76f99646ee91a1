import { Command } from 'commander'
import { setupUrl } from '../features/accounts/setup-url.ts'
import { publicOrigin } from '../platform/config.ts'
import { runningAt } from './local-server.ts'
import { CommandError, change, dataDirOption, printTable, type StateFlags, withState } from './shared.ts'

interface SetupLinkFlags extends StateFlags {
  readonly account?: string
  readonly url?: string
}

export function usersCommand(): Command {
  const users = new Command('users').description('invite, list and remove users of the dashboard')
  users
    .command('setup-link')
    .description('print a link that creates one user, valid for an hour')
    .option('--account <id>', "the account that the user belongs to (the operator's)")
    .option(
      '--url <address>',
      "the dashboard's address, if others reach it by another one than FAIRLEAD_HOST and FAIRLEAD_PORT",
    )
    .addOption(dataDirOption())
    .action((flags: SetupLinkFlags) =>
      withState(flags, async (administration, config) => {
        const { accounts, users } = administration
        const accountId = flags.account ?? (await accounts.ensureOperator())
        if ((await accounts.get(accountId)) === undefined) {
          throw new CommandError(`There is no account ${accountId}. See: fairlead accounts list`)
        }
        const token = await change(administration, async (transaction, record) => {
          await record({ accountId, operation: 'users.setup_link', resourceId: null })
          return users.createSetupLink(accountId, transaction)
        })
        const running = await runningAt(config.dataDirectory)
        const port = running === undefined ? config.port : Number(new URL(running).port || 80)
        process.stdout.write(`${setupUrl(flags.url ?? publicOrigin(config, port), token)}\n`)
      }),
    )
  users
    .command('list')
    .description('list all users')
    .addOption(dataDirOption())
    .action((flags: StateFlags) =>
      withState(flags, async ({ users }) => {
        const rows = (await users.list()).map((user) => [
          user.id,
          user.accountId,
          user.createdAt.toISOString(),
          user.email,
        ])
        printTable([['ID', 'ACCOUNT', 'CREATED', 'E-MAIL'], ...rows])
      }),
    )
  users
    .command('delete')
    .description('remove a user and end all of their sessions at once')
    .argument('<id>', 'the id of the user (user_…)')
    .addOption(dataDirOption())
    .action((id: string, flags: StateFlags) =>
      withState(flags, (administration) =>
        change(administration, async (transaction, record) => {
          const deleted = await administration.users.delete(transaction, id)
          if (deleted === undefined) throw new CommandError(`There is no user ${id}. See: fairlead users list`)
          await record({ accountId: deleted.accountId, operation: 'users.delete', resourceId: id })
        }),
      ),
    )
  return users
}
