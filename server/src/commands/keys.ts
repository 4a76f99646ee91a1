import { Command, Option } from 'commander'
import type { Administration } from '../administration.ts'
import type { Scope } from '../contract/routes.ts'
import type { StoredKey } from '../features/accounts/keys.ts'
import { allScopes, isPreset, isScope, presets } from '../features/accounts/scopes.ts'
import {
  CommandError,
  change,
  dataDirOption,
  nameOf,
  printTable,
  type StateFlags,
  wholeNumber,
  withState,
} from './shared.ts'

interface CreateFlags extends StateFlags {
  readonly new?: true
  readonly name: string
  readonly preset: string
  readonly scopes?: string[]
  readonly project?: string[]
  readonly account?: string
  readonly expiresInDays?: number
}

interface RotateFlags extends StateFlags {
  readonly overlapHours: number
}

export function keysCommand(): Command {
  return new Command('keys')
    .description('create, list, rotate and revoke API keys')
    .addCommand(createCommand())
    .addCommand(listCommand())
    .addCommand(rotateCommand())
    .addCommand(revokeCommand())
}

export async function createKey(
  administration: Administration,
  flags: Omit<CreateFlags, keyof StateFlags>,
): Promise<string> {
  const { accounts, keys, tenancy } = administration
  const accountId = flags.account ?? (await accounts.ensureOperator())
  if ((await accounts.get(accountId)) === undefined) {
    throw new CommandError(`There is no account ${accountId}. See: fairlead accounts list`)
  }
  for (const id of flags.project ?? []) {
    if ((await tenancy.find(accountId, id)) === undefined) {
      throw new CommandError(`The account ${accountId} has no project ${id}.`)
    }
  }
  const days = flags.expiresInDays
  const made = await change(administration, async (transaction, record) => {
    const created = await keys.create(
      {
        accountId,
        name: nameOf(flags.name),
        scopes: scopesOf(flags),
        projectIds: flags.project ?? null,
        lifeMs: days === undefined ? null : days * 24 * 60 * 60 * 1000,
      },
      transaction,
    )
    await record({ accountId, operation: 'apiKeys.create', resourceId: created.id })
    return created
  })
  return made.key
}

function createCommand(): Command {
  return new Command('create')
    .description('create an API key and print it; it is not shown again')
    .requiredOption('--name <name>', 'what the key is for')
    .addOption(new Option('--preset <preset>', 'what the key may do').choices(Object.keys(presets)).default('full'))
    .option('--scopes <scope...>', `scopes in place of a preset: ${allScopes.join(', ')}`)
    .option('--project <id...>', 'restrict the key to these projects')
    .option('--account <id>', "the account of the key (the operator's)")
    .option('--expires-in-days <days>', 'when the key expires (never)', wholeNumber(1, 3650))
    .option('--new', 'create the data directory, if no server has been started with it yet')
    .addOption(dataDirOption())
    .action((flags: CreateFlags) => {
      const work = async (administration: Administration) => {
        process.stdout.write(`${await createKey(administration, flags)}\n`)
      }
      return withState(flags, work, { mayCreate: flags.new === true })
    })
}

function listCommand(): Command {
  return new Command('list')
    .description('list all API keys')
    .addOption(dataDirOption())
    .action((flags: StateFlags) =>
      withState(flags, async ({ keys }) => {
        const rows = (await keys.list()).map((key) => [
          key.id,
          key.accountId,
          `${key.hint}…`,
          key.createdAt.toISOString(),
          key.lastUsedAt?.toISOString() ?? '-',
          key.expiresAt?.toISOString() ?? '-',
          stateOf(key),
          key.name,
        ])
        printTable([['ID', 'ACCOUNT', 'KEY', 'CREATED', 'LAST USED', 'EXPIRES', 'STATE', 'NAME'], ...rows])
      }),
    )
}

function rotateCommand(): Command {
  return new Command('rotate')
    .description('create an API key with the same rights and print it; the old one stays valid for a while')
    .argument('<id>', 'the id of the key (key_…)')
    .option('--overlap-hours <hours>', 'how long the old key stays valid', wholeNumber(0, 168), 24)
    .addOption(dataDirOption())
    .action((id: string, flags: RotateFlags) =>
      withState(flags, async (administration) => {
        const made = await change(administration, async (transaction, record) => {
          const rotated = await administration.keys.rotate(id, flags.overlapHours, { within: transaction })
          if (rotated === undefined) throw new CommandError(`There is no key ${id}. See: fairlead keys list`)
          if (rotated === 'ended') throw new CommandError(`The key ${id} is revoked or expired; create a new one.`)
          if (rotated === 'workflow')
            throw new CommandError(`The key ${id} belongs to a workflow run; create another key.`)
          await record({ accountId: rotated.accountId, operation: 'apiKeys.rotate', resourceId: rotated.id })
          return rotated
        })
        process.stdout.write(`${made.key}\n`)
      }),
    )
}

function revokeCommand(): Command {
  return new Command('revoke')
    .description('revoke an API key at once')
    .argument('<id>', 'the id of the key (key_…)')
    .addOption(dataDirOption())
    .action((id: string, flags: StateFlags) =>
      withState(flags, (administration) =>
        change(administration, async (transaction, record) => {
          const revoked = await administration.keys.revoke(id, { within: transaction })
          if (revoked === undefined) throw new CommandError(`There is no key ${id}. See: fairlead keys list`)
          await record({ accountId: revoked.accountId, operation: 'apiKeys.delete', resourceId: id })
        }),
      ),
    )
}

function scopesOf({ preset, scopes }: Pick<CreateFlags, 'preset' | 'scopes'>): readonly Scope[] {
  if (scopes === undefined) return isPreset(preset) ? presets[preset] : []
  // Separate arguments, joined by commas, or both.
  return [...new Set(scopes.flatMap((given) => given.split(',')))].map((scope) => {
    if (!isScope(scope)) throw new CommandError(`There is no scope ${scope}. There are: ${allScopes.join(', ')}.`)
    return scope
  })
}

function stateOf({ revokedAt, expiresAt }: StoredKey): string {
  if (revokedAt !== null) return 'revoked'
  return expiresAt !== null && expiresAt.getTime() <= Date.now() ? 'expired' : 'active'
}
