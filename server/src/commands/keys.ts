import { Command, Option } from 'commander'
import { isPreset, presets } from '../accounts/scopes.ts'
import type { Administration } from '../administration.ts'
import { CommandError, dataDirOption, nameOf, printTable, type StateFlags, withState } from './shared.ts'

interface CreateFlags extends StateFlags {
  readonly name: string
  readonly preset: string
  readonly project?: string[]
  readonly account?: string
}

/** `fairlead keys create|list|revoke` */
export function keysCommand(): Command {
  const keys = new Command('keys').description('make, list and revoke API keys')
  keys
    .command('create')
    .description('make an API key and print it; it is shown this one time')
    .requiredOption('--name <name>', 'what the key is for')
    .addOption(new Option('--preset <preset>', 'what it may do').choices(Object.keys(presets)).default('full'))
    .option('--project <id...>', 'bind it to these projects')
    .option('--account <id>', "the account it belongs to (the operator's)")
    .addOption(dataDirOption())
    .action((flags: CreateFlags) =>
      withState(flags, async (administration) => {
        process.stdout.write(`${await createKey(administration, flags)}\n`)
      }),
    )
  keys
    .command('list')
    .description('list all API keys')
    .addOption(dataDirOption())
    .action((flags: StateFlags) =>
      withState(flags, async ({ keys }) => {
        const rows = (await keys.list()).map((key) => [
          key.id,
          key.accountId,
          key.createdAt.toISOString(),
          key.lastUsedAt?.toISOString() ?? '-',
          key.revokedAt === null ? 'active' : 'revoked',
          key.name,
        ])
        printTable([['ID', 'ACCOUNT', 'CREATED', 'LAST USED', 'STATE', 'NAME'], ...rows])
      }),
    )
  keys
    .command('revoke')
    .description('end an API key; it holds at once')
    .argument('<id>', 'the id of the key (key_…)')
    .addOption(dataDirOption())
    .action((id: string, flags: StateFlags) =>
      withState(flags, async ({ keys }) => {
        if (!(await keys.revoke(id))) throw new CommandError(`There is no key ${id}. See: fairlead keys list`)
      }),
    )
  return keys
}

async function createKey({ accounts, keys, tenancy }: Administration, flags: CreateFlags): Promise<string> {
  const accountId = flags.account ?? (await accounts.ensureOperator())
  if ((await accounts.get(accountId)) === undefined) {
    throw new CommandError(`There is no account ${accountId}. See: fairlead accounts list`)
  }
  for (const id of flags.project ?? []) {
    if ((await tenancy.find(accountId, id)) === undefined) {
      throw new CommandError(`The account ${accountId} has no project ${id}.`)
    }
  }
  if (!isPreset(flags.preset)) throw new CommandError(`There is no preset ${flags.preset}.`)
  const { key } = await keys.create({
    accountId,
    name: nameOf(flags.name),
    scopes: presets[flags.preset],
    projectIds: flags.project ?? null,
  })
  return key
}
