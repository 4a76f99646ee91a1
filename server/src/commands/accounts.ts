import { Command, Option } from 'commander'
import { isTier, type Tier, tiers } from '../platform/plans.ts'
import { CommandError, dataDirOption, nameOf, printTable, type StateFlags, wholeNumber, withState } from './shared.ts'

interface AccountFlags extends StateFlags {
  readonly name?: string
  readonly plan?: string
  readonly requestsPerHour?: number | 'plan'
}

export function accountsCommand(): Command {
  const accounts = new Command('accounts').description('create, list and update accounts')
  accounts
    .command('create')
    .description('create an account and print its id')
    .requiredOption('--name <name>', 'the name of the account')
    .addOption(planOption().default('free'))
    .addOption(limitOption())
    .addOption(dataDirOption())
    .action((flags: AccountFlags) =>
      withState(flags, async ({ accounts }) => {
        const { id } = await accounts.create({
          name: nameOf(flags.name ?? ''),
          plan: tierOf(flags.plan),
          requestsPerHour: ownLimit(flags.requestsPerHour),
        })
        process.stdout.write(`${id}\n`)
      }),
    )
  accounts
    .command('list')
    .description('list all accounts')
    .addOption(dataDirOption())
    .action((flags: StateFlags) =>
      withState(flags, async ({ accounts }) => {
        const rows = (await accounts.list()).map(({ id, plan, requestsPerHour, name }) => [
          id,
          plan,
          requestsPerHour?.toString() ?? 'plan',
          name,
        ])
        printTable([['ID', 'PLAN', 'REQUESTS/H', 'NAME'], ...rows])
      }),
    )
  accounts
    .command('update')
    .description('change the name, the plan or the rate limit of an account')
    .argument('<id>', 'the id of the account (acct_…)')
    .option('--name <name>', 'the new name')
    .addOption(planOption())
    .addOption(limitOption())
    .addOption(dataDirOption())
    .action(async (id: string, flags: AccountFlags) => {
      if (flags.name === undefined && flags.plan === undefined && flags.requestsPerHour === undefined) {
        throw new CommandError('Give --name, --plan or --requests-per-hour.')
      }
      await withState(flags, async ({ accounts }) => {
        const changed = await accounts.update(id, {
          ...(flags.name === undefined ? {} : { name: nameOf(flags.name) }),
          ...(flags.plan === undefined ? {} : { plan: tierOf(flags.plan) }),
          ...(flags.requestsPerHour === undefined ? {} : { requestsPerHour: ownLimit(flags.requestsPerHour) }),
        })
        if (changed === undefined) throw new CommandError(`There is no account ${id}. See: fairlead accounts list`)
      })
    })
  return accounts
}

const planOption = () => new Option('--plan <plan>', 'the tier of the account').choices(tiers)

const limitOption = () =>
  new Option('--requests-per-hour <n>', "a separate rate limit, or 'plan' for the limit of its plan").argParser(
    (given) => (given === 'plan' ? given : wholeNumber(1, 100_000_000)(given)),
  )

function tierOf(plan = ''): Tier {
  if (!isTier(plan)) throw new CommandError(`--plan must be one of: ${tiers.join(', ')}.`)
  return plan
}

function ownLimit(given: number | 'plan' = 'plan'): number | null {
  return given === 'plan' ? null : given
}
