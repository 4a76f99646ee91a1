import { z } from 'zod'
import type { Declarations } from './declaration.ts'
import { printable, required, timestamp } from './fields.ts'

export const gitHubIssuer = 'https://token.actions.githubusercontent.com'

export const mostTrustRules = 100

const longest = 255

const exact = z
  .string(required('a string'))
  .min(1, 'must not be empty')
  .max(longest, `must be at most ${longest} characters`)
  .refine((value) => value.isWellFormed() && printable.test(value), 'must not contain control characters')

/** A pattern in which `*` matches any characters. */
const pattern = exact.refine((value) => value.split('*').length <= 4, 'must have at most three *')

const withoutWildcard = exact.refine((value) => !value.includes('*'), 'must be exact: it cannot have a *')

const issuer = withoutWildcard
  .refine(
    isIssuer,
    'must be the address of the issuer, such as https://gitlab.example.com, as its tokens have it in iss',
  )
  .describe("The issuer of the tokens, exactly as they have it in `iss`. Defaults to GitHub's.")

/** True for a normalised https address without a query (OpenID Connect Discovery 1.0, section 3). */
function isIssuer(value: string): boolean {
  if (!URL.canParse(value)) return false
  const { protocol, href, search, hash, username, password } = new URL(value)
  return protocol === 'https:' && `${search}${hash}${username}${password}` === '' && [value, `${value}/`].includes(href)
}

const mostClaims = 10

const conditions = z.object({
  repository: withoutWildcard
    .optional()
    .describe(
      "The repository's name, such as `acme/shop`: `repository` of GitHub and Forgejo, `project_path` of GitLab, " +
        '`organization_slug/pipeline_slug` of Buildkite, `vcs-origin` of CircleCI.',
    ),
  repository_id: withoutWildcard
    .optional()
    .describe(
      "The repository's id, which no other repository ever gets: `repository_id` of GitHub and Forgejo, `project_id` of " +
        'GitLab, `pipeline_id` of Buildkite, `project-id` of CircleCI.',
    ),
  branch: pattern.optional().describe('The branch. Here and below, `*` stands for any characters.'),
  tag: pattern.optional().describe('The tag, in place of a branch.'),
  environment: pattern.optional().describe('The environment of the job.'),
  event: pattern
    .optional()
    .describe(
      'The event that started the run, such as `push`. Without it, or with a `*`, every event except pull requests;' +
        ' name them: `pull_request`, or `merge_request_event` of GitLab.',
    ),
  workflow: pattern.optional().describe("The file of the workflow, such as `deploy.yml`; of GitLab, the file's path."),
  claims: z
    .record(withoutWildcard, pattern, { error: 'must be an object of strings' })
    .refine((claims) => Object.keys(claims).length <= mostClaims, `must be at most ${mostClaims} claims`)
    .default({})
    .describe('Further claims by their names, which the other fields do not cover. Only texts match.'),
})

const newTrust = z
  .object({ issuer: issuer.default(gitHubIssuer), ...conditions.shape })
  .superRefine((rule, context) => {
    for (const [field, message] of problemsOf(rule)) {
      context.addIssue({ code: 'custom', path: field.split('.'), message })
    }
  })
  .meta({
    examples: [{ repository: 'acme/shop', repository_id: '700100200', branch: 'main' }],
  })

/** Returns the missing and contradicting fields of a rule, each with a message. */
function problemsOf(rule: z.output<typeof conditions> & { readonly issuer: string }): [string, string][] {
  const { repository, repository_id: id, claims } = rule
  const kind = issuerKind(rule.issuer)
  const problems: [string, string][] = []
  const byRepository = repository !== undefined || id !== undefined || kind === 'github'
  if (kind === 'google' && repository !== undefined) problems.push(['repository', 'does not exist at this issuer'])
  if (kind === 'google' && id !== undefined) problems.push(['repository_id', 'does not exist at this issuer'])
  if (byRepository && kind !== 'google') {
    if (repository === undefined) problems.push(['repository', 'is required'])
    if (id === undefined && kind !== 'buildkite' && kind !== 'forgejo') {
      problems.push(['repository_id', 'is required: a name alone could belong to somebody else one day'])
    }
  } else if (claims['sub'] === undefined || /^\*+$/.test(claims['sub'])) {
    problems.push(['claims.sub', 'is required without a repository'])
  }
  if (rule.branch !== undefined && rule.tag !== undefined) {
    problems.push(['tag', 'cannot be given together with branch: a run has one of them'])
  }
  if (rule.event === 'pull_request_target') {
    problems.push(['event', 'cannot be pull_request_target: it also runs for forks, and its token does not tell them'])
  }
  return problems
}

const text = z.string().nullable()

export const trust = z.object({
  id: z.string().describe('`trust_…`.'),
  issuer: z.string(),
  repository: text,
  repository_id: text,
  branch: text,
  tag: text,
  environment: text,
  event: text,
  workflow: text,
  claims: z.record(z.string(), z.string()),
  created_at: timestamp,
  last_used_at: timestamp.nullable().describe('The time of the last exchange that it allowed.'),
})

/** The workflow run that a key was created for. Fields are `null` if the issuer does not tell. */
export const workflowRun = z.object({
  trust_id: z.string().describe('The rule that allowed it.'),
  issuer: z.string(),
  repository: text,
  run_url: text.describe('The address of the run.'),
  actor: text.describe('The name of who started it.'),
  event: text,
  ref: text.describe('Such as `refs/heads/main`.'),
  workflow: text.describe('The file of the workflow.'),
  environment: text,
})
export type WorkflowRun = z.output<typeof workflowRun>

export const trustOperations = {
  'trust.list': {
    summary: 'List the trust of a project',
    description: 'All rules by which the project trusts runs of workflows, newest first.',
    response: z.object({ trust: z.array(trust) }),
  },
  'trust.create': {
    summary: 'Trust a workflow',
    description:
      'Lets runs of workflows exchange a token of their issuer for a key that may deploy to this project, at ' +
      '`POST /oidc/token`. A token must match all fields of one rule. A project has at most 100 rules.',
    body: newTrust,
    response: trust,
  },
  'trust.delete': {
    summary: 'Remove trust',
    description: 'The rule allows no further tokens, and the keys that it allowed stop working at once.',
  },
} as const satisfies Declarations<'trust'>

/** `other` issuers use the claim names of GitHub or GitLab. */
export type IssuerKind = 'github' | 'gitlab' | 'forgejo' | 'buildkite' | 'circleci' | 'google' | 'other'

/** Known issuers by address, from their documentation. */
const known: readonly (readonly [RegExp, IssuerKind])[] = [
  [/^https:\/\/token\.actions\.githubusercontent\.com(\/|$)/, 'github'],
  // GitHub Enterprise Server.
  [/^https:\/\/[^/]+\/_services\/token$/, 'github'],
  [/^https:\/\/gitlab\.com$/, 'gitlab'],
  [/\/api\/actions$/, 'forgejo'],
  [/^https:\/\/agent\.buildkite\.com$/, 'buildkite'],
  [/^https:\/\/[^/]+\/org\/[^/]+$/, 'circleci'],
  [/^https:\/\/accounts\.google\.com$/, 'google'],
]

export function issuerKind(issuer: string): IssuerKind {
  return known.find(([address]) => address.test(issuer))?.[1] ?? 'other'
}
