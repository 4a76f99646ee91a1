type Claims = Readonly<Record<string, unknown>>

/** The claims of a repository and of its id, by issuer: GitHub and Forgejo, GitLab, Buildkite, CircleCI. */
const names = ['repository', 'project_path', 'oidc.circleci.com/vcs-origin']
const ids = ['repository_id', 'project_id', 'pipeline_id', 'oidc.circleci.com/project-id']

/**
 * Returns the command by which a project trusts the repository of a token, as far as its claims tell; null when they tell no
 * repository. It is for people: the server alone decides.
 */
export function ruleFor(token: string, project: string): string | null {
  const claims = claimsOf(token)
  const text = (name: string): string | undefined => {
    const value = claims[name]
    // Nothing that a shell would read as more than a word.
    return typeof value === 'string' && /^[\w./:@-]{1,255}$/.test(value) ? value : undefined
  }
  const first = (of: readonly string[]) => of.map(text).find((value) => value !== undefined)
  const [organization, pipeline] = [text('organization_slug'), text('pipeline_slug')]
  const repository = organization && pipeline ? `${organization}/${pipeline}` : first(names)
  const [issuer, id] = [text('iss'), first(ids)]
  if (issuer === undefined || repository === undefined) return null
  const event = text('event_name') ?? text('pipeline_source')
  return [
    `fairlead trust add ${project} --issuer ${issuer} --repository ${repository}`,
    ...(id === undefined ? [] : [`--repository-id ${id}`]),
    ...(event !== undefined && /(pull|merge)_request/.test(event) ? [`--event ${event}`] : []),
  ].join(' ')
}

function claimsOf(token: string): Claims {
  try {
    return Object(JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8'))) as Claims
  } catch {
    return {}
  }
}
