import { Command } from 'commander'
import type { Administration } from '../administration.ts'
import { ApiError } from '../contract/errors.ts'
import { type BodyOutput, operations } from '../contract/operations.ts'
import { parseBody } from '../http/validation.ts'
import { CommandError, change, dataDirOption, printTable, type StateFlags, withState } from './shared.ts'

interface AddFlags extends StateFlags {
  readonly issuer?: string
  readonly repository?: string
  readonly repositoryId?: string
  readonly branch?: string
  readonly tag?: string
  readonly environment?: string
  readonly event?: string
  readonly workflow?: string
  readonly claim?: readonly string[]
}

interface ListFlags extends StateFlags {
  readonly project?: string
}

export function trustCommand(): Command {
  return new Command('trust')
    .description('let workflows deploy to a project without a stored key')
    .addCommand(addCommand())
    .addCommand(listCommand())
    .addCommand(removeCommand())
}

function addCommand(): Command {
  return new Command('add')
    .description("trust a repository's workflows, and print the id of the rule")
    .argument('<project>', 'the id of the project (proj_…)')
    .option('--issuer <address>', "the issuer of the tokens (GitHub's)")
    .option('--repository <name>', 'the name of the repository, such as acme/shop')
    .option('--repository-id <id>', 'its id: gh api repos/OWNER/NAME --jq .id')
    .option('--branch <name>', 'only this branch; here and below, * stands for any characters')
    .option('--tag <name>', 'only this tag')
    .option('--environment <name>', 'only jobs with this environment')
    .option('--event <name>', 'only runs that this event started, such as push')
    .option('--workflow <file>', 'only this workflow, such as deploy.yml')
    .option('--claim <name=value...>', 'only tokens with this claim')
    .addOption(dataDirOption())
    .action((project: string, flags: AddFlags) =>
      withState(flags, async (administration) => {
        process.stdout.write(`${await addRule(administration, project, ruleOf(flags))}\n`)
      }),
    )
}

function listCommand(): Command {
  return new Command('list')
    .description('list the rules of all projects')
    .option('--project <id>', 'only the rules of this project')
    .addOption(dataDirOption())
    .action((flags: ListFlags) =>
      withState(flags, async ({ trust }) => {
        const rows = (await trust.all(flags.project)).map((rule) => [
          rule.id,
          rule.project_id,
          rule.repository ?? '-',
          rule.repository_id ?? '-',
          conditionsOf(rule),
          rule.last_used_at?.toISOString() ?? '-',
          rule.issuer,
        ])
        printTable([['ID', 'PROJECT', 'REPOSITORY', 'REPOSITORY ID', 'ONLY', 'LAST USED', 'ISSUER'], ...rows])
      }),
    )
}

function removeCommand(): Command {
  return new Command('remove')
    .description('remove a rule, and end the keys that it allowed')
    .argument('<id>', 'the id of the rule (trust_…)')
    .addOption(dataDirOption())
    .action((id: string, flags: StateFlags) =>
      withState(flags, async (administration) => {
        const rule = (await administration.trust.all()).find((known) => known.id === id)
        if (rule === undefined) throw new CommandError(`There is no rule ${id}. See: fairlead trust list`)
        await change(administration, async (transaction, record) => {
          await administration.trust.delete(transaction, rule.project_id, id)
          await record({ accountId: rule.account_id, operation: 'trust.delete', resourceId: id })
        })
      }),
    )
}

type Rule = BodyOutput<'trust.create'>

async function addRule(administration: Administration, projectId: string, rule: Rule): Promise<string> {
  const { accounts, tenancy, trust } = administration
  for (const { id: accountId } of await accounts.list()) {
    const project = await tenancy.find(accountId, projectId)
    if (project === undefined) continue
    return change(administration, async (transaction, record) => {
      const { id } = await trust.create(transaction, project, rule)
      await record({ accountId, operation: 'trust.create', resourceId: id })
      return id
    })
  }
  throw new CommandError(`There is no project ${projectId}.`)
}

function ruleOf({ repositoryId, claim = [], dataDir, ...flags }: AddFlags): Rule {
  const schema = operations.find(({ name }) => name === 'trust.create')?.body
  if (schema === undefined) throw new Error('the contract has no trust.create')
  const claims = Object.fromEntries(
    claim.map((given) => {
      const [, name = '', value = ''] = /^([^=]+)=(.+)$/.exec(given) ?? []
      if (name === '') throw new CommandError(`--claim must be a name and a value, such as sub=1234, not ${given}.`)
      return [name, value]
    }),
  )
  try {
    return parseBody(schema, { ...flags, claims, ...(repositoryId && { repository_id: repositoryId }) }) as Rule
  } catch (error) {
    if (error instanceof ApiError) throw new CommandError(asFlags(error.message))
    throw error
  }
}

/** Names a field as the command line does: `repository_id: is required` becomes `--repository-id is required`. */
function asFlags(message: string): string {
  return message.replace(/^([\w.]+): (.*)$/, (_, field: string, problem: string) => {
    const [name = ''] = field.split('.')
    return `--${(name === 'claims' ? 'claim' : name).replaceAll('_', '-')} ${problem}.`
  })
}

const conditions = ['branch', 'tag', 'environment', 'event', 'workflow'] as const

function conditionsOf(
  rule: Readonly<Record<(typeof conditions)[number], string | null>> & {
    readonly claims: Readonly<Record<string, string>>
  },
): string {
  const own = conditions.map((name): [string, string | null] => [name, rule[name]])
  const all = [...own, ...Object.entries(rule.claims)].filter(([, value]) => value !== null)
  return all.length === 0 ? '-' : all.map(([name, value]) => `${name}=${value}`).join(' ')
}
