/** The job of a CI that runs a command, by the variables that the CI documents. */
export interface CiJob {
  readonly ci: string
  /** The branch that the job builds; null for a tag, or where the CI does not say. */
  readonly branch: string | null
  /** The name of the repository, without that of its owner; null where the CI does not say. */
  readonly repository: string | null
  readonly tokens: CiTokens
}

/** The way to the OIDC tokens of a job. */
export type CiTokens =
  /** Tokens that the job was given, each of which counts once. `missing` says how to get one. */
  | { readonly kind: 'given'; readonly tokens: readonly string[]; readonly missing: string }
  /** An address that answers with one. `missing` says how to get the address. */
  | { readonly kind: 'request'; readonly url: string; readonly bearer: string; readonly missing: string }
  /** A program of the CI that prints one. */
  | { readonly kind: 'program'; readonly program: string; readonly arguments: (audience: string) => readonly string[] }

type Environment = Readonly<Record<string, string | undefined>>

/** The variables that a job on GitLab names in its `id_tokens`: each token counts once, so long builds need several. */
export const tokenVariables = ['FAIRLEAD_ID_TOKEN', 'FAIRLEAD_ID_TOKEN_2', 'FAIRLEAD_ID_TOKEN_3', 'FAIRLEAD_ID_TOKEN_4']

/** Returns the job of a CI whose variables the environment has; null outside of a CI that is known. */
export function ciJob(environment: Environment): CiJob | null {
  if (environment['GITLAB_CI'] === 'true') return gitlab(environment)
  if (environment['BUILDKITE'] === 'true') return buildkite(environment)
  if (environment['CIRCLECI'] === 'true') return circle(environment)
  // Forgejo has the variables of GitHub's runner, too.
  return environment['GITHUB_ACTIONS'] === 'true' || environment['FORGEJO_ACTIONS'] === 'true'
    ? actions(environment)
    : null
}

function gitlab(environment: Environment): CiJob {
  return {
    ci: 'GitLab CI',
    // Pipelines of merge requests have no CI_COMMIT_BRANCH.
    branch: environment['CI_COMMIT_BRANCH'] || environment['CI_MERGE_REQUEST_SOURCE_BRANCH_NAME'] || null,
    repository: environment['CI_PROJECT_NAME'] || null,
    tokens: {
      kind: 'given',
      tokens: tokenVariables.flatMap((name) => environment[name] || []),
      missing: 'Give the job id_tokens: FAIRLEAD_ID_TOKEN: aud: followed by the address of the server',
    },
  }
}

function buildkite(environment: Environment): CiJob {
  return {
    ci: 'Buildkite',
    branch: environment['BUILDKITE_TAG'] ? null : environment['BUILDKITE_BRANCH'] || null,
    repository: environment['BUILDKITE_PIPELINE_SLUG'] || null,
    tokens: {
      kind: 'program',
      program: 'buildkite-agent',
      // The id of the pipeline, which rules of trust can ask for, is in tokens only on request.
      arguments: (audience) => ['oidc', 'request-token', '--audience', audience, '--claim', 'pipeline_id'],
    },
  }
}

/** The tokens in variables of CircleCI have the organization as their audience, so one with another audience is asked for. */
function circle(environment: Environment): CiJob {
  return {
    ci: 'CircleCI',
    branch: environment['CIRCLE_BRANCH'] || null,
    repository: environment['CIRCLE_PROJECT_REPONAME'] || null,
    tokens: {
      kind: 'program',
      program: 'circleci',
      arguments: (audience) => ['run', 'oidc', 'get', '--claims', JSON.stringify({ aud: audience })],
    },
  }
}

function actions(environment: Environment): CiJob {
  const isForgejo = environment['FORGEJO_ACTIONS'] === 'true'
  const ref = environment['GITHUB_HEAD_REF'] || environment['GITHUB_REF_NAME'] || null
  return {
    ci: isForgejo ? 'Forgejo Actions' : 'GitHub Actions',
    branch: environment['GITHUB_REF_TYPE'] === 'tag' ? null : ref,
    repository: environment['GITHUB_REPOSITORY']?.split('/').at(-1) || null,
    tokens: {
      kind: 'request',
      url: environment['ACTIONS_ID_TOKEN_REQUEST_URL'] ?? '',
      bearer: environment['ACTIONS_ID_TOKEN_REQUEST_TOKEN'] ?? '',
      missing: isForgejo
        ? 'Give the workflow enable-openid-connect: true'
        : 'Give the job permissions: id-token: write',
    },
  }
}
